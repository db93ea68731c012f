// Sequences of events: a type and a time each.
#pragma once

#include "saddle/base/error.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"

namespace saddle::data {

// Line i of the one file has the types of sequence i, whole numbers from 1, line i of the other their times, which
// never go back; separated by blanks. Names of the types from 1, possibly none. The samples have no label: the next
// event is what there is to predict. Throws DataError.
DatasetPtr read_events(const ContentsPtr& types, const ContentsPtr& times, Description description,
                       const std::vector<std::string>& names, std::vector<DataError>* problems = nullptr);

}  // namespace saddle::data
