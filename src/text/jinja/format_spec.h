// text/jinja: the format specification that format(), str.format and % share.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/operators.h"

namespace loft::jinja {

constexpr Int kMaxPrecision = 500;  // digits; more is no number that a template shows

/// [[fill]align][sign][#][0][width][grouping][.precision][type] of Python.
struct Spec {
  std::string fill{' '};
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  Int width = 0;
  char grouping = '\0';
  Int precision = -1;
  char type = '\0';
};

Spec parse_spec(std::string_view text);
/// The decimal number at pos, which moves past it; `fallback` when none stands there. Errors: BadRequest when it is
/// absurd.
Int number_at(std::string_view text, size_t& pos, Int fallback);

std::string format_real(Budget& budget, double f, const Spec& spec);
std::string format_int(Budget& budget, Int i, const Spec& spec);
std::string format_text(Budget& budget, const std::string& text, const Spec& spec);
/// The conversions !s, !r and !a.
std::string converted(const Value& v, char conversion);

/// For integers that % fills with zeros itself.
std::string digits_of(unsigned __int128 i, unsigned base, bool upper);
std::string sign_of(bool is_negative, const Spec& spec);
/// sign and body, filled up to the width.
std::string pad(Budget& budget, const std::string& sign, const std::string& body, const Spec& spec, char default_align);

}  // namespace loft::jinja
