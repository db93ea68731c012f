#include "problem.hpp"

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>

#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::bench {

namespace {

// Row-major elements of a view, its shape [B,H,n,C], from one stream.
void fill(const TensorView& tensor, const std::string& name) {
  const Stream stream(0, name);
  const Index H = tensor.shape[1], n = tensor.shape[2], C = tensor.shape[3];
  parallel_for(tensor.shape[0] * H * n, 256, [&](Index r) {
    const Index offset = r / (H * n) * tensor.stride[0] + r / n % H * tensor.stride[1] + r % n * tensor.stride[2];
    for (Index c = 0; c < C; ++c)
      store(tensor, offset + c * tensor.stride[3], stream.normal_at(static_cast<std::uint64_t>(r * C + c)));
  });
}

// A line "name: value kB" of /proc/self/status in bytes; -1 without it.
double status_bytes(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) {
      std::istringstream rest(line.substr(name.size() + 1));
      double kilobytes = 0;
      if (rest >> kilobytes) return kilobytes * 1024;
    }
  return -1;
}

bool declares_padding(const primal::Attention& attention) {
  for (const primal::KeySet& keys : attention.keys)
    if (std::holds_alternative<primal::Padding>(keys)) return true;
  return false;
}

// The log of a row sum exists where the sum cannot vanish.
bool has_lse(const primal::Attention& attention) {
  return std::holds_alternative<primal::RowSum>(attention.normaliser) &&
         sign_of(attention.kernel) == primal::Sign::positive;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t size = (bytes / line + 1) * line;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(line, size)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, size);
}

void Buffer::Free::operator()(std::byte* data) const { std::free(data); }

TensorView Problem::place(const std::string& name, DType dtype, const Shape& shape, const Shape& stride, Index extent) {
  Buffer& buffer = memory_[name];
  if (buffer.data() == nullptr) buffer = Buffer(static_cast<std::size_t>(extent) * size_of(dtype));
  return {buffer.data(), dtype, shape, stride};
}

Problem::Problem(const Row& row) : row_(row) {
  const Dims& d = row.dims;
  call_.attention = mechanisms::parse(row.attention);
  const auto dense = [&](const std::string& name, Index n, Index C) {
    const Shape shape{d.B, d.H, n, C};
    return place(name, row.dtype, shape, dense_strides(shape), element_count(shape));
  };
  // Part `part` of `parts` tensors [B,H,N,D] side by side in memory of shape (B,N,parts*H*D).
  const auto fused = [&](const std::string& name, Index part, Index parts) {
    const Index width = parts * d.H * d.D;
    TensorView view = place(name, row.dtype, {d.B, d.H, d.N, d.D}, {d.N * width, d.D, width, 1}, d.B * d.N * width);
    view.data = static_cast<std::byte*>(view.data) + part * d.H * d.D * static_cast<Index>(size_of(row.dtype));
    return view;
  };
  const bool qkv = row.layout == Layout::qkv;
  call_.q = qkv ? fused("qkv", 0, 3) : dense("q", d.N, d.D);
  call_.k = qkv ? fused("qkv", 1, 3) : dense("k", d.M, d.D);
  call_.v = qkv ? fused("qkv", 2, 3) : dense("v", d.M, d.E);
  fill(call_.q, "q");
  fill(call_.k, "k");
  fill(call_.v, "v");
  if (call_.attention.residual) fill(call_.skip = dense("skip", d.N, d.E), "skip");
  if (declares_padding(call_.attention)) {
    key_mask_ = primal::padding_mask(std::vector<Index>(static_cast<std::size_t>(d.B), (3 * d.M + 3) / 4), d.M);
    call_.key_mask = key_mask_.view();
  }
  outputs_.y = qkv ? fused("y", 0, 1) : dense("y", d.N, d.E);
  if (row.pass == Pass::training) {
    if (has_lse(call_.attention)) {
      const Shape shape{d.B, d.H, d.N};
      outputs_.lse = place("lse", row.dtype == DType::f64 ? DType::f64 : DType::f32, shape, dense_strides(shape),
                           element_count(shape));
    }
    gradients_.dy = qkv ? fused("dy", 0, 1) : dense("dy", d.N, d.E);
    fill(gradients_.dy, "dy");
    gradients_.y = outputs_.y;
    gradients_.lse = outputs_.lse;
    gradients_.dq = qkv ? fused("dqkv", 0, 3) : dense("dq", d.N, d.D);
    gradients_.dk = qkv ? fused("dqkv", 1, 3) : dense("dk", d.M, d.D);
    gradients_.dv = qkv ? fused("dqkv", 2, 3) : dense("dv", d.M, d.E);
    for (const primal::ParameterInfo& info : primal::parameters(call_.attention, d))
      if (info.learnable)
        gradients_.parameters[info.name] = (parameters_[info.name] = Tensor(row.dtype, info.shape)).view();
  }
  set_threads(row.threads);
  forward_ = mechanisms::select(kernels::request_of(call_, outputs_)).chosen;
  if (row.pass == Pass::training) backward_ = mechanisms::select(kernels::request_of(call_, gradients_)).chosen;
}

void Problem::run() const {
  set_threads(row_.threads);
  mechanisms::forward(call_, outputs_);
  if (row_.pass == Pass::training) mechanisms::backward(call_, gradients_);
}

double extra_memory(const std::function<void()>& run) {
  malloc_trim(0);
  // 5 resets the peak; without that permission the figure would be that of the whole process so far.
  std::ofstream peak("/proc/self/clear_refs");
  const bool reset = static_cast<bool>(peak << "5" << std::flush);
  const double before = status_bytes("VmRSS");
  run();
  const double after = status_bytes("VmHWM");
  return reset && before >= 0 && after >= 0 ? std::max(0.0, after - before) : -1;
}

}  // namespace saddle::bench
