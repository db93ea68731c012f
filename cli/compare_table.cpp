#include "compare_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "csv.hpp"
#include "output.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

// Names come from files; the terminal must not obey them.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    out += c < 0x20 || c == 0x7f || c1 ? '?' : text[i];
    if (c1) ++i;
  }
  return out;
}

// Of figures(), before those of the cost.
constexpr std::size_t score_count = 3;

bool predicts_numbers(const ComparedData& data) { return figures()[data.score].form == Figure::Form::number; }

const char* protocol_text(const std::string& protocol) {
  return protocol == "paper"
             ? "protocol paper: the epoch is chosen by the accuracy on the test split, which flatters"
             : "protocol honest: the epoch is chosen on a validation split, the test split is read once";
}

std::string value_text(Figure::Form form, double value) {
  switch (form) {
    case Figure::Form::share: return fmt::format("{:.2f}", 100 * value);
    case Figure::Form::count: return count_text(value);
    case Figure::Form::rate: return fmt::format("{:.4g}", value);
    case Figure::Form::bytes: return bytes_text(value);
    case Figure::Form::seconds: return seconds_text(value);
    case Figure::Form::number: break;
  }
  return fmt::format("{:.3g}", value);
}

// "87.31 ± 1.20"; the count only where it is not that of the row.
std::string spread_text(const Figure& figure, const std::optional<eval::Spread>& found, std::size_t seeds,
                        bool sign = false) {
  if (!found) return "-";
  std::string text = (sign && found->mean >= 0 ? "+" : "") + value_text(figure.form, found->mean);
  // What does not depend on the seed has no spread worth a column.
  if (found->deviation && (*found->deviation > 0 || figure.form == Figure::Form::share))
    text += " ± " + value_text(figure.form, *found->deviation);
  return found->count == seeds ? text : fmt::format("{} (n={})", text, found->count);
}

std::string seeds_text(const std::vector<Index>& seeds) {
  return fmt::format("{} seed{}", seeds.size(), seeds.size() == 1 ? "" : "s");
}

std::string data_text(const ComparedData& data, const std::string& baseline) {
  // What no run has is no column.
  const auto is_shown = [&](std::size_t i) {
    return !figures()[i].heading.empty() &&
           std::any_of(data.attentions.begin(), data.attentions.end(),
                       [&](const ComparedAttention& row) { return row.figures[i].has_value(); });
  };
  std::vector<std::string> header{"attention", "n"};
  for (std::size_t i = 0; i < figures().size(); ++i) {
    if (is_shown(i)) header.push_back(figures()[i].heading + (figures()[i].form == Figure::Form::share ? " %" : ""));
    if (i + 1 == score_count) header.emplace_back("difference");
  }
  Table table(header, "l" + std::string(header.size() - 1, 'r'));
  for (const ComparedAttention& row : data.attentions) {
    std::vector<std::string> cells{plain(row.label), std::to_string(row.seeds.size())};
    for (std::size_t i = 0; i < figures().size(); ++i) {
      if (is_shown(i)) cells.push_back(spread_text(figures()[i], row.figures[i], row.seeds.size()));
      if (i + 1 == score_count)
        cells.push_back(row.label == baseline
                            ? "baseline"
                            : spread_text(figures()[data.score], row.difference, row.seeds.size(), true));
    }
    table.add(std::move(cells));
  }
  return bold(plain(data.data)) + "  " + protocol_text(data.protocol) + "\n" + table.text();
}

std::string p_text(double p) { return p < 0.001 ? fmt::format("{:.1e}", p) : fmt::format("{:.4f}", p); }

std::string ranks_text(const CompareResult& result) {
  const eval::Comparison& found = *result.statistics;
  const bool nemenyi = found.posthoc == eval::Posthoc::nemenyi;
  std::vector<std::size_t> order(found.ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return found.ranks[a] < found.ranks[b]; });
  Table ranks({"attention", "average rank", "not told apart"}, "lrl");
  for (const std::size_t i : order) {
    std::string groups;  // a letter for each clique
    for (std::size_t c = 0; c < found.cliques.size(); ++c)
      if (std::find(found.cliques[c].begin(), found.cliques[c].end(), i) != found.cliques[c].end())
        groups += c < 26 ? static_cast<char>('a' + c) : '*';
    ranks.add({plain(result.labels[i]), fmt::format("{:.3f}", found.ranks[i]), groups});
  }
  Table pairs({"pair", "win/draw/loss", "p", nemenyi ? "" : "Holm", ""}, "lrrrl");
  for (const eval::PairResult& pair : found.pairs)
    pairs.add({plain(result.labels[pair.a]) + " against " + plain(result.labels[pair.b]),
               fmt::format("{}/{}/{}", pair.wins.win, pair.wins.draw, pair.wins.loss), p_text(pair.p),
               nemenyi ? "" : p_text(pair.adjusted), pair.significant ? "differ" : ""});
  std::string text = bold(fmt::format("{} data sets", result.ranked.size())) + "  " +
                     (nemenyi ? "Nemenyi's test" : "Wilcoxon's signed-rank test with Holm's correction") +
                     fmt::format(", alpha {}\n", format_number(found.alpha)) + ranks.text();
  if (found.friedman)
    text += fmt::format("Friedman: chi-squared {:.4f}, p {}\n", found.friedman->statistic, p_text(found.friedman->p));
  if (found.critical_difference) text += fmt::format("critical difference: {:.4f}\n", *found.critical_difference);
  return text + "\n" + pairs.text();
}

