// saddle prune: scores of heads, the model without some of them, and what it is worth.
#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "output.hpp"
#include "prune_page.hpp"
#include "prune_subject.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/nn/models/multiply_adds.hpp"
#include "saddle/run/folder.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

// "5", "50%" or "0.5" of so many heads.
Index amount(const char* option, const std::string& text, Index all) {
  const bool percent = text.ends_with("%");
  const auto number = parse_number(percent ? text.substr(0, text.size() - 1) : text);
  const bool share = percent || text.find('.') != std::string::npos;
  if (!number || !(*number >= 0) || (!share && *number != std::floor(*number)) ||
      *number > (percent ? 100
                 : share ? 1
                         : 1e9))
    throw InvalidArgument(fmt::format("{} takes a number of heads or a share of them, found '{}'", option, text),
                          "write 6, 50% or 0.5");
  return share ? std::llround(*number * (percent ? 0.01 : 1) * static_cast<double>(all)) : static_cast<Index>(*number);
}

// How many of `all` heads stay; at most all, also where a layer has fewer than asked for.
Index heads_to_keep(const PruneArguments& arguments, Index all) {
  if (!arguments.keep.empty()) return amount("--keep", arguments.keep, all);
  const Index removed = amount("--remove", arguments.remove, all);
  if (removed >= all)
    throw InvalidArgument(fmt::format("--remove {} would leave nothing of {} heads", arguments.remove, all),
                          "every layer keeps at least one");
  return all - removed;
}

nn::KeptHeads choose(const PruneArguments& arguments, const nn::Model& model, const train::Ranking& ranking) {
  std::vector<Index> least = train::fewest_heads(model);
  const nn::KeptHeads all = nn::all_heads(model);
  if (!arguments.per_layer)
    return train::kept_heads(model, ranking, least, heads_to_keep(arguments, train::head_count(all)));
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    const auto heads = static_cast<Index>(all[layer].size());
    const Index kept = std::min(heads, heads_to_keep(arguments, heads));
    if (kept < 1)
      throw InvalidArgument(
          fmt::format("layer {} would keep {} of {} heads: every layer keeps at least one", layer, kept, heads));
    if (nn::can_lose_heads(model, layer)) least[layer] = kept;
  }
  return train::kept_heads(model, ranking, least, std::accumulate(least.begin(), least.end(), Index{0}));
}

struct Worth {
  Index heads = 0, parameters = 0;
  double multiply_adds = 0;
  std::vector<train::Score> scores;
};

Worth worth_of(const train::Trained& trained, const PruneSubject& subject) {
  Worth worth;
  worth.heads = train::head_count(nn::all_heads(*trained.model));
  worth.parameters = train::parameter_count(*trained.model);
  const bool image = trained.data.kind == data::Kind::image;
  worth.multiply_adds = nn::multiply_adds(*trained.model, image ? 0 : trained.positions);
  for (const train::Judged& judged : subject.judged) worth.scores.push_back(train::judge(trained, judged));
  return worth;
}

Json json_of(const Worth& worth, const PruneSubject& subject) {
  Json document{{"heads", worth.heads}, {"parameters", worth.parameters}, {"multiply_adds", worth.multiply_adds}};
  for (std::size_t i = 0; i < worth.scores.size(); ++i)
    document[subject.judged[i].name] = {{"accuracy", worth.scores[i].accuracy},
                                        {"loss", worth.scores[i].loss},
                                        {"count", subject.judged[i].samples.size()}};
  return document;
}

struct Pruning {
  PruneSubject subject;
  train::Ranking ranking;
  nn::KeptHeads kept;
  Index samples = 0;  // that the scores come from
  train::Trained smaller;
  Worth before, after;

  // How a head went: first, second ..., and its score when its turn came, which redundancy measures again each time.
  struct Turn {
    Index place = 0;  // from 1
    double score = 0;
  };

  std::optional<Turn> turn_of(std::size_t layer, Index head) const {
    Index place = 0;
    for (std::size_t i = 0; i < ranking.order.size(); ++i) {
      const train::Head& own = ranking.order[i];
      if (stays(static_cast<std::size_t>(own.layer), own.head)) continue;
      ++place;
      if (own == train::Head{static_cast<Index>(layer), head}) return Turn{place, ranking.turns[i]};
    }
    return std::nullopt;
  }
  bool stays(std::size_t layer, Index head) const {
    return std::find(kept[layer].begin(), kept[layer].end(), head) != kept[layer].end();
  }
};

