// apps: loft guard -- COMMAND ARGS.
#include "measure/guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/apps.h"
#include "core/error.h"
#include "measure/guard_lock.h"

namespace loft {
namespace {

// --hold and --status judge nothing, so a flag that says how to judge is a misunderstanding.
void refuse_flags_beside(const ParsedArgs& args, std::string_view mode, std::initializer_list<std::string_view> fine) {
  const auto rows = option_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_fine = std::find(fine.begin(), fine.end(), rows[i].name) != fine.end();
    if (args.sources[i] == Source::Flag && !is_fine) fail(Code::BadRequest, "{} takes no {}", mode, rows[i].flag);
  }
}

}  // namespace

int run_guard(const ParsedArgs& args) {
  const Options& o = args.options;
  if (o.status) {
    refuse_flags_beside(args, "--status", {"status", "guard_lock"});
    if (!args.rest.empty()) fail(Code::BadRequest, "--status takes no COMMAND");
    const LockStatus status = lock_status(o.guard_lock, o.guard_proc_dir);
    fmt::print("{}\n", status.text);
    return status.is_held ? 1 : 0;
  }
  if (o.hold) refuse_flags_beside(args, "--hold", {"hold", "max_wait", "guard_lock", "quiet", "verbose"});
  if (args.rest.empty())
    fail(Code::BadRequest, "loft guard: COMMAND is missing; wanted loft guard [options] -- COMMAND");
  return guard_command(o, args.rest, process_environment());
}

}  // namespace loft
