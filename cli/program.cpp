#include "program.hpp"

#include <unistd.h>

#include <fstream>

namespace saddle::cli {

std::vector<std::string> own_words() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

void continue_as(const std::filesystem::path& program) {
  std::vector<std::string> words = own_words();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (!words.empty()) ::execv(program.c_str(), pointers.data());
}

}  // namespace saddle::cli
