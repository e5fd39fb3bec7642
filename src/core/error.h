// core: the one exception type and the two checks. Kinds of failure and who uses which: ARCHITECTURE.md, "Errors".
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace loft {

/// Whose fault it is. One table maps a code to the exit status of the program and to an HTTP status.
enum class Code { BadRequest, NotFound, Unsupported, Corrupt, OutOfMemory, Device, NonFinite, Internal };

const char* code_name(Code code);
int exit_status(
    Code code);  ///< BadRequest 2; NotFound, Unsupported, Corrupt 3; OutOfMemory 4; Device, NonFinite 5; Internal 70
int http_status(Code code);  ///< BadRequest, Unsupported 400; NotFound 404; OutOfMemory 503; the rest 500

/// The world is wrong: a file, an option, a request, memory, a device. The message says what, found, wanted and where.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

[[noreturn]] void fail(Code code, const std::string& message);

template <class... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  fail(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Prints expression, note and place, then aborts. For our own mistakes only; input never reaches one.
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& note);

}  // namespace loft

#define LOFT_CHECK(expression) \
  ((expression) ? (void)0 : ::loft::check_failed(#expression, __FILE__, __LINE__, std::string()))
/// As LOFT_CHECK, with an fmt message that shows the values.
#define LOFT_CHECK_MSG(expression, ...) \
  ((expression) ? (void)0 : ::loft::check_failed(#expression, __FILE__, __LINE__, fmt::format(__VA_ARGS__)))
#ifdef NDEBUG
#define LOFT_DCHECK(expression) ((void)sizeof(!(expression)))
#else
#define LOFT_DCHECK(expression) LOFT_CHECK(expression)
#endif
