// saddle check-golden with the torch part: its operators and modules beside the implementations of the core.
#include "saddle/analysis/registry.hpp"
#include "saddle/nn/golden/golden.hpp"
#include "training.hpp"

namespace saddle::cli {

int run_check_golden(const CheckArguments& arguments, const Context& context) {
  auto checks = analysis::golden_checks();
  for (mechanisms::GoldenCheck& check : nn::golden_checks()) checks.push_back(std::move(check));
  return check_cases(arguments, checks, context);
}

}  // namespace saddle::cli
