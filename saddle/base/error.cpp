#include "saddle/base/error.hpp"

namespace saddle {

namespace {

std::string located(const std::string& file, long line, long column, const std::string& message) {
  std::string text = file;
  if (line > 0) text += ":" + std::to_string(line);
  if (line > 0 && column > 0) text += ":" + std::to_string(column);
  return text.empty() ? message : text + ": " + message;
}

}  // namespace

Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
NotSupported::~NotSupported() = default;
DataError::~DataError() = default;
IoError::~IoError() = default;

DataError::DataError(std::string file, long line, long column, const std::string& message, std::string hint)
    : Error(located(file, line, column, message), std::move(hint)),
      file_(std::move(file)),
      line_(line),
      column_(column) {}

}  // namespace saddle
