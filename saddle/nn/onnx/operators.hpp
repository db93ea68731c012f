// Which nodes stand for which torch operation.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "saddle/nn/onnx/step.hpp"

namespace saddle::nn::onnx {

// Writes the nodes of one operation and names its results: one, or the elements of a list.
using Operator = std::function<Names(Step&)>;
using Table = std::map<std::string, Operator>;

void add_elementwise_operators(Table& table);
void add_logical_operators(Table& table);
void add_reducing_operators(Table& table);
void add_shape_operators(Table& table);
void add_selecting_operators(Table& table);
void add_layer_operators(Table& table);

// All of them, by names such as aten::add.
const Table& operators();

}  // namespace saddle::nn::onnx
