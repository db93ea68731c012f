#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

const Table& operators() {
  static const Table all = [] {
    Table table;
    add_elementwise_operators(table);
    add_logical_operators(table);
    add_reducing_operators(table);
    add_shape_operators(table);
    add_selecting_operators(table);
    add_layer_operators(table);
    return table;
  }();
  return all;
}

}  // namespace saddle::nn::onnx
