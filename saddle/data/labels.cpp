#include "saddle/data/labels.hpp"

#include "saddle/data/class_names.hpp"

namespace saddle::data {

Labels::Labels(std::vector<std::string> only) : fixed_(true), names_(std::move(only)) { sort(); }

Index Labels::number(std::string_view label) {
  const auto found = numbers_.find(label);
  if (found != numbers_.end()) return found->second;
  if (fixed_) return class_number(names_, label);
  names_.emplace_back(label);
  return numbers_.emplace(names_.back(), static_cast<Index>(names_.size()) - 1).first->second;
}

std::vector<Index> Labels::sort() {
  fixed_ = true;
  const std::vector<std::string> before = names_;
  names_ = class_names(std::move(names_));
  numbers_.clear();
  for (std::size_t i = 0; i < names_.size(); ++i) numbers_[names_[i]] = static_cast<Index>(i);
  std::vector<Index> became;
  became.reserve(before.size());
  for (const std::string& name : before) became.push_back(class_number(names_, name));
  return became;
}

}  // namespace saddle::data