Json json_of(const Pruning& pruning, const PruneArguments& arguments, const train::ScoreOptions& score) {
  Json layers = Json::array();
  const auto attentions = pruning.subject.trained.model->attentions();
  for (std::size_t layer = 0; layer < attentions.size(); ++layer) {
    Json heads = Json::array();
    for (Index head = 0; head < attentions[layer].heads; ++head) {
      const auto& scores = pruning.ranking.scores[layer];
      const auto turn = pruning.turn_of(layer, head);
      heads.push_back({{"head", head},
                       {"score", scores.empty() ? Json() : Json(scores[static_cast<std::size_t>(head)])},
                       {"stays", pruning.stays(layer, head)},
                       {"removed", turn ? Json(turn->place) : Json()},
                       {"score_when_removed", turn ? Json(turn->score) : Json()}});
    }
    layers.push_back({{"layer", layer}, {"attention", attentions[layer].attention}, {"heads", heads}});
  }
  return {{"run", pruning.subject.name},
          {"by", pruning.ranking.by},
          {"seed", score.seed},
          {"samples", pruning.samples},
          {"rescaled", arguments.rescale},
          {"layers", layers},
          {"before", json_of(pruning.before, pruning.subject)},
          {"after", json_of(pruning.after, pruning.subject)},
          {"notes", pruning.subject.notes},
          {"out", arguments.out.empty() ? Json() : Json(arguments.out)}};
}

analysis::Table heads_table(const Pruning& pruning) {
  analysis::Table table{"Heads", {"layer", "attention", "head", pruning.ranking.by, "", "order", "score then"}, {}};
  const auto attentions = pruning.subject.trained.model->attentions();
  for (std::size_t layer = 0; layer < attentions.size(); ++layer)
    for (Index head = 0; head < attentions[layer].heads; ++head) {
      const auto& scores = pruning.ranking.scores[layer];
      const auto turn = pruning.turn_of(layer, head);
      table.rows.push_back({std::to_string(layer), attentions[layer].attention, std::to_string(head),
                            scores.empty() ? "-" : fmt::format("{:.4g}", scores[static_cast<std::size_t>(head)]),
                            turn ? "goes" : "stays", turn ? std::to_string(turn->place) : "",
                            turn ? fmt::format("{:.4g}", turn->score) : ""});
    }
  return table;
}

analysis::Table worth_table(const Pruning& pruning) {
  analysis::Table table{"Before and after", {"", "before", "after"}, {}};
  const Worth &before = pruning.before, &after = pruning.after;
  table.rows.push_back({"heads", std::to_string(before.heads), std::to_string(after.heads)});
  table.rows.push_back({"parameters", std::to_string(before.parameters), std::to_string(after.parameters)});
  table.rows.push_back({"multiply-adds a sample", count_text(before.multiply_adds), count_text(after.multiply_adds)});
  for (std::size_t i = 0; i < before.scores.size(); ++i) {
    const train::Judged& judged = pruning.subject.judged[i];
    table.rows.push_back({fmt::format("{} accuracy, {} samples", judged.name, judged.samples.size()),
                          fmt::format("{:.2f} %", 100 * before.scores[i].accuracy),
                          fmt::format("{:.2f} %", 100 * after.scores[i].accuracy)});
    table.rows.push_back({judged.name + " loss", fmt::format("{:.4f}", before.scores[i].loss),
                          fmt::format("{:.4f}", after.scores[i].loss)});
  }
  return table;
}

std::string page_of(const Pruning& pruning) {
  PrunePage page;
  page.input = pruning.subject.name;
  page.about =
      "The score of every head in the whole model, layer by layer, and which heads go: those whose score is small when "
      "it is their turn; redundancy is measured again behind every head that goes. A model whose accuracy "
      "hardly changes had heads to spare; a fall by many points says that it needs those that went, or that another "
      "score should choose.";
  page.findings = pruning.subject.notes;
  page.score = pruning.ranking.by;
  const auto attentions = pruning.subject.trained.model->attentions();
  for (std::size_t layer = 0; layer < attentions.size(); ++layer) {
    ScoredLayer& own = page.layers.emplace_back();
    own.attention = attentions[layer].attention;
    own.scores = pruning.ranking.scores[layer];
    for (Index head = 0; head < attentions[layer].heads; ++head) own.stays.push_back(pruning.stays(layer, head));
  }
  page.tables = {worth_table(pruning), heads_table(pruning)};
  return html_of(page);
}

