// What is measured: one attention on one shape, and how its work is counted.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/dtype.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::bench {

// training: forward and backward, as in one step of training.
enum class Pass { forward, training };
// contiguous: every tensor dense as [B,H,N,D]. qkv: q, k and v lie in one projection (B,N,3*H*D), the output is
// (B,N,H*D).
enum class Layout { contiguous, qkv };

struct Row {
  std::string attention = "softmax";  // written form
  Dims dims;
  DType dtype = DType::f32;
  Pass pass = Pass::forward;
  Layout layout = Layout::contiguous;
  int threads = 1;

  bool operator==(const Row&) const = default;
};

std::string to_string(Pass pass);
std::string to_string(Layout layout);
// "1,8,1024,64", or "1,8,1024,300,64,32" when M or E differ from N and D.
std::string shape_text(const Dims& dims);
// "softmax 1,8,1024,64 f32 forward, 2 threads"
std::string to_string(const Row& row);

// Each throws InvalidArgument that names the choices.
Pass parse_pass(const std::string& text);
Layout parse_layout(const std::string& text);
DType parse_dtype(const std::string& text);
// Four numbers B,H,N,D or six B,H,N,M,D,E; `where` begins the message.
Dims dims_of(const std::vector<Index>& numbers, const std::string& where);
// Throws InvalidArgument when the row cannot be: the attention does not fit the shape, or the layout does not.
void validate(const Row& row);

// Floating point operations by the usual count: two products forward, five backward, over the pairs that are seen. The
// primal form of a finite kernel does less; its rate is then called equivalent.
double flops(const Row& row);
bool counts_equivalent(const Row& row);
// Inputs read and outputs written once.
double bytes(const Row& row);

}  // namespace saddle::bench
