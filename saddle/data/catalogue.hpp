// Data sets that are known by name because their files have a form of their own.
#pragma once

#include <filesystem>

#include "saddle/data/find.hpp"
#include "saddle/data/table.hpp"

namespace saddle::data {

struct Known {
  std::string name, summary;
  Kind kind;
  std::string folder;    // its files, below the places that are searched
  std::string package;   // another folder, of a package of the system; may be empty
  std::string key_file;  // stands in the folder when the data set is there, packed or not
  std::function<Task(const std::filesystem::path& folder, const Where& where)> open;
  std::string hint;  // how to get it
};

const std::vector<Known>& catalogue();

// Tables among them.
struct KnownTable {
  std::string name, train, test;  // files; without a test file a part is held out
  TableOptions options;           // how they are written
};
const std::vector<KnownTable>& known_tables();

// The folder with its files, if there is one.
std::optional<std::filesystem::path> folder_of(const Known& known, const Where& where);

}  // namespace saddle::data
