#include "saddle/run/layers.hpp"

namespace saddle::run {

std::vector<std::string> layers_of(const std::string& attention) {
  std::vector<std::string> layers;
  const std::string between = " / ";
  std::size_t at = 0;
  for (std::size_t end = attention.find(between); end != std::string::npos; end = attention.find(between, at)) {
    layers.push_back(attention.substr(at, end - at));
    at = end + between.size();
  }
  layers.push_back(attention.substr(at));
  return layers;
}

}  // namespace saddle::run
