// Data sets that are made, not read: the same options and seed give the same samples anywhere.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "saddle/data/dataset.hpp"

namespace saddle::data {

struct GeneratorOption {
  std::string name, help;
  double fallback = 0, low = 0, high = 0;  // both ends included
  bool whole = true;
};

struct Generator {
  std::string name, summary;
  Kind kind = Kind::series;
  std::vector<GeneratorOption> options;
  // From options as text. Throws InvalidArgument for names that are not among `options` and values outside of them.
  std::function<Task(const std::map<std::string, std::string>&)> make;
};

const std::vector<Generator>& generators();

// "listops" or "listops(min=20,max=100,train=2000,seed=1)": a generator's name, alone or with options. The task is
// called by what differs from the defaults. Throws InvalidArgument.
Task generated(const std::string& text);

// Whether the text begins with the name of a generator and has the form above.
bool is_generated(const std::string& text);

}  // namespace saddle::data
