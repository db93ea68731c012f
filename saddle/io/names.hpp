// Names of tensors in messages: quoted, shortened, with the name that was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/export.hpp"

namespace saddle::io {

// As a JSON string, cut after 200 bytes: a file may hold megabytes of them, and any character.
SADDLE_API std::string in_quotes(std::string_view name);

// "a", "b" (did you mean "B"?) and 40 more: each name with the closest candidate, if one is close.
SADDLE_API std::string list_of(const std::vector<std::string>& names, const std::vector<std::string>& candidates = {});

}  // namespace saddle::io
