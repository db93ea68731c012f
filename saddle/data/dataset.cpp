#include "saddle/data/dataset.hpp"

#include <algorithm>

namespace saddle::data {

Dataset::~Dataset() = default;

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::series: return "series";
    case Kind::image: return "image";
    case Kind::tokens: return "tokens";
    case Kind::pair: return "pair";
    case Kind::events: return "events";
    case Kind::image_text: return "image_text";
  }
  return "";
}

}  // namespace saddle::data
