// saddle prune: options and help.
#include <memory>

#include "command.hpp"
#include "training.hpp"

namespace saddle::cli {

Command prune_command() {
  const auto a = std::make_shared<PruneArguments>();
  return {
      "prune",
      "Take heads out of a trained model by a score, say what that costs, and write the smaller model.",
      {{"a model, trained in seconds", "saddle train --data examples/data/waves --epochs 5 --out runs/pruned-from"},
       {"which heads would go, and what the rest is worth", "saddle prune runs/pruned-from --by redundancy --keep 50%"},
       {"write the smaller model, and use it",
        "saddle prune runs/pruned-from --by magnitude --keep 4 --out runs/smaller && saddle eval runs/smaller"},
       {"all scores against each other, however many heads stay",
        "saddle prune runs/pruned-from --curve --draws 2 --html runs/pruned-from/prune.html"}},
      {{"run", "", "folder of a run, or a file of its checkpoints; several with --curve", &a->runs, true},
       {"--by", "SCORE",
        "theory: attention paths; magnitude: size of weights; redundancy: distance to the nearest head; random. "
        "Default redundancy; with --curve all, and it may be repeated",
        &a->by},
       {"--keep", "HEADS", "how many stay: a number, or a share such as 50%", &a->keep},
       {"--remove", "HEADS", "how many go, instead of --keep", &a->remove},
       {"--per-layer", "", "so many of every layer, instead of all layers together", &a->per_layer},
       {"-o,--out", "PLACE", "where the smaller model goes: a folder like that of a run, or a .safetensors file",
        &a->out},
       {"--force", "", "replace what is there", &a->force},
       {"--rescale", "", "multiply what its heads add by sqrt(heads before / heads left)", &a->rescale},
       {"--curve", "", "accuracy against the number of heads that stay, for each score; writes no model", &a->curve},
       {"--draws", "COUNT", "of random orders for --curve; default 5", &a->draws},
       {"--set", "NAME=VALUE",
        "of the theory: temperature=0.1, width=64, readout=first_token (defaults: those of the model)",
        &a->assignments},
       {"--samples", "COUNT", "of the training data that theory and redundancy come from; default: up to 128",
        &a->samples},
       {"--seed", "SEED", "of random scores; default 0", &a->seed},
       {"--test", "", "read the test split too; heads are never chosen by it", &a->test},
       {"--data", "NAME", "the data the model was trained on, for a file that does not say", &a->data},
       {"--data-dir", "FOLDER", "where data sets are looked for first", &a->folder},
       {"--html", "FILE", "write a page with plots", &a->html}},
      [a](const Context& context) { return run_prune(*a, context); }};
}

}  // namespace saddle::cli
