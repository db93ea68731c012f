// Published figures, ours under the same protocol, those of its last epoch, and ours under the honest one, side by
// side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"

namespace saddle::experiment {

namespace {

const Published* published_for(const Experiment& experiment, const std::string& data, const std::string& attention,
                               const std::string& name = "") {
  for (const Published& figure : experiment.published)
    if (figure.data == data && figure.attention == attention && (name.empty() || figure.name == name)) return &figure;
  return nullptr;
}

std::string accuracy_text(const Grid::Cell& cell) {
  const auto found = accuracy_of(cell);
  return found ? percent_text(*found) : "-";
}

// "2.5 points higher on average over 4 pairs of figures (standard deviation 0.6)"
std::string difference_text(const std::vector<double>& points) {
  const eval::Spread spread = eval::spread(points);
  return fmt::format("{:.1f} points {} on average over {}{}", std::abs(spread.mean),
                     spread.mean < 0 ? "lower" : "higher", counted(spread.count, "pair of figures", "pairs of figures"),
                     spread.deviation ? fmt::format(" (standard deviation {:.1f})", *spread.deviation) : "");
}

}  // namespace

std::string protocol_text(const Material& material, const Grid& paper, const Grid* honest) {
  const Part& part = paper.part();
  std::vector<std::string> header{"data set", "attention", "published", "best test epoch", "last epoch"};
  if (honest != nullptr) header.emplace_back("honest");
  Table table(header, "ll" + std::string(header.size() - 2, 'r'));
  std::vector<double> above_last, above_honest;
  for (std::size_t d = 0; d < part.data.size(); ++d)
    for (std::size_t a = 0; a < part.attentions.size(); ++a) {
      const Grid::Cell& runs = paper.at(d, a);
      const auto best = accuracy_of(runs);
      const auto last = spread_of(runs, [](const Record& record) { return record.last; });
      if (!best) continue;
      const Published* figure = published_for(material.experiment, part.data[d], part.attentions[a]);
      std::vector<std::string> row{data_name(part.data[d]), code(part.attentions[a]),
                                   figure != nullptr ? fmt::format("{:.1f}", figure->accuracy) : "-",
                                   percent_text(*best), percent_text(*last)};
      above_last.push_back(100 * (best->mean - last->mean));
      if (honest != nullptr) {
        const Grid::Cell& others = honest->of(part.data[d], part.attentions[a]);
        row.push_back(accuracy_text(others));
        if (const auto found = accuracy_of(others)) above_honest.push_back(100 * (best->mean - found->mean));
      }
      table.add(std::move(row));
    }
  std::string text = fmt::format(
      "The paper protocol, that of the literature, trains on the whole training file and picks the epoch with the best "
      "accuracy on the test split. That alone makes its figure {} than the last epoch of the same runs.",
      difference_text(above_last));
  if (honest != nullptr)
    text +=
        " The honest protocol keeps a part of the training file for validation, so trains on less, picks the epoch on "
        "it and reads the test split once.";
  if (!above_honest.empty())
    text += fmt::format(" The paper protocol's figure is {} than the honest one.", difference_text(above_honest));
  return text + "\n\n" + table.text();
}

std::vector<std::string> published_sentences(const Material& material, const Grid& paper) {
  const Part& part = paper.part();
  std::vector<std::string> names, sentences;
  for (const Published& figure : material.experiment.published)
    if (figure.attention == part.attentions.front() &&
        std::find(names.begin(), names.end(), figure.name) == names.end())
      names.push_back(figure.name);
  for (const std::string& name : names) {
    std::vector<double> ours, theirs;
    std::vector<std::string> off;
    for (std::size_t d = 0; d < part.data.size(); ++d) {
      const Published* figure = published_for(material.experiment, part.data[d], part.attentions.front(), name);
      const auto found = accuracy_of(paper.at(d, 0));
      if (figure == nullptr || !found) continue;
      ours.push_back(100 * found->mean);
      theirs.push_back(figure->accuracy);
      if (std::abs(ours.back() - theirs.back()) > 1)
        off.push_back(
            fmt::format("{} ({} against {:.1f})", data_name(part.data[d]), percent_text(found->mean), theirs.back()));
    }
    if (ours.empty()) continue;
    const double mine = eval::spread(ours).mean, published = eval::spread(theirs).mean;
    sentences.push_back(fmt::format(
        "{}: {} under the paper protocol averages {:.1f} on the {} for which {} is published, against {:.1f} there: "
        "{}. {}",
        part.title, code(part.attentions.front()), mine, counted(ours.size(), "set"), escaped(name), published,
        std::abs(mine - published) <= 1
            ? "within a point"
            : fmt::format("{:.1f} points {}", std::abs(mine - published), mine < published ? "lower" : "higher"),
        off.empty() ? "No single set is off by more than a point."
                    : fmt::format("Off by more than a point: {}.", listed(off))));
  }
  return sentences;
}

}  // namespace saddle::experiment
