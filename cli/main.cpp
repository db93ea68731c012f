#include <algorithm>

#include "output.hpp"
#include "parser.hpp"

int main(int argc, char** argv) {
  using namespace saddle::cli;
  prepare_output();
  const Command root{
      "saddle",
      "Attention as a value: declare a layer, get its attention, with a certificate.",
      {{"what there is", "saddle list"},
       {"the page of one mechanism", "saddle show attention_bn"},
       {"from the primal problem to the attention, with a numeric certificate", "saddle derive 'softmax+bn(beta=0.6)'"},
       {"who computes it, and what it costs", "saddle explain linear+causal --shape 1,8,1024,64"},
       {"how fast it is here", "saddle bench --attention softmax --shape 1,2,128,16 --seconds 0.1"},
       {"a model for data of yours, judged honestly",
        "saddle train --data examples/data/waves --epochs 2 --out runs/first"},
       {"is this installation sound?", "saddle doctor"}},
      {},
      nullptr,
      {list_command(),    show_command(),    derive_command(),       explain_command(),   svr_command(),
       bench_command(),   weights_command(), data_command(),         train_command(),     eval_command(),
       predict_command(), compare_command(), report_command(),       reproduce_command(), plan_command(),
       analyze_command(), prune_command(),   check_golden_command(), doctor_command(),    version_command()}};
  return run(root, {argv + std::min(1, argc), argv + argc});
}
