// Whatever a file claims, reading it takes memory in proportion to its bytes, not to the numbers in it.
#include <gtest/gtest.h>

#include <cstring>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"
#include "tests/counted_allocations.hpp"

#if SADDLE_COUNTS_ALLOCATIONS

namespace saddle::io {
namespace {

using namespace allocations;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_size = 0) {
  std::vector<std::byte> bytes(8 + header.size() + data_size);
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// `count` members of an object, with keys of their own.
std::string members(const std::string& value, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + value;
  return all;
}

// A vector grows to twice what it needs, a name of a few bytes takes a node of a hundred.
void expect_in_proportion(const std::vector<std::byte>& file, bool valid) {
  const std::size_t before = live;
  peak = before;
  largest = 0;
  bool parsed = true;
  try {
    parse_safetensors(file, "x");
  } catch (const DataError&) {
    parsed = false;
  }
  EXPECT_EQ(parsed, valid);
  EXPECT_LE(largest, 2 * file.size() + 4096);
  EXPECT_LE(peak - before, 20 * file.size() + 65536);
}

constexpr std::size_t many = 100'000;
const std::string empty = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";

TEST(SafetensorsMemory, CountsWhatTheLibraryAllocates) {
  expect_in_proportion(file_of("{}" + std::string(many, ' ')), true);
  EXPECT_GE(largest, many);
}

TEST(SafetensorsMemory, LargeNumbers) {
  const auto f32 = [](const std::string& shape, const std::string& offsets) {
    return file_of(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", 8);
  };
  expect_in_proportion(f32("[2]", "[0,8]"), true);
  expect_in_proportion(f32("[1000000000000]", "[0,4000000000000]"), false);
  expect_in_proportion(f32("[1000000000000]", "[0,8]"), false);
  expect_in_proportion(f32("[4611686018427387904,4]", "[0,8]"), false);
  expect_in_proportion(f32("[9223372036854775807,0]", "[0,8]"), false);
  expect_in_proportion(f32("[2]", "[9223372036854775799,9223372036854775807]"), false);
  for (const std::uint64_t size : {std::uint64_t{1} << 30, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::vector<std::byte> file = file_of("{}");
    std::memcpy(file.data(), &size, 8);
    expect_in_proportion(file, false);
  }
}

TEST(SafetensorsMemory, LongLists) {
  const std::string numbers = "[0" + repeated(",0", many) + "]";
  expect_in_proportion(file_of(R"({"w":{"dtype":"U8","shape":)" + numbers + R"(,"data_offsets":[0,0]}})"), false);
  expect_in_proportion(file_of(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":)" + numbers + "}}"), false);
  expect_in_proportion(file_of(R"({"w":{"dtype":"U8","shape":)" + repeated("[", many)), false);
  expect_in_proportion(file_of(repeated("{\"w\":", many)), false);
}

TEST(SafetensorsMemory, LongTexts) {
  const std::string text(many, 'x'), escaped = repeated("\\u0001", many);
  for (const std::string& name : {text, escaped}) {
    expect_in_proportion(file_of("{\"" + name + "\":" + empty + "}"), true);
    expect_in_proportion(file_of("{\"" + name + "\":1}"), false);
    expect_in_proportion(file_of("{\"w\":{\"" + name + "\":1}}"), false);
    expect_in_proportion(file_of("{\"__metadata__\":{\"" + name + "\":\"" + name + "\"}}"), true);
    expect_in_proportion(file_of("{\"w\":{\"dtype\":\"" + name + "\",\"shape\":[0],\"data_offsets\":[0,0]}}"), false);
    expect_in_proportion(file_of("{\"" + name), false);
  }
}

TEST(SafetensorsMemory, ManyMembers) {
  expect_in_proportion(file_of("{" + members(empty, many / 10) + "}"), true);
  expect_in_proportion(file_of("{" + members(empty, many / 10) + ",\"0\":" + empty + "}"), false);
  expect_in_proportion(file_of("{\"__metadata__\":{" + members("\"\"", many) + "}}"), true);
}

}  // namespace
}  // namespace saddle::io

#endif
