// Text that a model makes cannot drive a terminal.
#include "apps/output.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

TEST(VisibleControls, OrdinaryTextPassesUnchanged) {
  const std::string text = "line\n\ttab é 日本 \xF0\x9F\x98\x80 \xC2\xA0";
  EXPECT_EQ(visible_controls(text), text);
}

TEST(VisibleControls, EscapesBecomeSigns) {
  EXPECT_EQ(visible_controls("\x1b[2J"), "\xe2\x90\x9b[2J");
  EXPECT_EQ(visible_controls("a\rb\x07"),
            "a\xe2\x90\x8d"
            "b\xe2\x90\x87");
  EXPECT_EQ(visible_controls(std::string(1, '\0')), "\xe2\x90\x80");
  EXPECT_EQ(visible_controls("\x7f"), "\xe2\x90\xa1");
  EXPECT_EQ(visible_controls("\xc2\x9b"
                             "2J"),
            "\xef\xbf\xbd"
            "2J")
      << "C1: the one-byte form of ESC [";
}

}  // namespace
}  // namespace loft
