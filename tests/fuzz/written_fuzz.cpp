// Any text, read as written form, JSON and TOML, either throws saddle::Error or gives a value that all three carry.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "saddle/base/error.hpp"
#include "saddle/primal/written.hpp"

namespace {

using saddle::primal::Attention;

void require(bool ok, const Attention& value, const char* what) {
  if (ok) return;
  std::cerr << saddle::primal::to_text(value) << ": " << what << '\n';
  std::abort();
}

void check(Attention (*read)(std::string_view, const saddle::primal::Presets&), std::string_view input) {
  Attention value;
  try {
    value = read(input, {});
  } catch (const saddle::Error&) {
    return;
  }
  // From here on nothing may throw.
  const std::string text = to_text(value);
  const Attention again = saddle::primal::parse(text);
  require(again == value, value, "its text parses to another value");
  require(to_text(again) == text, value, "its text is not canonical");
  require(saddle::primal::parse_json(to_json(value)) == value, value, "its JSON parses to another value");
  require(saddle::primal::parse_toml(to_toml(value)) == value, value, "its TOML parses to another value");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check(saddle::primal::parse, input);
  check(saddle::primal::parse_json, input);
  check(saddle::primal::parse_toml, input);
  return 0;
}