// A folder that eval, predict and analyze take as that of a run, or the model's file alone, which then says itself what
// it was trained on.
void write_smaller(const PruneArguments& arguments, const Pruning& pruning, const std::string& document) {
  const train::NamedTensors weights = train::weights_of(*pruning.smaller.model);
  run::Settings settings = pruning.subject.setup.settings;
  if (settings.model_options.empty()) settings.model = pruning.smaller.model->name();
  for (const nn::OptionValue& option : pruning.smaller.model->option_values())
    settings.model_options[option.name] = option.value;
  const std::string config = run::to_toml(settings, false);
  if (arguments.out.ends_with(".safetensors"))
    return train::write_trained(arguments.out, pruning.smaller, weights, pruning.subject.told ? config : "");
  const run::Folder folder(arguments.out, arguments.force ? run::Folder::Open::replace : run::Folder::Open::fresh);
  train::write_trained(folder.file("checkpoints") / "best.safetensors", pruning.smaller, weights);
  folder.write("prune.json", document);
  folder.write("config.toml", config);
}

void check(const PruneArguments& arguments) {
  if (arguments.runs.size() != 1)
    throw InvalidArgument(fmt::format("one model is pruned at a time, {} are given", arguments.runs.size()),
                          "--curve takes several");
  if (arguments.by.size() > 1) throw InvalidArgument("heads go by one score", "--curve takes several");
  if (arguments.keep.empty() == arguments.remove.empty())
    throw InvalidArgument(arguments.keep.empty() ? "nothing says how many heads stay"
                                                 : "--keep and --remove both say how many heads stay",
                          "give --keep 50%, or --remove 4, or --curve to see what they cost");
  if (arguments.draws != PruneArguments::not_given)
    throw InvalidArgument("--draws counts the random orders of --curve, and one model is pruned once",
                          "leave it out, or give --curve");
  if (arguments.out.empty() || arguments.force) return;
  if (arguments.out.ends_with(".safetensors") ? fs::exists(arguments.out) : run::has_run(arguments.out))
    throw InvalidArgument(fmt::format("{} exists already", arguments.out), "give another --out, or --force");
}

std::string text_of(const analysis::Table& table, const std::string& alignment) {
  cli::Table text(table.columns, alignment);
  for (const auto& row : table.rows) text.add(row);
  return text.text();
}

}  // namespace

int run_prune(const PruneArguments& arguments, const Context& context) {
  torch::set_num_threads(threads());
  if (arguments.curve) return prune_curve(arguments, context);
  check(arguments);
  const std::string by = arguments.by.empty() ? "redundancy" : arguments.by.front();
  const Index samples = samples_of(arguments, {by});
  const train::ScoreOptions score = score_options(arguments, {by});

  Pruning pruning;
  PruneSubject& subject = pruning.subject = open_subject(arguments.runs.front(), arguments);
  analysis::Probe seen;
  if (train::needs_probe(by))
    seen = train::probe_training(subject.trained, subject.train.data, subject.train.samples, samples);
  pruning.samples = static_cast<Index>(seen.samples.size());
  pruning.ranking = train::rank_heads(subject.trained, seen, by, score);
  subject.notes.insert(subject.notes.end(), pruning.ranking.notes.begin(), pruning.ranking.notes.end());
  pruning.kept = choose(arguments, *subject.trained.model, pruning.ranking);
  pruning.smaller = train::with_heads(subject.trained, pruning.kept, arguments.rescale);
  pruning.before = worth_of(subject.trained, subject);
  pruning.after = worth_of(pruning.smaller, subject);

  const Json document = json_of(pruning, arguments, score);
  if (!arguments.out.empty()) write_smaller(arguments, pruning, json_text("saddle.prune/1", document));
  if (!arguments.html.empty()) io::write_atomically(arguments.html, page_of(pruning));
  if (context.json) {
    print_json("saddle.prune/1", document);
    return Exit::ok;
  }
  std::string text = text_of(heads_table(pruning), "rlrrlrr") + "\n" + text_of(worth_table(pruning), "lrr");
  for (const std::string& note : subject.notes) text += wrap("note: " + note, 0);
  for (const std::string& place : {arguments.out, arguments.html})
    if (!place.empty()) text += "\n" + place;
  print(text + (arguments.out.empty() && arguments.html.empty() ? "" : "\n"));
  return Exit::ok;
}

}  // namespace saddle::cli
