#include <fmt/format.h>

#include <algorithm>

#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"

namespace saddle::experiment {

namespace {

const Choice* choice_of(const Results& results, const Part& part, const std::string& data, const std::string& value) {
  for (const Choice& choice : results.choices)
    if (choice.part == part.name && choice.data == data && choice.value == value) return &choice;
  return nullptr;
}

std::string choice_table(const Results& results, const Part& part) {
  std::vector<std::string> header{"data set"};
  for (const std::string& value : part.choices) header.push_back(escaped(value));
  Table table(header, "l" + std::string(part.choices.size(), 'r'));
  for (const std::string& data : part.data) {
    std::vector<std::string> row{data_name(data)};
    bool any = false;
    for (const std::string& value : part.choices) {
      const Choice* choice = choice_of(results, part, data, value);
      any = any || choice != nullptr;
      if (choice == nullptr) {
        row.push_back("-");
        continue;
      }
      const std::string accuracy = percent_text(choice->validation);
      row.push_back(
          fmt::format("{} ({:.3f})", choice->chosen ? "**" + accuracy + "**" : accuracy, choice->validation_loss));
    }
    if (any) table.add(std::move(row));
  }
  return table.size() == 0 ? "" : table.text();
}

}  // namespace

void choice_section(const Material& material, Written& out) {
  std::string tables;
  for (const Part& part : material.experiment.parts) {
    if (part.chooser) {
      tables += fmt::format("{} takes what was chosen for {}.\n\n", part.title, part.chooser->title);
      continue;
    }
    const std::string table = choice_table(material.results, part);
    if (table.empty()) continue;
    std::vector<std::string> attentions;
    for (const std::string& attention : part.attentions)
      if (attention.find('*') != std::string::npos) attentions.push_back(code(attention));
    tables += fmt::format("### Choice: {}\n\nThe value of * in {}:\n\n", part.title, listed(attentions)) + table;
  }
  out.markdown += "## Chosen values\n\n";
  out.markdown += tables.empty() ? "Nothing has been chosen yet.\n\n"
                                 : "Validation accuracy in per cent (validation loss) per value, with the first seed; "
                                   "the chosen one in bold. The test split takes no part in the choice.\n\n" +
                                       tables;
}

}  // namespace saddle::experiment
