// Published figures, ours under the same protocol, and ours under the honest one, side by side.
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

bool has_published(const Experiment& experiment, const Grid& grid, const std::string& attention) {
  const std::vector<std::size_t> data = grid.data();
  return std::any_of(data.begin(), data.end(), [&](std::size_t d) {
    return published_for(experiment, grid.part().data[d], attention) != nullptr;
  });
}

std::string accuracy_text(const Grid::Cell& cell) {
  const auto found = accuracy_of(cell);
  return found ? percent_text(*found) : "-";
}

}  // namespace

std::string protocol_text(const Material& material, const Grid& paper, const Grid& honest) {
  const Part& part = paper.part();
  std::vector<std::string> header{"data set"};
  std::vector<std::size_t> attentions;
  for (std::size_t a = 0; a < part.attentions.size(); ++a) {
    const std::vector<std::size_t> of_paper = paper.attentions(), of_honest = honest.attentions();
    const auto in = [&](const std::vector<std::size_t>& list) {
      return std::find(list.begin(), list.end(), a) != list.end();
    };
    if (!in(of_paper) && !in(of_honest)) continue;
    attentions.push_back(a);
    const std::string name = code(part.attentions[a]);
    if (has_published(material.experiment, paper, part.attentions[a])) header.push_back(name + " published");
    header.push_back(name + " paper protocol");
    header.push_back(name + " honest");
  }
  Table table(header, "l" + std::string(header.size() - 1, 'r'));
  std::vector<double> higher;
  for (std::size_t d = 0; d < part.data.size(); ++d) {
    std::vector<std::string> row{data_name(part.data[d])};
    bool any = false;
    for (const std::size_t a : attentions) {
      if (has_published(material.experiment, paper, part.attentions[a])) {
        const Published* figure = published_for(material.experiment, part.data[d], part.attentions[a]);
        row.push_back(figure != nullptr ? fmt::format("{:.1f}", figure->accuracy) : "-");
      }
      row.push_back(accuracy_text(paper.at(d, a)));
      row.push_back(accuracy_text(honest.at(d, a)));
      any = any || !paper.at(d, a).empty() || !honest.at(d, a).empty();
      if (const auto first = accuracy_of(paper.at(d, a)), second = accuracy_of(honest.at(d, a)); first && second)
        higher.push_back(100 * (first->mean - second->mean));
    }
    if (any) table.add(std::move(row));
  }
  std::string text =
      "The paper protocol, that of the literature, trains on the whole training file and picks the epoch with the best "
      "accuracy on the test split; the honest one keeps a part of the training file for validation, picks the epoch on "
      "it and reads the test split once.";
  if (!higher.empty()) {
    const eval::Spread spread = eval::spread(higher);
    text += fmt::format(" Here the paper protocol's figure is {:.1f} points {} on average over {}{}.",
                        std::abs(spread.mean), spread.mean < 0 ? "lower" : "higher",
                        counted(spread.count, "pair of figures", "pairs of figures"),
                        spread.deviation ? fmt::format(" (standard deviation {:.1f})", *spread.deviation) : "");
  }
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
