// Time series in the .ts format of the UEA and UCR archives.
#pragma once

#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"
#include "saddle/data/missing.hpp"

namespace saddle::data {

// What the lines before @data say. Names of flags are read without regard to case, and every one may be missing.
struct TsHeader {
  // A flag and the line it stands in, for messages.
  template <class T>
  struct Flag {
    std::optional<T> value;
    long line = 0;
  };
  Flag<std::string> problem_name;
  Flag<bool> time_stamps, missing, univariate, equal_length, labelled;
  Flag<Index> dimensions, series_length;
  std::vector<std::string> labels;  // as listed, possibly none
  std::vector<std::string> notes;   // flags that mean nothing here

  bool has_labels() const { return labelled.value.value_or(true); }
};

// Reads up to and including the line @data. Throws DataError; NotSupported for time stamps and regression.
TsHeader read_ts_header(Lines& lines, const std::string& file);

struct TsOptions {
  Missing missing = Missing::interpolate;
  // The classes and channels of the training file; without, those of this file.
  std::optional<std::vector<std::string>> classes;
  Index channels = 0;
  bool labels_required = true;                 // else a file without labels is fine, and "?" is no label
  std::vector<DataError>* problems = nullptr;  // collects what is wrong with single series instead of throwing it
};

// name and split of the description are the caller's. With all series in memory unless the contents are on the disk.
DatasetPtr read_ts(const ContentsPtr& contents, Description description, const TsOptions& options);

}  // namespace saddle::data
