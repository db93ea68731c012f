// Samples to learn from: what they are, how many, and one at a time. Everything above reads data through this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::data {

enum class Kind { series, image, tokens, pair, events, image_text };
const char* to_string(Kind kind);

// A column of a table. Its rows are series with one step per column.
struct Column {
  std::string name;
  std::vector<std::string> categories = {};  // sorted; none: a column of numbers
  double offset = 0;                         // taken off numbers that are large but close together, such as times
  bool operator==(const Column&) const = default;
};

struct Description {
  std::string name = {};   // "JapaneseVowels"
  std::string split = {};  // "train", "test", "validation" or "all"
  Kind kind = Kind::series;
  Index channels = 0;                    // of a step or pixel
  Index rows = 0, columns = 0;           // of images
  Index vocabulary = 0;                  // of tokens: ids are 0 (padding) .. vocabulary - 1
  Index min_length = 0, max_length = 0;  // of series, tokens and events in this split
  Index usual_length = 0;                // where the published experiments cut longer samples; 0: nowhere
  // Label i is the i-th of these: sorted as strings if the file has text, by their numbers if it has bytes.
  std::vector<std::string> classes = {};
  std::vector<std::string> channel_names = {};  // as many as channels, or none
  std::vector<std::string> token_names = {};    // text of every token, or none
  std::vector<Column> table = {};               // of tables: step i is the i-th of these columns
  std::string target = {};                      // of tables: the column with the labels
  bool flagged = false;                         // of tables: channel 1 is 1 where a value is missing
  Index missing = 0;                            // values that the file does not have
  std::vector<std::string> files = {};          // where it comes from, empty if generated
  std::string checksum = {};                    // of the contents, hexadecimal
  // Sentences about what a reader should know: values filled in, ids shifted, rows left out.
  std::vector<std::string> notes = {};
};

// Series hold length x channels values, one step behind the other; images channels x rows x columns in [0,1]. An image
// with a text has both, and the length is that of the text.
struct Sample {
  std::vector<float> values;
  std::vector<std::int32_t> tokens, second;  // tokens; of a pair, both documents; of events, their types
  std::vector<double> times;                 // of events
  Index length = 0;                          // steps, or tokens
  Index label = -1;                          // -1: not known
};

// Reading a sample changes nothing and may happen on several threads at once.
class Dataset {
 public:
  virtual ~Dataset();
  virtual const Description& description() const = 0;
  virtual Index size() const = 0;
  virtual Index label(Index sample) const = 0;
  virtual Index length(Index sample) const = 0;  // of a pair the longer document's
  virtual void read(Index sample, Sample& into) const = 0;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// What there is to learn. The splits are opened when they are asked for: the test split is opened once, at the end.
struct Task {
  std::string name;
  std::function<DatasetPtr()> train, validation, test;  // validation and test may be empty
};

}  // namespace saddle::data
