// Which files a data set consists of: where they are looked for, how they are read, which ones belong together.
#pragma once

#include <filesystem>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/data/find.hpp"

namespace saddle::data {

enum class Format { ts, table, idx, listops, bytes, pairs, tokens, image_text, events };

// The folders that are searched for a name, those that exist, in order. Throws InvalidArgument if the one that was
// asked for does not exist.
std::vector<std::filesystem::path> places(const Where& where);

// The file itself, or the one with .gz behind its name.
std::optional<std::filesystem::path> packed_or_not(const std::filesystem::path& file);

// From the name and, if that leaves it open, the first line. Throws InvalidArgument if the name says nothing.
Format format_of(const std::filesystem::path& file, const Where& where);

// Another part of the same data set: X_TEST.ts for X_TRAIN.ts, t10k-images-.. for train-images-.., packed or not.
// The names that are tried come from sibling_names, none if the name does not say that it is the training split.
std::vector<std::filesystem::path> sibling_names(const std::filesystem::path& file, const std::string& split);
std::optional<std::filesystem::path> sibling(const std::filesystem::path& file, const std::string& split);

// The file of labels that belongs to an IDX file of images, without .gz.
std::filesystem::path labels_of(const std::filesystem::path& images);

// The file of times that belongs to a file of types of events: X_time.txt for X_event.txt, packed or not. Throws
// InvalidArgument if the name does not say that it has types.
std::filesystem::path times_of(const std::filesystem::path& types);

// Reads a file; `like` is the training split's description when the file is not the training split. What is wrong with
// single samples goes to `problems`, if given, instead of to the caller.
DatasetPtr read_file(const std::filesystem::path& file, Format format, Description description, const Where& where,
                     const Description* like = nullptr, bool labels_required = true,
                     std::vector<DataError>* problems = nullptr);

// The task whose training split, or all samples, are in this file; called by it unless there is a name.
Task task_of_file(const std::filesystem::path& file, const Where& where, const std::string& name = "");
// The task in a folder: X_TRAIN.ts, train.csv, the four files of MNIST, X_train_event.txt, or its only data
// file.
Task task_of_folder(const std::filesystem::path& folder, const Where& where, const std::string& name = "");
// The training file in it, if there is exactly one; the names of the files to choose from go to `candidates`.
std::optional<std::filesystem::path> training_file(const std::filesystem::path& folder,
                                                   std::vector<std::string>& candidates);
// A table as data.txt with test_splits.txt: read_whole_table reads it.
bool holds_fixed_splits(const std::filesystem::path& folder);

}  // namespace saddle::data
