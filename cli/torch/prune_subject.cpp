#include "prune_subject.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/analysis/result.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/run_folder.hpp"

namespace saddle::cli {

namespace {

void require_same_data(const train::Trained& trained, const data::Description& found) {
  const data::Description& own = trained.data;
  if (found.kind != own.kind || found.channels != own.channels || found.rows != own.rows ||
      found.columns != own.columns || found.vocabulary != own.vocabulary || found.classes != own.classes)
    throw InvalidArgument(
        fmt::format("{} has other inputs or classes than {}, which the model was trained on", found.name, own.name),
        "heads are judged on the data that trained them");
}

// An option `given` is for the scores `takers`, `what` in words: one of them must be asked for.
void require_taker(const std::string& given, const std::string& what, const std::vector<std::string>& takers,
                   const std::vector<std::string>& by) {
  for (const std::string& score : by) train::check_head_score(score);
  if (std::find_first_of(by.begin(), by.end(), takers.begin(), takers.end()) == by.end())
    throw InvalidArgument(fmt::format("{} is of {}, and heads go by {}", given, what, join(by)),
                          "leave it out, or give --by " + join(takers, " or --by "));
}

}  // namespace

PruneSubject open_subject(const std::string& run, const PruneArguments& arguments) {
  PruneSubject subject;
  subject.name = run;
  subject.trained = train::read_trained(run);
  nn::all_heads(*subject.trained.model);
  run::Settings settings;
  if (const auto told = train::settings_of_run(run)) {
    settings = *told;
    subject.told = true;
  } else if (arguments.data.empty()) {
    throw InvalidArgument(fmt::format("{} does not say what it was trained on", run),
                          "give --data, or the folder of the run");
  } else {
    subject.notes.emplace_back(
        "the file does not say which samples trained the model: those that judge it here may be among them");
  }
  if (!arguments.data.empty()) settings.data.name = arguments.data;
  if (!arguments.folder.empty()) settings.data.folder = arguments.folder;
  subject.setup = train::set_up(std::move(settings));
  const train::Setup& setup = subject.setup;
  require_same_data(subject.trained, setup.train->description());

  subject.train = {"training", setup.train, setup.split.train};
  if (setup.validation) {
    subject.judged.push_back({"validation", setup.validation, setup.split.validation});
  } else {
    subject.judged.push_back(subject.train);
    subject.notes.emplace_back(
        "there are no validation samples: accuracy is that on the samples that trained the model, which is too good");
  }
  if (arguments.test) {
    if (!setup.task.test)
      throw InvalidArgument(fmt::format("{} has no test split", setup.task.name), "leave out --test");
    const data::DatasetPtr test = setup.task.test();
    subject.judged.push_back({"test", test, train::all_of(*test)});
  }
  return subject;
}

train::ScoreOptions score_options(const PruneArguments& arguments, const std::vector<std::string>& by) {
  AnalyzeArguments given;
  given.assignments = arguments.assignments;
  analysis::Options options(analysis_options(given));
  train::ScoreOptions own;
  own.theory.temperature = options.number("temperature", own.theory.temperature);
  own.theory.width = options.integer("width", own.theory.width);
  if (const std::string readout = options.text("readout", ""); !readout.empty())
    own.theory.readout = analysis::attention_paths::readout_from(readout);
  options.check();
  if (!arguments.assignments.empty())
    require_taker("--set " + arguments.assignments.front(), "the theory", {"theory"}, by);
  if (arguments.seed == PruneArguments::not_given) return own;
  if (arguments.seed < 0) throw InvalidArgument(fmt::format("--seed must be 0 or above, found {}", arguments.seed));
  require_taker(fmt::format("--seed {}", arguments.seed), "random scores", {"random"}, by);
  own.seed = static_cast<std::uint64_t>(arguments.seed);
  return own;
}

Index samples_of(const PruneArguments& arguments, const std::vector<std::string>& by) {
  if (arguments.samples == PruneArguments::not_given) return 0;
  if (arguments.samples < 1 || arguments.samples > 4096)
    throw InvalidArgument(fmt::format("--samples must be from 1 to 4096, found {}", arguments.samples),
                          "leave it out for up to 128");
  std::vector<std::string> takers;
  for (const std::string& score : train::head_score_names())
    if (train::needs_probe(score)) takers.push_back(score);
  require_taker(fmt::format("--samples {}", arguments.samples), "scores that see the model at work", takers, by);
  return arguments.samples;
}

Index draws_of(const PruneArguments& arguments, const std::vector<std::string>& by) {
  if (arguments.draws == PruneArguments::not_given) return train::CurveOptions().draws;
  if (arguments.draws < 1 || arguments.draws > 1000)
    throw InvalidArgument(fmt::format("--draws must be from 1 to 1000, found {}", arguments.draws));
  require_taker(fmt::format("--draws {}", arguments.draws), "random scores", {"random"}, by);
  return arguments.draws;
}

}  // namespace saddle::cli
