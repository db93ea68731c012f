// What a run does: data, model, training, each value with where it came from. Options are stated once, with name and
// help; files, flags, environment and printing are loops over them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/data/dataset.hpp"

namespace saddle::run {

struct SettingInfo {
  std::string_view name, help;
  std::vector<std::string_view> choices = {};
};

struct DataSettings {
  std::string name, folder, test, format, target, leave_out, series_id, time, missing = "interpolate",
                                                                              protocol = "honest";
  double validation = 0.2, test_share = 0.2;
  Index max_length = 0, limit = 0;

  static void options(auto& self, auto&& visit) {
    visit({"name", "name of a data set, or a .ts, .csv or IDX file, or a folder"}, self.name);
    visit({"folder", "where data sets are looked for first"}, self.folder);
    visit({"test", "file with the test split of a file that has none beside it"}, self.test);
    visit({"format",
           "of a file, if its name does not tell",
           {"", "ts", "csv", "idx", "listops", "bytes", "pairs", "tokens", "image_text", "events"}},
          self.format);
    visit({"target", "column with the labels of a CSV file, default the last"}, self.target);
    visit({"leave_out", "columns of a CSV file that are not read, separated by commas"}, self.leave_out);
    visit({"series_id", "column of a CSV file whose equal values make one series"}, self.series_id);
    visit({"time", "column of a CSV file that orders the steps of a series"}, self.time);
    visit({"missing", "what becomes of missing values", {"interpolate", "zero", "refuse"}}, self.missing);
    visit({"protocol",
           "honest: the epoch is chosen on a part of the training data, the test split is read once, at the end; "
           "paper: it is chosen on the test split, as much of the literature does",
           {"honest", "paper"}},
          self.protocol);
    visit({"validation", "share of the training data that chooses the epoch"}, self.validation);
    visit({"test_share", "share held out of a file that comes without a test split"}, self.test_share);
    visit({"max_length", "longer samples are cut; 0: at the longest one that trains"}, self.max_length);
    visit({"limit", "train on at most so many samples, of all classes alike; 0: on all"}, self.limit);
  }
};

struct TrainSettings {
  Index seed = 0, epochs = 100, steps = 0, batch = 16, accumulate = 1, patience = 0, evaluate_every = 1,
        evaluate_steps = 0, workers = 1, threads = 0, lookahead = 0;
  std::string optimizer = "radam", schedule = "constant", precision = "float32";
  double lr = 1e-3, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, warmup = 0, min_lr = 0, clip = 0,
         clip_value = 0, flat = 0.7, lookahead_share = 0.5, label_smoothing = 0, mixup = 0, ema = 0, budget = 0,
         checkpoint_every = 60;
  bool inspect = true;

  static void options(auto& self, auto&& visit) {
    visit({"seed", "of initial weights, order, dropout, augmentation and split"}, self.seed);
    visit({"epochs", "passes over the training data"}, self.epochs);
    visit({"steps", "updates, instead of epochs"}, self.steps);
    visit({"batch", "samples of an update"}, self.batch);
    visit({"accumulate", "pieces in which a batch is computed, to save memory"}, self.accumulate);
    visit({"optimizer", "the rule of the updates", {"radam", "adamw", "adam", "lamb"}}, self.optimizer);
    visit({"lr", "learning rate, its peak if the schedule has one"}, self.lr);
    visit({"weight_decay", "decoupled; not of biases, norms and embeddings of one row"}, self.weight_decay);
    visit({"beta1", "decay of the mean of gradients"}, self.beta1);
    visit({"beta2", "decay of the mean of their squares"}, self.beta2);
    visit({"eps", "added to the root of the mean square"}, self.eps);
    visit(
        {"schedule",
         "constant; cosine: warm-up, then half a cosine down to min_lr; one_cycle: linear up and down, beta1 with it; "
         "flat_anneal: constant for a share of the updates, then half a cosine down to 0",
         {"constant", "cosine", "one_cycle", "flat_anneal"}},
        self.schedule);
    visit({"flat", "share of the updates before flat_anneal goes down"}, self.flat);
    visit({"warmup", "updates of warm-up, or their share of all if below 1"}, self.warmup);
    visit({"min_lr", "where the cosine ends"}, self.min_lr);
    visit({"clip", "largest norm of the gradient, 0: any"}, self.clip);
    visit({"clip_value", "largest size of every number of the gradient, 0: any"}, self.clip_value);
    visit({"lookahead", "updates after which slow weights follow the fast ones and replace them, 0: never"},
          self.lookahead);
    visit({"lookahead_share", "of the way that the slow weights go then"}, self.lookahead_share);
    visit({"label_smoothing", "share of every label that all classes get alike"}, self.label_smoothing);
    visit({"mixup", "alpha of the mixture of pairs of samples, 0: none"}, self.mixup);
    visit({"ema", "decay of the moving average of weights that is evaluated, 0: none"}, self.ema);
    visit({"patience", "stop after so many evaluations without a better one, 0: never"}, self.patience);
    visit({"precision", "of the products while training", {"float32", "bfloat16"}}, self.precision);
    visit({"evaluate_every", "epochs between evaluations; the first and the last are always evaluated"},
          self.evaluate_every);
    visit({"evaluate_steps", "updates between evaluations, instead of epochs"}, self.evaluate_steps);
    visit({"budget", "stop after so many seconds of training, 0: never"}, self.budget);
    visit({"checkpoint_every", "seconds between checkpoints, besides those at evaluations"}, self.checkpoint_every);
    visit({"inspect", "keep attention maps of some test samples for the report"}, self.inspect);
    visit({"workers", "processes that share every batch on this machine"}, self.workers);
    visit({"threads", "of each process; 0: all cores, shared by the workers"}, self.threads);
  }
};

// Of models that see a table as a whole: npt.
struct TableSettings {
  std::string predict, categories, rows = "all", share_schedule = "cosine";
  Index split = 0;
  double mask_features = 0.15, mask_targets = 1, hidden_share = 0.9, feature_share = 1;
  bool exact_share = false, balance = false;

