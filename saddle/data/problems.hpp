// Going on after a wrong line, to name more than the first.
#pragma once

#include <vector>

#include "saddle/base/error.hpp"

namespace saddle::data {

inline constexpr std::size_t most_problems = 20;

// Runs `read`. With a list, a DataError goes there instead of to the caller; false when the list is full.
template <class Function>
bool collect(std::vector<DataError>* problems, const Function& read) {
  try {
    read();
  } catch (const DataError& error) {
    if (problems == nullptr) throw;
    problems->push_back(error);
    return problems->size() < most_problems;
  }
  return true;
}

}  // namespace saddle::data
