// Typed errors. A message says what was asked, what was found and what would work.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "saddle/base/export.hpp"

namespace saddle {

// Base of all errors thrown by saddle; `hint` is one line on what would work, possibly empty.
class SADDLE_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = {})
      : std::runtime_error(message), hint_(std::move(hint)) {}
  ~Error() override;
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

// An argument is wrong: shape, dtype, option, written form.
class SADDLE_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

// The request is well formed but nothing here can serve it; carries every refusal.
class SADDLE_API NotSupported : public Error {
 public:
  explicit NotSupported(const std::string& message, std::vector<std::string> refusals = {}, std::string hint = {})
      : Error(message, std::move(hint)), refusals_(std::move(refusals)) {}
  ~NotSupported() override;
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  std::vector<std::string> refusals_;
};

// The contents of a file are wrong. Line and column count from 1; 0 means not applicable.
class SADDLE_API DataError : public Error {
 public:
  DataError(std::string file, long line, long column, const std::string& message, std::string hint = {});
  ~DataError() override;
  const std::string& file() const { return file_; }
  long line() const { return line_; }
  long column() const { return column_; }

 private:
  std::string file_;
  long line_;
  long column_;
};

// Reading or writing failed: missing file, no permission, full disk.
class SADDLE_API IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

}  // namespace saddle
