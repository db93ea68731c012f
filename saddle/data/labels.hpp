// Class labels, which are text: numbered by their sorted order. Equal numbers are one label, see class_names.hpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::data {

class Labels {
 public:
  Labels() = default;                              // takes every label that comes
  explicit Labels(std::vector<std::string> only);  // these and no others; sorts them and drops repetitions

  bool fixed() const { return fixed_; }
  // -1 if there is no such label; while labels are still taken, numbers count in order of appearance.
  Index number(std::string_view label);
  // Ends taking labels and sorts them. Returns the number that each earlier number has become.
  std::vector<Index> sort();
  const std::vector<std::string>& names() const { return names_; }  // by number

 private:
  bool fixed_ = false;
  std::vector<std::string> names_;
  std::map<std::string, Index, std::less<>> numbers_;
};

}  // namespace saddle::data
