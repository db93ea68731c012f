// Markdown pages made readable in a terminal: tables aligned, marks removed, paragraphs wrapped.
#pragma once

#include <string>
#include <string_view>

namespace saddle::cli {

std::string plain_text(std::string_view markdown);

}  // namespace saddle::cli
