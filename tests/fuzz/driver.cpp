// Runs a fuzz target without libFuzzer: first every file of the corpus, then mutations of them from a fixed seed.
//   fuzz_<name> [--iterations N] [--seed S] [file or folder]...
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "saddle/base/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::size_t pick(saddle::Stream& random, std::size_t bound) { return static_cast<std::size_t>(random.below(bound)); }

// Sorted, so that a run does not depend on the order of the directory.
std::vector<Bytes> read_corpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else if (std::filesystem::exists(path)) {
      files.emplace_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// One small change: a byte replaced, flipped, inserted, removed or repeated, a cut, or a piece of another input.
void mutate(Bytes& input, const std::vector<Bytes>& corpus, saddle::Stream& random) {
  const auto byte = static_cast<std::uint8_t>(random.below(4) == 0 ? random.below(256) : 32 + random.below(95));
  if (input.empty()) {
    input.push_back(byte);
    return;
  }
  const std::size_t at = pick(random, input.size());
  const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(7)) {
    case 0: input[at] = byte; break;
    case 1: input[at] = static_cast<std::uint8_t>(input[at] ^ 1u << random.below(8)); break;
    case 2: input.insert(here, byte); break;
    case 3: input.erase(here); break;
    case 4: input.insert(here, 1 + pick(random, 64), input[at]); break;
    case 5: input.resize(at); break;
    default: {
      const Bytes& other = corpus[pick(random, corpus.size())];
      if (other.empty()) break;
      const std::size_t from = pick(random, other.size());
      const std::size_t count = 1 + pick(random, std::min<std::size_t>(32, other.size() - from));
      const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
      input.insert(here, first, first + static_cast<std::ptrdiff_t>(count));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t iterations = 20000, seed = 1;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--iterations" || argument == "--seed") && i + 1 < argc) {
      (argument == "--seed" ? seed : iterations) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      paths.push_back(argument);
    }
  }

  std::vector<Bytes> corpus = read_corpus(paths);
  for (const Bytes& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  std::cout << corpus.size() << " corpus inputs, " << iterations << " mutations of them, seed " << seed << '\n';
  corpus.emplace_back();

  for (std::uint64_t i = 0; i < iterations; ++i) {
    saddle::Stream random(seed, "fuzz/" + std::to_string(i));
    Bytes input = corpus[pick(random, corpus.size())];
    for (std::uint64_t n = 1 + random.below(8); n > 0; --n) mutate(input, corpus, random);
    if (input.size() > 4096) input.resize(4096);
    // An exact copy on the heap: reading one byte too many is then visible to the sanitizers.
    const Bytes exact(input);
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }
}
