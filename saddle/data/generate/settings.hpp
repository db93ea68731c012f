// The options of a generator as numbers, and the splits that most of them have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "saddle/data/contents.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

class Settings {
 public:
  // What `given` lacks has its default. Throws InvalidArgument with the nearest name for unknown options.
  Settings(const std::string& generator, const std::vector<GeneratorOption>& options,
           const std::map<std::string, std::string>& given);

  Index whole(const std::string& option) const;
  double number(const std::string& option) const;
  std::uint64_t seed() const;
  // The generator's name, with the options that are not the default behind it.
  const std::string& name() const { return name_; }

 private:
  std::map<std::string, double> values_;
  std::string name_;
};

// Options train, validation, test (samples of each) and seed. Without a number for validation there is no such option.
std::vector<GeneratorOption> split_options(double train, double validation, double test);

// Hexadecimal, of the samples as they are held in memory.
template <class T>
std::string checksum_of(const std::vector<T>& values) {
  Checksum checksum;
  checksum.add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  return checksum.text();
}

}  // namespace saddle::data
