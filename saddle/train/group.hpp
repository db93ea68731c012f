// The processes that train one model together, over torch's c10d with gloo.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::train {

// Another worker is gone, or does not answer.
class WorkerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Group {
 public:
  Group();  // alone
  ~Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;

  // As RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say; alone without them. On one machine traffic stays on the
  // loopback device. A worker that does not answer for `timeout` seconds counts as lost.
  static Group of_environment(double timeout);

  Index rank() const { return rank_; }
  Index size() const { return size_; }
  bool leads() const { return rank_ == 0; }

  // The sum over all workers, in place. Throws WorkerLost.
  void sum(torch::Tensor& tensor);
  // The same, while other work goes on: wait() must be called.
  class Pending {
   public:
    virtual ~Pending();
    virtual void wait() = 0;
  };
  std::unique_ptr<Pending> start_sum(torch::Tensor tensor);
  // Everybody gets the leader's.
  void broadcast(torch::Tensor& tensor);
  // Is it true for anybody?
  bool any(bool here);
  void wait_for_all();

 private:
  struct State;
  Index rank_ = 0, size_ = 1;
  std::unique_ptr<State> state_;
};

}  // namespace saddle::train
