#include "saddle/io/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <variant>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle::io {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A reader of its own: nothing here is shared with the writer.
std::uint32_t bitwise_crc(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool flip = ((crc ^ static_cast<std::uint32_t>(static_cast<unsigned char>(byte) >> bit)) & 1U) != 0;
      crc = (crc >> 1) ^ (flip ? 0x82f63b78U : 0U);
    }
  return ~crc;
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

// The contents of every whole record. A checksum is stored rotated by 15 bits, plus a constant.
std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  const auto check = [](std::string_view bytes, std::uint32_t stored) {
    const std::uint32_t rotated = stored - 0xa282ead8U;
    EXPECT_EQ((rotated >> 17) | (rotated << 15), bitwise_crc(bytes));
  };
  while (file.size() >= 12) {
    const auto length = number_at<std::uint64_t>(file, 0);
    check(file.substr(0, 8), number_at<std::uint32_t>(file, 8));
    if (file.size() < length + 16) break;
    records.emplace_back(file.substr(12, length));
    check(records.back(), number_at<std::uint32_t>(file, 12 + length));
    file.remove_prefix(length + 16);
  }
  return records;
}

// Protocol buffers on the wire: field number to varint, 64 bits, bytes or 32 bits.
using Wire = std::variant<std::uint64_t, double, std::string, float>;
using Message = std::map<int, Wire>;

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    EXPECT_LT(shift, 70);
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

Message decode(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    const int field = static_cast<int>(key >> 3);
    EXPECT_FALSE(message.contains(field));
    switch (key & 7) {
      case 0: message[field] = take_varint(bytes); break;
      case 1:
        message[field] = number_at<double>(bytes, 0);
        bytes.remove_prefix(8);
        break;
      case 2: {
        const std::uint64_t size = take_varint(bytes);
        message[field] = std::string(bytes.substr(0, size));
        bytes.remove_prefix(size);
        break;
      }
      case 5:
        message[field] = number_at<float>(bytes, 0);
        bytes.remove_prefix(4);
        break;
      default: ADD_FAILURE() << "wire type " << (key & 7); return message;
    }
  }
  return message;
}

struct Scalar {
  std::string tag;
  std::int64_t step;
  float value;
  bool operator==(const Scalar&) const = default;
};

// Event: 1 wall_time, 2 step, 5 summary. Summary: 1 value. Value: 1 tag, 2 simple_value.
Scalar scalar_of(const std::string& record) {
  const Message event = decode(record);
  const Message value = decode(std::get<std::string>(decode(std::get<std::string>(event.at(5))).at(1)));
  EXPECT_GT(std::get<double>(event.at(1)), 1.6e9);
  return {std::get<std::string>(value.at(1)), static_cast<std::int64_t>(std::get<std::uint64_t>(event.at(2))),
          std::get<float>(value.at(2))};
}

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() {
    std::string pattern = (fs::temp_directory_path() / "saddle-events-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~EventFileTest() override { fs::remove_all(folder); }
  static std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder;
};

// RFC 3720, B.4, and the check value of the polynomial.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST_F(EventFileTest, BeginsWithItsVersion) {
  const EventFile file(folder);
  EXPECT_THAT(file.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  const auto records = records_of(contents(file.path()));
  ASSERT_EQ(records.size(), 1U);
  const Message event = decode(records[0]);
  EXPECT_EQ(std::get<std::string>(event.at(3)), "brain.Event:2");
  EXPECT_GT(std::get<double>(event.at(1)), 1.6e9);
  EXPECT_EQ(event.size(), 2U);
}

TEST_F(EventFileTest, Scalars) {
  const std::vector<Scalar> written{{"loss/train", 0, 0.5F},
                                    {"loss/train", 127, 1e-30F},
                                    {"accuracy/validation", 128, 1},
                                    {std::string(300, 'x'), std::int64_t{1} << 40, -2.25F},
                                    {"", 3, std::numeric_limits<float>::infinity()}};
  fs::path path;
  {
    EventFile file(folder);
    path = file.path();
    for (const Scalar& scalar : written) file.scalar(scalar.tag, scalar.step, static_cast<double>(scalar.value));
    file.scalar("nan", 4, std::nan(""));
  }
  const auto records = records_of(contents(path));
  ASSERT_EQ(records.size(), written.size() + 2);
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_EQ(scalar_of(records[i + 1]), written[i]);
  EXPECT_TRUE(std::isnan(scalar_of(records.back()).value));
}

TEST_F(EventFileTest, FlushWritesWholeRecords) {
  EventFile file(folder);
  file.scalar("a", 1, 1);
  file.flush();
  const std::string once = contents(file.path());
  EXPECT_EQ(records_of(once).size(), 2U);
  file.scalar("a", 2, 1);
  file.flush();
  EXPECT_THAT(contents(file.path()), testing::StartsWith(once));
  // A file that was cut off loses the last record only.
  EXPECT_EQ(records_of(contents(file.path()).substr(0, once.size() + 20)).size(), 2U);
}

TEST_F(EventFileTest, EveryStartHasAFileOfItsOwn) {
  std::vector<fs::path> paths;
  for (int i = 0; i < 12; ++i) paths.push_back(EventFile(folder).path());
  for (std::size_t i = 1; i < paths.size(); ++i) EXPECT_LT(paths[i - 1], paths[i]);
}

// SessionLog, field 7 of an event, with status START: steps from here on replace those of earlier files.
TEST_F(EventFileTest, AResumedRunSaysWhereItStarts) {
  const EventFile file(folder, 51);
  const auto records = records_of(contents(file.path()));
  ASSERT_EQ(records.size(), 2U);
  const Message event = decode(records[1]);
  EXPECT_EQ(std::get<std::uint64_t>(event.at(2)), 51U);
  EXPECT_EQ(std::get<std::uint64_t>(decode(std::get<std::string>(event.at(7))).at(1)), 1U);
}

TEST_F(EventFileTest, FailuresAreErrors) {
  EXPECT_THROW(EventFile(folder / "missing"), IoError);
  EventFile file(folder);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  file.scalar(std::string(200, 'x'), 1, 1);
  std::string message;
  try {
    file.flush();
  } catch (const IoError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("cannot write"), HasSubstr(file.path().string())));
  // Once there is room again nothing is missing.
  file.flush();
  EXPECT_EQ(records_of(contents(file.path())).size(), 2U);
}

}  // namespace
}  // namespace saddle::io