std::string latex_escaped(const std::string& text) {
  std::string out;
  for (const char c : plain(text)) {
    if (std::string_view("&%$#_{}").find(c) != std::string_view::npos)
      out += std::string("\\") + c;
    else if (c == '\\')
      out += "\\textbackslash{}";
    else if (c == '~')
      out += "\\textasciitilde{}";
    else if (c == '^')
      out += "\\textasciicircum{}";
    else
      out += c;
  }
  return out;
}

const ComparedAttention* row_of(const ComparedData& data, const std::string& label) {
  for (const ComparedAttention& row : data.attentions)
    if (row.label == label) return &row;
  return nullptr;
}

Json spread_json(const std::optional<eval::Spread>& found) {
  if (!found) return nullptr;
  return {
      {"mean", found->mean}, {"std", found->deviation ? Json(*found->deviation) : Json(nullptr)}, {"n", found->count}};
}

}  // namespace

std::string compare_text(const CompareResult& result) {
  std::string text;
  for (const ComparedData& data : result.data) text += (text.empty() ? "" : "\n") + data_text(data, result.baseline);
  text += wrap(
      "mean ± standard deviation over n seeds; difference: score minus that of the baseline under the same "
      "seed; memory: peak of the training process; head dist.: L2 distance between the outputs of heads",
      0);
  if (result.statistics) text += "\n" + ranks_text(result);
  for (const std::string& note : result.notes) text += wrap("note: " + plain(note), 0);
  return text;
}

std::string compare_csv(const CompareResult& result) {
  std::string text = "data,protocol,attention,seeds";
  const auto heading = [&](const std::string& key) { text += fmt::format(",{0}_mean,{0}_std,{0}_n", key); };
  for (const Figure& figure : figures()) heading(figure.key);
  heading("difference");
  text += "\n";
  const auto add = [&](const std::optional<eval::Spread>& found) {
    text += found ? fmt::format(",{},{},{}", format_number(found->mean),
                                found->deviation ? format_number(*found->deviation) : "", found->count)
                  : ",,,0";
  };
  for (const ComparedData& data : result.data)
    for (const ComparedAttention& row : data.attentions) {
      text += fmt::format("{},{},{},{}", csv_field(data.data), data.protocol, csv_field(row.label),
                          fmt::join(row.seeds, " "));
      for (const auto& found : row.figures) add(found);
      add(row.difference);
      text += "\n";
    }
  return text;
}

std::string compare_latex(const CompareResult& result) {
  std::set<std::string> protocols, seeds;
  for (const ComparedData& data : result.data) {
    protocols.insert(protocol_text(data.protocol));
    for (const ComparedAttention& row : data.attentions) seeds.insert(seeds_text(row.seeds));
  }
  const bool ranked = result.statistics.has_value();
  const bool numbers = std::any_of(result.data.begin(), result.data.end(), predicts_numbers);
  std::string text = fmt::format("% test accuracy in per cent{}, mean and standard deviation; {}\n",
                                 numbers ? ", of numbers the RMSE" : "", join(seeds));
  for (const std::string& protocol : protocols) text += "% " + protocol + "\n";
  text += "\\begin{tabular}{l" + std::string(result.data.size(), 'r') + (ranked ? "r" : "") + "}\n\\toprule\nattention";
  for (const ComparedData& data : result.data)
    text += " & " + latex_escaped(data.data) + (data.protocol == "paper" ? " (best test epoch)" : "");
  text += ranked ? " & rank \\\\\n\\midrule\n" : " \\\\\n\\midrule\n";
  for (std::size_t i = 0; i < result.labels.size(); ++i) {
    text += latex_escaped(result.labels[i]);
    for (const ComparedData& data : result.data) {
      const ComparedAttention* row = row_of(data, result.labels[i]);
      if (row == nullptr) {
        text += " & --";
        continue;
      }
      const eval::Spread& found = *row->figures[data.score];
      const Figure::Form form = figures()[data.score].form;
      // The larger the better, as it is printed.
      const auto worth = [&](const ComparedAttention& other) {
        const double mean = other.figures[data.score]->mean;
        return predicts_numbers(data) ? -std::stod(value_text(form, mean)) : std::round(mean * 1e4);
      };
      const bool best = std::all_of(data.attentions.begin(), data.attentions.end(),
                                    [&](const ComparedAttention& other) { return worth(other) <= worth(*row); });
      const std::string mean = value_text(form, found.mean);
      text += " & $" + (best ? "\\mathbf{" + mean + "}" : mean);
      if (found.deviation) text += " \\pm " + value_text(form, *found.deviation);
      text += "$";
    }
    if (ranked) text += fmt::format(" & {:.2f}", result.statistics->ranks[i]);
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

Json compare_json(const CompareResult& result) {
  Json groups = Json::array();
  for (const ComparedData& data : result.data) {
    Json rows = Json::array();
    for (const ComparedAttention& row : data.attentions) {
      Json entry{{"attention", row.label}, {"seeds", row.seeds}};
      for (std::size_t i = 0; i < figures().size(); ++i) entry[figures()[i].key] = spread_json(row.figures[i]);
      entry["difference"] = spread_json(row.difference);
      rows.push_back(entry);
    }
    groups.push_back(
        {{"data", data.data}, {"protocol", data.protocol}, {"score", figures()[data.score].key}, {"attentions", rows}});
  }
  return {{"baseline", result.baseline},
          {"results", groups},
          {"statistics", statistics_json(result)},
          {"notes", result.notes}};
}

}  // namespace saddle::cli
