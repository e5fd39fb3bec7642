// The manual page names every subcommand and option, and holds nothing that roff would take for a command.
#include "apps/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace loft {
namespace {

using testing::HasSubstr;

TEST(ManPage, NamesEverySubcommandAndOption) {
  const std::string page = man_page();
  for (const Subcommand& c : subcommands()) EXPECT_THAT(page, HasSubstr(std::string(".B ") + c.name));
  for (const OptionRow& row : option_rows()) {
    std::string flag = row.flag;
    for (size_t at = 0; (at = flag.find('-', at)) != std::string::npos; at += 2) flag.insert(at, "\\");
    EXPECT_THAT(page, HasSubstr(".B " + flag));
  }
}

TEST(ManPage, LinesThatBeginWithADotAreOurOwn) {
  const std::set<std::string> commands = {".TH", ".SH", ".TP", ".B"};
  std::istringstream page(man_page());
  for (std::string line; std::getline(page, line);) {
    EXPECT_TRUE(!line.starts_with('.') || commands.contains(line.substr(0, line.find(' ')))) << line;
    EXPECT_FALSE(line.starts_with('\'')) << line;
  }
}

}  // namespace
}  // namespace loft
