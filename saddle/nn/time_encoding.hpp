// Times as vectors that stand beside the embedding of events: Bochner's and Mercer's encodings, or positions alone.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <string>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

using torch::Tensor;

struct SADDLE_TORCH_API TimeEncodingOptions {
  TimeEncodingOptions(int64_t width, std::string encoding) : width_(width), encoding_(std::move(encoding)) {}

  TORCH_ARG(int64_t, width);          // T, of the encoding
  TORCH_ARG(std::string, encoding);   // "mercer(degree=3)", "bochner(variant=normal)", "positions"
  TORCH_ARG(int64_t, positions) = 0;  // rows of `positions`: events of a sequence at most
};

// Parameters are named as the references name them, see the pages of time_bochner and time_mercer. Phases are computed
// in double whatever the parameters are: times are large, and only what is left of a phase behind whole turns counts.
class SADDLE_TORCH_API TimeEncodingImpl : public torch::nn::Cloneable<TimeEncodingImpl> {
 public:
  TimeEncodingImpl(int64_t width, std::string encoding)
      : TimeEncodingImpl(TimeEncodingOptions(width, std::move(encoding))) {}
  explicit TimeEncodingImpl(const TimeEncodingOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // t [B,N] -> [B,N,T] in the type of the parameters. mask [B,N] true where an event exists, which positions count by.
  // `sample` [T/2] are the random numbers of encodings that take some, by default drawn anew in every call, evaluation
  // included, as published: eps ~ N(0,1) of bochner's normal and log-normal, u ~ U(0,1) of invcdf-mlp, periods ~
  // U(1,1e8) of uniform.
  Tensor forward(const Tensor& t, const Tensor& mask = {}, const Tensor& sample = {});

  // Multiply-adds of N times.
  double multiply_adds(int64_t N) const;

  TimeEncodingOptions options;

 private:
  std::function<Tensor(const Tensor& t, const Tensor& mask, const Tensor& sample)> encode_;
};

TORCH_MODULE(TimeEncoding);

// Sum over j = 1..m of coef[:,j-1] sin(j phase) + coef[:,m+j-1] cos(j phase): phase [..,k], coef [k,2m] -> [..,k]. One
// sine and one cosine of each phase, the others by powers.
SADDLE_TORCH_API Tensor fourier_series(const Tensor& phase, const Tensor& coef);

}  // namespace saddle::nn
