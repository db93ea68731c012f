// saddle prune --curve: accuracy against the number of heads that stay, for each score, over several runs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "prune_page.hpp"
#include "prune_subject.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/eval/statistics.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/run/progress.hpp"

namespace saddle::cli {

namespace {

// Accuracies of one score with so many heads, on one set of samples: a list for each run, with an entry per draw.
using Accuracies = std::vector<std::vector<double>>;

// Over runs, each counted once; of one run over its draws.
eval::Spread spread_of(const Accuracies& accuracies) {
  if (accuracies.size() == 1) return eval::spread(accuracies.front());
  std::vector<double> means;
  for (const auto& draws : accuracies) means.push_back(eval::spread(draws).mean);
  return eval::spread(means);
}

struct Collected {
  std::vector<std::string> by, judged;
  std::vector<Index> kept;  // from all to the fewest
  std::map<std::pair<std::string, Index>, std::vector<Accuracies>>
      values;  // by score and heads: of each set of samples
};

void collect(Collected& all, const train::PruneCurves& found, std::size_t run, std::size_t judged) {
  for (const train::PruneCurve& curve : found.curves) {
    if (std::find(all.by.begin(), all.by.end(), curve.by) == all.by.end()) all.by.push_back(curve.by);
    for (const train::PrunePoint& point : curve.points) {
      if (std::find(all.kept.begin(), all.kept.end(), point.kept) == all.kept.end()) all.kept.push_back(point.kept);
      auto& sets = all.values[{curve.by, point.kept}];
      sets.resize(judged);
      for (std::size_t j = 0; j < judged; ++j) {
        sets[j].resize(std::max(sets[j].size(), run + 1));
        sets[j][run].push_back(point.scores[j].accuracy);
      }
    }
  }
}

// A score must have been had for every run, or its mean would be that of others.
void keep_common(Collected& all, std::size_t runs, std::vector<std::string>& notes) {
  std::erase_if(all.by, [&](const std::string& by) {
    const auto& lists = all.values.at({by, all.kept.front()}).front();
    const bool common =
        lists.size() == runs && std::none_of(lists.begin(), lists.end(), [](const auto& l) { return l.empty(); });
    if (!common) notes.push_back(fmt::format("{} is left out: not every run has it", by));
    return !common;
  });
}

analysis::Table table_of(const Collected& all, std::size_t judged) {
  analysis::Table table{fmt::format("{} accuracy in percent", all.judged[judged]), {"heads"}, {}};
  table.columns.insert(table.columns.end(), all.by.begin(), all.by.end());
  for (const Index kept : all.kept) {
    std::vector<std::string> row{std::to_string(kept)};
    for (const std::string& by : all.by) {
      const eval::Spread spread = spread_of(all.values.at({by, kept})[judged]);
      row.push_back(fmt::format("{:.1f}{}", 100 * spread.mean,
                                spread.deviation ? fmt::format(" ± {:.1f}", 100 * *spread.deviation) : ""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Json json_of(const Collected& all, const PruneArguments& arguments, const train::CurveOptions& options,
             const std::vector<std::string>& notes) {
  Json scores = Json::array();
  for (const std::string& by : all.by) {
    Json points = Json::array();
    for (const Index kept : all.kept) {
      Json point{{"heads", kept}};
      for (std::size_t j = 0; j < all.judged.size(); ++j) {
        const Accuracies& values = all.values.at({by, kept})[j];
        const eval::Spread spread = spread_of(values);
        point[all.judged[j]] = {{"mean", spread.mean},
                                {"deviation", spread.deviation ? Json(*spread.deviation) : Json()},
                                {"accuracies", values}};
      }
      points.push_back(std::move(point));
    }
    scores.push_back({{"by", by}, {"points", points}});
  }
  return {{"runs", arguments.runs},      {"draws", options.draws}, {"seed", options.score.seed},
          {"rescaled", options.rescale}, {"scores", scores},       {"notes", notes}};
}

std::string page_of(const Collected& all, const PruneArguments& arguments, const std::vector<std::string>& notes) {
  PrunePage page;
  page.input = join(arguments.runs);
  page.about = fmt::format(
      "Accuracy as heads go one after the other, in the order of each score; bars are the standard deviation over {}. "
      "A "
      "good score stays high for long; one that falls as fast as random, or faster, says nothing about this model.",
      arguments.runs.size() > 1 ? "runs" : "random orders");
  page.findings = notes;
  for (std::size_t j = 0; j < all.judged.size(); ++j) {
    CurvePanel& panel = page.panels.emplace_back();
    panel.judged = all.judged[j];
    for (const std::string& by : all.by) {
      SpreadCurve& curve = panel.curves.emplace_back();
      curve.by = by;
      for (const Index kept : all.kept) {
        const eval::Spread spread = spread_of(all.values.at({by, kept})[j]);
        curve.points.push_back({static_cast<double>(kept), 100 * spread.mean, 100 * spread.deviation.value_or(0)});
      }
    }
    page.tables.push_back(table_of(all, j));
  }
  return html_of(page);
}

void check(const PruneArguments& arguments) {
  if (!arguments.out.empty() || !arguments.keep.empty() || !arguments.remove.empty() || arguments.per_layer)
    throw InvalidArgument("--curve sweeps over numbers of heads and writes no model",
                          "leave out --out, --keep, --remove and --per-layer");
}

}  // namespace

int prune_curve(const PruneArguments& arguments, const Context& context) {
  check(arguments);
  train::CurveOptions options;
  if (!arguments.by.empty()) options.by = arguments.by;
  options.draws = draws_of(arguments, options.by);
  options.samples = samples_of(arguments, options.by);
  options.score = score_options(arguments, options.by);
  options.rescale = arguments.rescale;
  Collected all;
  std::vector<std::string> notes;
  for (std::size_t run = 0; run < arguments.runs.size(); ++run) {
    const PruneSubject subject = open_subject(arguments.runs[run], arguments);
    std::unique_ptr<run::Progress> progress;
    options.progress = [&](Index done, Index total) {
      if (!progress) progress = std::make_unique<run::Progress>(total, "models", 0, !context.quiet);
      progress->at(done, subject.name);
    };
    const train::PruneCurves found = train::prune_curves(subject.trained, subject.train, subject.judged, options);
    std::vector<std::string> judged;
    for (const train::Judged& each : subject.judged) judged.push_back(each.name);
    std::vector<Index> kept;
    for (const train::PrunePoint& point : found.curves.front().points) kept.push_back(point.kept);
    if (run == 0) {
      all.judged = judged;
    } else if (judged != all.judged || kept != all.kept) {
      throw InvalidArgument(fmt::format("{} and {} do not have the same heads, or are not judged alike",
                                        arguments.runs.front(), subject.name),
                            "give runs of one model that differ by their seeds");
    }
    collect(all, found, run, judged.size());
    for (const auto& list : {subject.notes, found.notes})
      for (const std::string& note : list)
        notes.push_back(arguments.runs.size() > 1 ? subject.name + ": " + note : note);
  }
  keep_common(all, arguments.runs.size(), notes);
  if (!arguments.html.empty()) io::write_atomically(arguments.html, page_of(all, arguments, notes));
  if (context.json) {
    print_json("saddle.prune-curve/1", json_of(all, arguments, options, notes));
    return Exit::ok;
  }
  std::string text;
  for (std::size_t j = 0; j < all.judged.size(); ++j) {
    const analysis::Table own = table_of(all, j);
    Table table(own.columns, std::string(own.columns.size(), 'r'));
    for (const auto& row : own.rows) table.add(row);
    text += (text.empty() ? "" : "\n") + bold(own.title) + "\n" + table.text();
  }
  for (const std::string& note : notes) text += wrap("note: " + note, 0);
  print(text + (arguments.html.empty() ? "" : "\n" + arguments.html + "\n"));
  return Exit::ok;
}

}  // namespace saddle::cli
