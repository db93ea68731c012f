// The attentions of the layers of a model in one text.
#pragma once

#include <string>
#include <vector>

namespace saddle::run {

// "softmax / linear+causal": one written form, or one per layer.
std::vector<std::string> layers_of(const std::string& attention);

}  // namespace saddle::run
