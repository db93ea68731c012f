// Any bytes, read as a CSV table in either layout, either throw saddle::Error or give series that hold together; a
// field that was read survives being written and read again.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "saddle/data/csv.hpp"
#include "saddle/data/table.hpp"

namespace {

using namespace saddle::data;

void require(bool ok, const char* what) {
  if (ok) return;
  std::cerr << what << '\n';
  std::abort();
}

void check(const Dataset& data) {
  const Description& about = data.description();
  Sample sample;
  for (saddle::Index i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    require(static_cast<saddle::Index>(sample.values.size()) == sample.length * about.channels, "values are missing");
    require(sample.label < static_cast<saddle::Index>(about.classes.size()), "the label is none of the classes");
    for (const float value : sample.values) require(std::isfinite(value), "a value is not finite");
  }
}

void check_table(const ContentsPtr& contents, const TableOptions& options) {
  try {
    const auto read = options.series_id.empty() ? read_table : read_long_table;
    const DatasetPtr data = read(contents, {}, options);
    check(*data);
    // What trains can be predicted.
    TableOptions like = options;
    like.like = &data->description();
    like.labels_required = false;
    const DatasetPtr again = read(contents, {}, like);
    check(*again);
    require(again->size() == data->size() && again->description().channels == data->description().channels,
            "the same file reads differently like itself");
  } catch (const saddle::Error&) {
  }
}

void check_fields(const std::string& text) {
  const std::string file = "fuzz";
  CsvTable table;
  try {
    table = parse_csv(text, file);
  } catch (const saddle::Error&) {
    return;
  }
  for (const CsvRow& row : table.rows)
    for (const CsvField& field : row) {
      const std::string line = csv_field(field.text) + ",end";
      CsvReader reader(line, file);
      CsvRow again;
      reader.next(again);
      require(again.size() == 2 && again[0].text == field.text, "a field changes when it is written");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ContentsPtr contents = contents_of(text, "fuzz");
  TableOptions options;
  check_table(contents, options);
  options.series_id = "id";
  check_table(contents, options);
  options.time = "t";
  check_table(contents, options);
  check_fields(text);
  return 0;
}
