#include "csv.hpp"

#include "argument.hpp"

namespace saddle::cli {

CsvTable read_csv(const std::string& file) { return data::parse_csv(read_text(file), file == "-" ? "stdin" : file); }

}  // namespace saddle::cli
