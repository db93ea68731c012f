// One way to compute an attention. It says what it refuses and what it would cost; select() takes the cheapest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/cpu.hpp"
#include "saddle/base/export.hpp"
#include "saddle/primal/call.hpp"
#include "saddle/primal/cost.hpp"

namespace saddle::kernels {

// What is asked for, without the data: enough to refuse and to estimate.
struct Request {
  primal::Attention attention;
  Dims dims;
  DType dtype = DType::f32;
  bool key_mask = false, mask = false;                     // the call brings them
  bool weights = false, lse = false, column_sums = false;  // optional outputs asked for
  bool dropout = false;                                    // the call drops weights
  bool backward = false;                                   // gradients will be asked for
  bool beta_gradient = false;                              // among them that of beta, learnt or not
  int threads = 0;                                         // 0: all

  bool operator==(const Request&) const = default;
};

SADDLE_API Request request_of(const primal::Call& call, const primal::Outputs& outputs);
SADDLE_API Request request_of(const primal::Call& call, const primal::Gradients& gradients);
// The threads that a request may use.
SADDLE_API int threads_of(const Request& request);

struct Estimate {
  primal::Cost cost;
  double seconds = 0;  // predicted
  double memory = 0;   // bytes this implementation allocates at most
};

class SADDLE_API Implementation {
 public:
  virtual ~Implementation();
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  virtual Isa isa() const { return Isa::scalar; }
  virtual bool is_reference() const { return false; }  // the judge; never chosen silently

  // Sentences, empty when it accepts.
  virtual std::vector<std::string> refusals(const Request& request) const = 0;
  virtual Estimate estimate(const Request& request) const = 0;

  // Arguments have been validated and accepted.
  virtual void forward(const primal::Call& call, const primal::Outputs& outputs) const = 0;
  virtual void backward(const primal::Call& call, const primal::Gradients& gradients) const = 0;
};

// The implementations that serve any declared attention, best first, reference last.
SADDLE_API const std::vector<const Implementation*>& generic_implementations();

}  // namespace saddle::kernels
