// Any bytes, read as a .ts file, either throw saddle::Error or give series that hold together. What is wrong with
// single lines can be collected, and a file without such lines reads.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "saddle/data/ts.hpp"

namespace {

using namespace saddle::data;

void require(bool ok, const char* what) {
  if (ok) return;
  std::cerr << what << '\n';
  std::abort();
}

void check(const Dataset& data) {
  const Description& about = data.description();
  Sample sample;
  for (saddle::Index i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    require(sample.length > 0, "a series is empty");
    require(static_cast<saddle::Index>(sample.values.size()) == sample.length * about.channels, "values are missing");
    require(sample.label == data.label(i) && sample.label < static_cast<saddle::Index>(about.classes.size()),
            "the label is none of the classes");
    require(sample.length >= about.min_length && sample.length <= about.max_length, "a length is out of range");
    for (const float value : sample.values) require(std::isfinite(value), "a value is not finite");
  }
}

// Whether it reads.
bool read(const ContentsPtr& contents, const TsOptions& options) {
  try {
    check(*read_ts(contents, {}, options));
    return true;
  } catch (const saddle::Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ContentsPtr contents = contents_of(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  TsOptions options;
  const bool reads = read(contents, options);
  std::vector<saddle::DataError> problems;
  options.problems = &problems;
  const bool collected = read(contents, options);
  if (collected) require(reads == problems.empty(), "problems are collected exactly where reading fails");
  options = {};
  options.missing = Missing::refuse;
  options.labels_required = false;
  options.classes = std::vector<std::string>{"a", "b"};
  read(contents, options);
  return 0;
}
