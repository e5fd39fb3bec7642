// measure: the machine that a result was measured on, as Linux tells it. Text files enter through a function, so that
// tests show other machines.
#pragma once
#include <string>

#include "backend/cpu/cpu_info.h"
#include "core/json.h"

namespace loft {

/// "model name" of /proc/cpuinfo; "unknown" where there is none.
std::string cpu_name(const ReadText& read);

/// {name, kernel, cpu, cores, ram, governor, numa}: host name, release, processor, physical cores, bytes of memory,
/// frequency governor or null, nodes of memory.
OrderedJson host_json(const ReadText& read);

}  // namespace loft
