// Data sets that are lists of records: decoded from the bytes of a file when asked for, or held as numbers, or a choice
// of another data set's samples.
#pragma once

#include <functional>

#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"

namespace saddle::data {

struct Record {
  std::size_t offset = 0, size = 0;  // of its bytes in the file
  Index length = 0, label = -1;
};

// Fills all but length and label of an empty sample.
using Decode = std::function<void(std::string_view bytes, const Record& record, Sample& into)>;

// Sets the shortest and longest length in the description.
DatasetPtr records(Description description, ContentsPtr contents, std::vector<Record> list, Decode decode);

// Series in memory, one behind the other; of the records only length and label count.
DatasetPtr series_in_memory(Description description, std::vector<float> values, const std::vector<Record>& list);

// The chosen samples, in this order; the note, if any, goes to the description.
DatasetPtr subset(DatasetPtr data, std::vector<Index> samples, std::string split, std::string note = {});

// All samples of the parts, one part behind the other. The description is the first part's, with the files of all.
DatasetPtr concatenated(std::vector<DatasetPtr> parts, std::string checksum);

}  // namespace saddle::data
