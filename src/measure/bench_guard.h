// measure: what a guard's record says of one test, as a result file keeps it. Pure.
#pragma once
#include <string>

#include "core/json.h"

namespace loft {

/// {verdict, attempts, rejected, samples, idle_wait_s, lock_wait_s, judge_cpu, sources, reasons, record_sha256} of the
/// text of a loft.guard/1 file: samples are those of the last attempt, reasons those of the first disturbed sample
/// (null where none was). Error: Corrupt for another text.
OrderedJson guard_summary(const std::string& record_text);

/// Whether the guard itself gave the status 75, not the command: no clean attempt came about.
bool is_contended(const OrderedJson& summary, int exit_status);
/// Why, in words.
std::string contended_text(const OrderedJson& summary);

}  // namespace loft
