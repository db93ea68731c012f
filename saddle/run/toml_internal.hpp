// TOML documents of settings and experiments.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "saddle/base/error.hpp"

namespace saddle::run {

// Throws DataError with line and column.
inline toml::table parse_toml(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw DataError(file, static_cast<long>(at.line), static_cast<long>(at.column), std::string(error.description()));
  }
}

}  // namespace saddle::run