  static void options(auto& self, auto&& visit) {
    visit({"predict",
           "classes or numbers in the target of a table; default: classes for text and for ten whole numbers at most",
           {"", "classes", "numbers"}},
          self.predict);
    visit({"categories", "columns of a table whose numbers are names, separated by commas"}, self.categories);
    visit({"split", "which one, from 0: of the fixed splits of a table, or of the parts that test_share cuts it into"},
          self.split);
    visit({"rows",
           "of a table that are seen while training: all, their targets hidden where they validate or test, or train "
           "alone",
           {"all", "train"}},
          self.rows);
    visit({"mask_features", "share of a table's features that are hidden and to be predicted"}, self.mask_features);
    visit({"mask_targets", "share of the training targets; below 1 the others are seen, later too"}, self.mask_targets);
    visit({"hidden_share", "of what is chosen so; the rest gets random values instead"}, self.hidden_share);
    visit({"exact_share", "the rest is just that; else one entry more, as published"}, self.exact_share);
    visit({"feature_share", "of the features in the loss at first; below 0: features and targets weigh alike"},
          self.feature_share);
    visit({"share_schedule", "how that share falls to 0", {"cosine", "linear", "constant"}}, self.share_schedule);
    visit({"balance", "batches of a table have their share of every class"}, self.balance);
  }
};

// A value for a setting, as text: {"train.lr", "3e-4", "flag --lr"}. Of three values for one key the last holds.
struct Given {
  std::string key, value, origin;
};

struct Settings {
  DataSettings data;
  TrainSettings train;
  TableSettings table;
  std::string model;                                 // a name of nn::model_names(); empty: by the kind of data
  std::map<std::string, std::string> model_options;  // "attention": "softmax+bn"
  std::map<std::string, std::string> origins;        // of keys that were given: "train.lr"
};

// Throws InvalidArgument for a key that does not exist, with the nearest one, and for text that does not fit, with its
// origin. Options of models are taken as they are.
Settings resolve(const std::vector<Given>& given);

// One more value, over what was there.
void put(Settings& settings, const Given& given);

// A file with tables [data], [model], [train] and [table]; `attention` may stand at the top. Throws DataError with line
// and column.
std::vector<Given> read_settings(const std::string& file);
std::vector<Given> parse_settings(std::string_view text, const std::string& file);
// SADDLE_TRAIN_LR=3e-4 and so on, for every setting of data, train and table.
std::vector<Given> settings_of_environment();
// "train.lr=3e-4" as --set takes it.
Given parse_assignment(const std::string& text);

// What was not given and follows from the kind of data: model, its size, optimiser, schedule.
void apply_recipe(Settings& settings, const data::Description& data);
// The same for tables that are seen as a whole.
void apply_table_recipe(Settings& settings);

// All settings in the order of the file: data, model, train; table where the model sees one.
struct Entry {
  std::string section, name, value;
  std::string origin;  // "default", "flag", "a.toml:3"
  bool quoted;         // a text and no number, true or false
};
std::vector<Entry> entries(const Settings& settings);

// All settings as a file that read_settings takes; with origins each line says where its value came from.
std::string to_toml(const Settings& settings, bool with_origins);

// Key, value here and value there, of whatever differs, apart from what cannot change the weights: folders, threads,
// checkpoints.
struct Difference {
  std::string key, before, now;
};
std::vector<Difference> differences(const Settings& before, const Settings& now);

// A time as settings take it: 90s, 30m, 2h, or seconds.
std::optional<double> parse_seconds(std::string_view text);

// The keys of data, train and table, for flags.
struct SettingName {
  std::string section, name, help;
  std::vector<std::string> choices;
};
std::vector<SettingName> setting_names();

}  // namespace saddle::run
