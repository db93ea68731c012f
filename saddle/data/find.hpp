// From the name of a data set, or of a file, to its splits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saddle/data/dataset.hpp"
#include "saddle/data/missing.hpp"

namespace saddle::data {

struct Where {
  std::string folder;                  // searched first; then $SADDLE_DATA, then ../shared/data
  std::string test;                    // file with the test split of a file that has none beside it
  std::string format;                  // as for --format; empty: told from name and first line
  std::string target;                  // column with the labels of a CSV file; empty: the last
  std::string series_id, time;         // columns of a CSV file: equal ids make one series, ordered by time
  std::vector<std::string> leave_out;  // columns of a CSV file that are not read
  Missing missing = Missing::interpolate;
  double test_share = 0.2;  // held out of a file that comes without a test split: stratified, the same for every seed
  Index stream_above = Index{1} << 30;  // bytes; larger files are read sample by sample from the disk
};

// JapaneseVowels, fashion-mnist, listops, imdb, multiscale ..; a folder; X_TRAIN.ts with its X_TEST.ts; a .ts, .csv or
// .tsv file, also gzip; an IDX file of images. Throws InvalidArgument that lists what was searched and the nearest
// name.
Task find_task(const std::string& name, const Where& where = {});

// Every data set that a name is known for, and whether its files were found.
struct Entry {
  std::string name, summary;
  Kind kind;
  bool found = false;
  std::string place;  // folder, or "generated"
};
std::vector<Entry> list_tasks(const Where& where = {});

// A file of samples to predict: same kind and columns as `like`, labels optional. Of events the file of types,
// X_event.Y, with their times in X_time.Y.
DatasetPtr open_samples(const std::string& file, const Description& like, const Where& where = {});

}  // namespace saddle::data
