#include "saddle/version.hpp"

#include <gtest/gtest.h>

#include <string>

namespace saddle {
namespace {

TEST(Version, LibraryAndHeaderAgree) {
  const std::string numbers = std::to_string(SADDLE_VERSION_MAJOR) + "." + std::to_string(SADDLE_VERSION_MINOR) + "." +
                              std::to_string(SADDLE_VERSION_PATCH);
  EXPECT_EQ(numbers, SADDLE_VERSION);
  EXPECT_STREQ(version(), SADDLE_VERSION);
}

}  // namespace
}  // namespace saddle
