// A folder for the files of a test, and what most tests ask of a reader.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "saddle/base/error.hpp"
#include "saddle/data/dataset.hpp"

namespace saddle::data {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "saddle-data-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  }
  std::string write_packed(const std::string& name, const std::string& bytes) const {
    return write(name, packed(bytes));
  }
  static std::string packed(const std::string& bytes) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, bytes.size()) + 64, '\0'), in = bytes;
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  std::filesystem::path folder;
};

inline Sample sample_of(const Dataset& data, Index i) {
  Sample sample;
  data.read(i, sample);
  return sample;
}

// Two data sets with the same samples.
inline void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.description().classes, b.description().classes);
  EXPECT_EQ(a.description().checksum, b.description().checksum);
  EXPECT_EQ(a.description().min_length, b.description().min_length);
  EXPECT_EQ(a.description().max_length, b.description().max_length);
  for (Index i = 0; i < a.size(); ++i) {
    const Sample x = sample_of(a, i), y = sample_of(b, i);
    EXPECT_EQ(x.values, y.values) << i;
    EXPECT_EQ(x.tokens, y.tokens) << i;
    EXPECT_EQ(x.second, y.second) << i;
    EXPECT_EQ(x.length, y.length) << i;
    EXPECT_EQ(x.label, y.label) << i;
    EXPECT_EQ(a.label(i), x.label) << i;
    EXPECT_EQ(a.length(i), b.length(i)) << i;
  }
}

// The error must be at this place and say this.
inline void expect_data_error(const std::function<void()>& read, long line, long column, const std::string& message) {
  try {
    read();
    ADD_FAILURE() << "accepted, expected: " << message;
  } catch (const DataError& error) {
    EXPECT_EQ(error.line(), line) << error.what();
    EXPECT_EQ(error.column(), column) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
  }
}

}  // namespace saddle::data
