// Multi-output SVR on an RBF and on a softmax Gram matrix, against libsvm solving the same channels one after another.
//   svr_bench [--keys M] [--channels E] [--libsvm-channels L] [--threads T]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "saddle/base/random.hpp"
#include "saddle/primal/svr.hpp"

#ifdef SADDLE_HAVE_LIBSVM
#include <libsvm/svm.h>
#endif

namespace {

using saddle::Index;
using saddle::Matrix;
using saddle::primal::SvrOptions;
using saddle::primal::SvrSolution;

struct Task {
  std::string name;
  Matrix gram;     // [M,M]
  Matrix targets;  // [M,E]
  SvrOptions options;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Matrix random_keys(Index M, Index D) {
  saddle::Stream random(1, "keys");
  Matrix k({M, D});
  for (double& x : k) x = random.normal();
  return k;
}

// Smooth functions of the keys [M,D] plus noise, one per channel: [M,E].
Matrix noisy_targets(const Matrix& k, Index E) {
  saddle::Stream random(1, "targets");
  const Index M = k.shape()[0], D = k.shape()[1];
  Matrix y({M, E});
  std::vector<double> w(static_cast<std::size_t>(D));
  for (Index e = 0; e < E; ++e) {
    for (double& x : w) x = random.normal() / std::sqrt(static_cast<double>(D));
    for (Index j = 0; j < M; ++j) {
      double dot = 0;
      for (Index d = 0; d < D; ++d) dot += w[static_cast<std::size_t>(d)] * k(j, d);
      y(j, e) = std::sin(2 * dot) + 0.2 * random.normal();
    }
  }
  return y;
}

Task rbf_task(Index M, Index E) {
  const Index D = 8;
  const Matrix k = random_keys(M, D);
  Task task{"rbf", Matrix({M, M}), noisy_targets(k, E), {}};
  for (Index i = 0; i < M; ++i) {
    for (Index j = 0; j < M; ++j) {
      double distance = 0;
      for (Index d = 0; d < D; ++d) distance += (k(i, d) - k(j, d)) * (k(i, d) - k(j, d));
      task.gram(i, j) = std::exp(-distance / static_cast<double>(D));
    }
  }
  task.options.C = 1;
  task.options.bias = true;
  return task;
}

Task softmax_task(Index M, Index E) {
  const Index D = 16;
  const Matrix k = random_keys(M, D);
  Task task{"softmax", Matrix({M, M}), noisy_targets(k, E), {}};
  std::vector<double> h;
  for (Index i = 0; i < M; ++i) {
    double sum = 0;
    for (Index j = 0; j < M; ++j) {
      double dot = 0;
      for (Index d = 0; d < D; ++d) dot += k(i, d) * k(j, d);
      sum += task.gram(i, j) = std::exp(dot / std::sqrt(static_cast<double>(D)));
    }
    h.push_back(sum);
  }
  for (Index i = 0; i < M; ++i) {
    for (Index j = 0; j < M; ++j) task.gram(i, j) /= h[static_cast<std::size_t>(i)] * h[static_cast<std::size_t>(j)];
  }
  task.options.C = static_cast<double>(M * M);
  task.options.bias = true;
  return task;
}

#ifdef SADDLE_HAVE_LIBSVM
// Seconds per channel of libsvm over the first `channels`; `worst` is the largest difference between its fitted values
// and those of the solution. libsvm keeps kernel values in single precision.
double libsvm_seconds(const Task& task, const SvrSolution& solution, Index channels, double tolerance, double& worst) {
  const Index M = task.gram.shape()[0];
  std::vector<std::vector<svm_node>> rows;
  std::vector<svm_node*> x;
  for (Index i = 0; i < M; ++i) {
    std::vector<svm_node> row{{0, static_cast<double>(i + 1)}};
    for (Index j = 0; j < M; ++j) row.push_back({static_cast<int>(j + 1), task.gram(i, j)});
    row.push_back({-1, 0});
    rows.push_back(std::move(row));
  }
  for (auto& row : rows) x.push_back(row.data());
  svm_parameter parameter{};
  parameter.svm_type = EPSILON_SVR;
  parameter.kernel_type = PRECOMPUTED;
  parameter.C = task.options.C;
  parameter.p = task.options.epsilon;
  parameter.eps = tolerance;
  parameter.cache_size = 1000;
  parameter.shrinking = 1;
  svm_set_print_string_function([](const char*) {});
  double total = 0;
  for (Index e = 0; e < channels; ++e) {
    std::vector<double> y;
    for (Index j = 0; j < M; ++j) y.push_back(task.targets(j, e));
    const svm_problem problem{static_cast<int>(M), y.data(), x.data()};
    const auto start = std::chrono::steady_clock::now();
    svm_model* model = svm_train(&problem, &parameter);
    total += seconds_since(start);
    for (Index j = 0; j < M; ++j) {
      worst = std::max(worst, std::abs(svm_predict(model, x[static_cast<std::size_t>(j)]) - solution.f(j, e)));
    }
    svm_free_and_destroy_model(&model);
  }
  return total / static_cast<double>(channels);
}
#endif

// Times are printed only for a solution that passes its certificate. Returns whether it did.
bool run(const Task& task, Index libsvm_channels) {
  const Index M = task.targets.shape()[0], E = task.targets.shape()[1];
  const auto start = std::chrono::steady_clock::now();
  const SvrSolution solution = solve_svr(task.gram, task.targets, task.options);
  const double seconds = seconds_since(start);
  double gap = 0, kkt = 0, iterations = 0, support = 0;
  for (const auto& channel : solution.channels) {
    gap = std::max(gap, std::abs(channel.primal - channel.dual) / (1 + std::abs(channel.primal)));
    kkt = std::max(kkt, channel.kkt / (1 + task.options.C));
    iterations += static_cast<double>(channel.iterations) / static_cast<double>(E);
    support += static_cast<double>(channel.support_vectors) / static_cast<double>(E);
    if (!channel.message.empty()) std::printf("  %s: %s\n", to_string(channel.status), channel.message.c_str());
  }
  std::printf("%s: %lld keys, %lld channels, C = %g, epsilon = %g, bias\n", task.name.c_str(),
              static_cast<long long>(M), static_cast<long long>(E), task.options.C, task.options.epsilon);
  std::printf(
      "  worst gap %.1e, worst KKT residual %.1e (relative), %.1f iterations, %.0f support vectors per channel\n", gap,
      kkt, iterations, support);
  if (!solution.converged() || !(gap <= 1e-8) || !(kkt <= 1e-8)) {
    std::printf("  FAILED: no time is reported\n");
    return false;
  }
#ifdef SADDLE_HAVE_LIBSVM
  // Its default tolerance, and one that asks for what was certified above.
  for (const double tolerance : {1e-3, 1e-8}) {
    const Index measured = std::min(libsvm_channels, E);
    if (measured == 0) break;
    double worst = 0;
    const double each = libsvm_seconds(task, solution, measured, tolerance, worst);
    std::printf("  libsvm, tolerance %g: fitted values differ by %.1e\n", tolerance, worst);
    if (!(worst <= 0.02)) {
      std::printf("  FAILED: no time is reported\n");
      return false;
    }
    const double total = each * static_cast<double>(E);
    std::printf("    %.2f s on one core (measured on %lld channels and scaled), %.2f of the time of saddle\n", total,
                static_cast<long long>(measured), total / seconds);
  }
#endif
  std::printf("  saddle %.2f s\n", seconds);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Index keys = 2000, channels = 64, libsvm_channels = 2;
  int threads = 0;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const long value = i + 1 < argc ? std::atol(argv[i + 1]) : -1;
    if (name == "--keys" && value > 0) {
      keys = value;
    } else if (name == "--channels" && value > 0) {
      channels = value;
    } else if (name == "--libsvm-channels" && value >= 0) {
      libsvm_channels = value;
    } else if (name == "--threads" && value >= 0) {
      threads = static_cast<int>(value);
    } else {
      std::fprintf(stderr, "usage: svr_bench [--keys M] [--channels E] [--libsvm-channels L] [--threads T]\n");
      return 2;
    }
  }
  bool good = true;
  for (Task task : {rbf_task(keys, channels), softmax_task(keys, channels)}) {
    task.options.threads = threads;
    good = run(task, libsvm_channels) && good;
  }
  return good ? 0 : 1;
}
