// saddle train, eval, predict: options and help.
#include <algorithm>
#include <memory>

#include "command.hpp"
#include "saddle/run/settings.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

// --data stands for data.name, --weight-decay for train.weight_decay; those that all commands have are not repeated.
std::string flag_of(const run::SettingName& setting) {
  if (setting.section == "data" && setting.name == "name") return "--data";
  if (setting.section == "data" && setting.name == "folder") return "--data-dir";
  std::string flag = "--" + setting.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

bool is_common(const run::SettingName& setting) { return setting.section == "train" && setting.name == "threads"; }

}  // namespace

Command train_command() {
  const auto a = std::make_shared<TrainArguments>();
  std::vector<Option> options{
      {"--attention", "FORM", "of all layers, or repeated: of each", &a->attention},
      {"--last", "FORM", "attention of the last layer, if it is another one", &a->last},
      {"--model", "NAME", "default: by the kind of data; sizes by --set model.width=128", &a->model},
      {"--config", "FILE", "settings in TOML; flags and environment go before it", &a->config},
      {"--set", "KEY=VALUE", "any setting, as in the file: train.lr=3e-4, model.depth=4", &a->assignments},
      {"-o,--out", "FOLDER", "of the run; default runs/DATA-ATTENTION-SEED", &a->out},
      {"--resume", "", "go on with the run in the folder", &a->resume},
      {"--allow", "KEY", "may differ from the run that is resumed", &a->allowed},
      {"--force", "", "replace a run that is in the folder", &a->force},
      {"--splits", "COUNT", "one run for each of the first splits of a table, then mean and spread", &a->splits},
      {"--print-config", "", "print all settings, each with where it comes from, and stop", &a->print_config}};
  for (const run::SettingName& setting : run::setting_names()) {
    if (is_common(setting)) continue;
    Option option{flag_of(setting), "VALUE", setting.help, &a->settings[setting.section + "." + setting.name]};
    option.choices = setting.choices;
    options.push_back(std::move(option));
  }
  return {"train",
          "Train a model with any attention on a data set or file of yours, and say honestly how good it is.",
          {{"a data set with its defaults", "saddle train --data examples/data/waves --epochs 5 --out runs/waves"},
           {"another attention, settings from all sides",
            "saddle train --data examples/data/waves --attention 'softmax+bn(beta=0.6)' --set model.width=32 --epochs "
            "5 --out runs/bn"},
           {"go on after Ctrl-C, or to more epochs",
            "saddle train --resume --out runs/waves --epochs 8 --allow train.epochs"},
           {"a table as a whole: numbers or classes, missing values",
            "saddle train --model npt --data examples/data/flowers.csv --set model.width=16 --lr 0.01 --steps 40 --out "
            "runs/table"},
           {"what would be done, and why", "saddle train --data examples/data/waves --print-config"}},
          options,
          [a](const Context& context) { return run_train(*a, context); }};
}

Command eval_command() {
  const auto a = std::make_shared<EvalArguments>();
  return {"eval",
          "Evaluate a trained model on the test split of a data set, by default of its own.",
          {{"once more", "saddle eval runs/waves"}, {"for scripts", "saddle eval runs/waves --json"}},
          {{"run", "", "folder of a run, or a file of its checkpoints", &a->run, true},
           {"--data", "NAME", "the test split of another data set, or all samples of a file", &a->data},
           {"--data-dir", "FOLDER", "where data sets are looked for first", &a->folder}},
          [a](const Context& context) { return run_eval(*a, context); }};
}

Command predict_command() {
  const auto a = std::make_shared<PredictArguments>();
  return {
      "predict",
      "Classes and their probabilities for the samples of a file, as CSV; of tables also numbers and missing cells.",
      {{"to the terminal", "saddle predict runs/waves examples/data/waves/waves_TEST.ts"},
       {"to a file", "saddle predict runs/waves examples/data/waves/waves_TEST.ts --out predictions.csv"},
       {"fill in the empty cells of a table", "saddle predict runs/table examples/data/flowers.csv --impute"}},
      {{"run", "", "folder of a run, or a file of its checkpoints", &a->run, true},
       {"file", "", "samples: .ts, .csv, also gzip; labels are not needed", &a->file, true},
       {"--impute", "", "the file itself with its empty cells filled in, by a model of tables", &a->impute},
       {"-o,--out", "FILE", "where to write; default stdout", &a->out}},
      [a](const Context& context) { return run_predict(*a, context); }};
}

}  // namespace saddle::cli
