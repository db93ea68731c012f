// The page of an experiment: verdicts by their rules, tables, plots, and nothing that the data could break.
#include "saddle/experiment/page.hpp"

#include <gmock/gmock.h>

#include <regex>

#include "saddle/experiment/svg_test.hpp"
#include "saddle/experiment/verdict_internal.hpp"

namespace saddle::experiment {
namespace {

using testing::HasSubstr;
using testing::Not;

class ExperimentPage : public testing::Test {
 protected:
  ExperimentPage() {
    experiment.name = "made-up";
    experiment.title = "A made-up experiment";
    experiment.question = "Is it better?\n";
    experiment.sections = {Section::accuracy};
    Part part;
    part.name = "d64", part.title = "Width 64";
    part.attentions = {"softmax", "softmax+sh"};
    part.protocols = {"honest"};
    part.seeds = 2;
    experiment.parts = {part};
    results.experiment = "made-up";
  }

  Part& part() { return experiment.parts.front(); }

  // Data sets A, B, C, ..
  void sets(int count) {
    part().data.clear();
    for (int i = 0; i < count; ++i) part().data.emplace_back(1, static_cast<char>('A' + i));
  }

  Record& add(const std::string& data, const std::string& attention, Index seed, double accuracy,
              const std::string& protocol = "honest") {
    Record record;
    record.part = "d64", record.protocol = protocol, record.data = data, record.attention = attention;
    record.seed = seed, record.accuracy = record.last = accuracy;
    record.epochs = 100, record.best_epoch = 50, record.train = 100, record.test = 50, record.length = 32,
    record.width = 64, record.parameters = 1000, record.multiply_adds = 1e6;
    record.train_seconds = 1800, record.train_rate = 100, record.inference_rate = 400, record.memory = 2e8;
    record.precision = "float32", record.started = "2026-11-16T12:00:00Z", record.version = "0.1.0";
    record.cpu = "Some CPU", record.isa = "avx2";
    results.records.push_back(record);
    return results.records.back();
  }

  // Softmax at 0.5 everywhere, softmax+sh this much above it, under both seeds.
  void differences(const std::vector<double>& list) {
    sets(static_cast<int>(list.size()));
    for (std::size_t i = 0; i < list.size(); ++i)
      for (Index seed = 0; seed < 2; ++seed) {
        add(part().data[i], "softmax", seed, 0.5);
        add(part().data[i], "softmax+sh", seed, 0.5 + list[i]);
      }
  }

  std::string markdown() const { return page(experiment, results).markdown; }
  std::string in_short() const {
    const std::string text = markdown();
    const std::size_t from = text.find("> **In short**");
    return text.substr(from, text.find("\n\n", from) - from);
  }
  // The line of the table that begins with this cell.
  std::string row(const std::string& first, std::size_t from = 0) const {
    const std::string text = markdown();
    const std::size_t at = text.find("\n| " + first + " |", from);
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }

  Experiment experiment;
  Results results;
};

TEST_F(ExperimentPage, ConfirmsWhatIsBetterOnEnoughSets) {
  differences({0.01, 0.02, 0.03, 0.04, 0.05, 0.06});
  EXPECT_THAT(
      in_short(),
      HasSubstr(
          "Width 64, honest protocol: that `softmax+sh` is more accurate than `softmax` is "
          "**confirmed**: +3.5 points on average over 6 data sets (95 % interval +1.5 "
          "to +5.5, standard deviation 1.9 between sets; better on 6, equal on 0, worse on 0; Wilcoxon p = 0.031)"));
}

TEST_F(ExperimentPage, ContradictsWhatIsWorse) {
  differences({-0.01, -0.02, -0.03, -0.04, -0.05, -0.06});
  EXPECT_THAT(in_short(), HasSubstr("**contradicted**: -3.5 points on average over 6 data sets"));
}

TEST_F(ExperimentPage, DoesNotConfirmWhatGoesBothWays) {
  differences({0.01, -0.02, 0.03, -0.04, 0.05, -0.06, 0});
  EXPECT_THAT(in_short(), HasSubstr("**not confirmed**: -0.4 points on average over 7 data sets"));
  EXPECT_THAT(in_short(), HasSubstr("better on 3, equal on 1, worse on 3"));
}

TEST_F(ExperimentPage, SaysWhenSoFewSetsCannotDecide) {
  differences({0.01, 0.02, 0.03, 0.04, 0.05});
  EXPECT_THAT(in_short(), HasSubstr("+3.0 points on average over 5 data sets"));
  EXPECT_THAT(in_short(), HasSubstr("p cannot get below 0.062 here)"));
  EXPECT_THAT(in_short(), Not(HasSubstr("confirmed")));
}

TEST_F(ExperimentPage, CountsTheAttentionsWhenItAsksWhetherSetsAreEnough) {
  differences({0.01, 0.02, 0.03, 0.04, 0.05, 0.06});
  part().attentions.emplace_back("linear");
  for (const std::string& data : part().data) add(data, "linear", 0, 0.4);
  // Six sets give 1/32 at best, and twice that with two attentions.
  EXPECT_THAT(in_short(), HasSubstr("p cannot get below 0.062 here"));
}

TEST_F(ExperimentPage, CorrectsForTheNumberOfAttentions) {
  differences({0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07});
  part().attentions.emplace_back("linear");
  for (const std::string& data : part().data) add(data, "linear", 0, 0.5);
  EXPECT_THAT(in_short(), HasSubstr("is **confirmed**: +4.0 points on average over 7 data sets"));
  EXPECT_THAT(in_short(), HasSubstr("Wilcoxon p = 0.031 after Holm"));  // twice 1/64
  EXPECT_THAT(in_short(), HasSubstr("That `linear` is more accurate than `softmax` is **not confirmed**: 0.0 points"));
}

TEST_F(ExperimentPage, ComparesOverSeedsOnOneSet) {
  sets(1);
  for (Index seed = 0; seed < 2; ++seed) {
    add("A", "softmax", seed, 0.5);
    add("A", "softmax+sh", seed, seed == 0 ? 0.52 : 0.54);
  }
  EXPECT_THAT(
      in_short(),
      HasSubstr(
          "cannot be decided with one data set: on A, +3.0 points on average over 2 seeds (standard deviation 1.4)."));
}

TEST_F(ExperimentPage, GivesIntervalsFromThreeOn) {
  differences({0.01, 0.02, 0.03});
  EXPECT_THAT(row("`softmax+sh`"), HasSubstr("| 3 | +2.0 ± 1.0 | -0.5 to +4.5 | 3 / 0 / 0 |"));
  EXPECT_THAT(in_short(), HasSubstr("(95 % interval -0.5 to +4.5, standard deviation 1.0 between sets;"));
  std::erase_if(results.records, [](const Record& record) { return record.data == "C"; });
  EXPECT_THAT(row("`softmax+sh`"), HasSubstr("| 2 | +1.5 ± 0.7 | - | 2 / 0 / 0 |"));
  std::erase_if(results.records, [](const Record& record) { return record.data == "B"; });
  add("A", "softmax", 2, 0.5);
  add("A", "softmax+sh", 2, 0.52);
  EXPECT_THAT(in_short(), HasSubstr("on A, +1.3 points on average over 3 seeds (95 % interval -0.1 to +2.8, standard"));
}

TEST_F(ExperimentPage, PairsBySeed) {
  sets(1);
  add("A", "softmax", 0, 0.5);
  add("A", "softmax", 1, 0.9);  // has no partner
  add("A", "softmax+sh", 0, 0.6);
  EXPECT_THAT(in_short(), HasSubstr("+10.0 points on average over 1 seed."));
}

TEST(Paired, LeavesEqualPairsOutAndStaysExact) {
  // The normal approximation would give 0.043 for five pairs on one side.
  EXPECT_DOUBLE_EQ(paired({1, 2, 3, 4, 5, 0}).p, 0.0625);
  EXPECT_EQ(paired({0, 0}).p, 1);
}

TEST(Paired, GoesByRanksNotByTheMean) {
  Paired pair = paired({-100, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_TRUE(pair.upwards);
  adjust({&pair});
  EXPECT_EQ(pair.outcome, Outcome::confirmed);
}

TEST_F(ExperimentPage, ShowsMeanDeviationAndSeedsWithTheBestBold) {
  sets(2);
  for (const std::string& data : part().data)
    for (Index seed = 0; seed < 2; ++seed) {
      add(data, "softmax", seed, seed == 0 ? 0.50 : 0.52);
      add(data, "softmax+sh", seed, 0.6);
    }
  EXPECT_EQ(row("A"), "| A | 51.0 ± 1.4 (2) | **60.0** ± 0.0 (2) |");
  EXPECT_EQ(row("average of the 2 sets that all columns have"),
            "| average of the 2 sets that all columns have | 51.0 | **60.0** |");
}

TEST_F(ExperimentPage, LeavesMissingCellsEmptyAndAveragesWhatAllHave) {
  differences({0.1, 0.1, 0.1});
  std::erase_if(results.records,
                [](const Record& record) { return record.data == "C" && record.attention == "softmax+sh"; });
  EXPECT_EQ(row("C"), "| C | 50.0 ± 0.0 (2) | - |");
  EXPECT_EQ(row("average of the 2 sets that all columns have"),
            "| average of the 2 sets that all columns have | 50.0 | **60.0** |");
  EXPECT_THAT(in_short(), HasSubstr("10 of the 12 planned runs are in"));
}

TEST_F(ExperimentPage, PutsFloorsAndPublishedFiguresBesideOurs) {
  differences({0.1, 0.1, 0.1});
  for (const char* data : {"A", "B", "C"}) results.floors.push_back({data, "commonest", 0.25});
  results.floors.push_back({"A", "ridge", 0.4});
  results.floors.push_back({"A", "rocket", 0.7});
  experiment.published = {{"A", "Transformer", "softmax", 52.0, "Table 1"},
                          {"B", "Transformer", "softmax", 50.4, "Table 1"}};
  const std::string text = markdown();
  EXPECT_THAT(text, HasSubstr("| data set | commonest | other simple method | Transformer, published <sup>2</sup> | "
                              "`softmax` | `softmax+sh` |"));
  EXPECT_THAT(row("A"), HasSubstr("| 25.0 | 70.0 <sup>1</sup> | 52.0 | 50.0 ± 0.0 (2) |"));
  EXPECT_THAT(row("C"), HasSubstr("| 25.0 | - | - | 50.0 ± 0.0 (2) |"));
  EXPECT_THAT(text, HasSubstr("<sup>1</sup> rocket<br>\n<sup>2</sup> Table 1\n"));
  EXPECT_EQ(row("average of the 3 sets that all of ours have"),
            "| average of the 3 sets that all of ours have | 25.0 | - | - | 50.0 | **60.0** |");
}

TEST_F(ExperimentPage, NotesRunsWithFewerEpochs) {
  differences({0.1, 0.1});
  results.records.back().epochs = 20;
  const std::string text = markdown();
  EXPECT_THAT(text, HasSubstr("| B | 50.0 ± 0.0 (2) | **60.0** ± 0.0 (2) <sup>1</sup> |"));
  EXPECT_THAT(text, HasSubstr("<sup>1</sup> 1 of 2 runs had fewer epochs: 20 instead of 100."));
}

TEST_F(ExperimentPage, SetsTheProtocolsSideBySide) {
  sets(2);
  part().protocols = {"paper", "honest"};
  for (const std::string& data : part().data)
    for (const char* attention : {"softmax", "softmax+sh"}) {
      add(data, attention, 0, 0.50);
      add(data, attention, 0, data == "A" ? 0.53 : 0.52, "paper").last = 0.51;
    }
  experiment.published = {{"A", "Transformer", "softmax", 53.4, "Table 1"},
                          {"B", "Transformer", "softmax", 56.0, "Table 1"}};
  const std::string text = markdown();
  EXPECT_THAT(text, HasSubstr("### What the choice of the epoch makes: Width 64"));
  EXPECT_THAT(text, HasSubstr("makes its figure 1.5 points higher on average over 4 pairs of figures (standard "
                              "deviation 0.6) than the last epoch"));
  EXPECT_THAT(text, HasSubstr("figure is 2.5 points higher on average over 4 pairs of figures (standard deviation "
                              "0.6) than the honest one"));
  EXPECT_THAT(text, HasSubstr("| data set | attention | published | best test epoch | last epoch | honest |"));
  EXPECT_THAT(text, HasSubstr("| A | `softmax` | 53.4 | 53.0 (1) | 51.0 (1) | 50.0 (1) |"));
  EXPECT_THAT(text, HasSubstr("| B | `softmax+sh` | - | 52.0 (1) | 51.0 (1) | 50.0 (1) |"));
  EXPECT_THAT(in_short(), HasSubstr("averages 52.5 on the 2 sets for which Transformer is published, against 54.7 "
                                    "there: 2.2 points lower. Off by more than a point: B (52.0 against 56.0)."));
  EXPECT_THAT(in_short(), HasSubstr("In the other grids: Width 64, paper protocol: 1 cannot be decided"));
}

TEST_F(ExperimentPage, FindsTheOtherProtocolInAPartWithTheSameSettings) {
  sets(2);
  part().settings = {{"train.epochs", "100"}};
  Part published = part();
  published.name = "published", published.title = "As published";
  published.data = {"B"}, published.protocols = {"paper"}, published.paper_settings = {{"train.evaluate_every", "2"}};
  experiment.parts.push_back(published);
  for (const std::string& data : part().data) add(data, "softmax", 0, data == "A" ? 0.4 : 0.5);
  add("B", "softmax", 0, 0.6, "paper").part = "published";
  EXPECT_THAT(markdown(), HasSubstr("| B | `softmax` | - | 60.0 (1) | 60.0 (1) | 50.0 (1) |"));
  experiment.parts.back().settings = {{"train.epochs", "50"}};
  EXPECT_THAT(markdown(), HasSubstr("| B | `softmax` | - | 60.0 (1) | 60.0 (1) |\n")) << "other models";

  // Every such part is held to what is published.
  part().protocols = {"honest", "paper"};
  add("B", "softmax", 0, 0.55, "paper");
  experiment.published = {{"B", "Transformer", "softmax", 60.2, "Table 1"}};
  EXPECT_THAT(in_short(), HasSubstr("Width 64: `softmax` under the paper protocol averages 55.0"));
  EXPECT_THAT(in_short(), HasSubstr("As published: `softmax` under the paper protocol averages 60.0"));
}

TEST_F(ExperimentPage, TakesTheChosenValueOfEachSet) {
  sets(2);
  part().attentions = {"softmax", "softmax+bn(beta=*)"};
  part().choices = {"0.2", "0.6"};
  experiment.sections = {Section::accuracy, Section::choice};
  for (const std::string& data : part().data) {
    add(data, "softmax", 0, 0.5);
    add(data, "softmax+bn(beta=0.2)", 0, 0.6);
    add(data, "softmax+bn(beta=0.6)", 0, 0.7);
    for (const char* value : {"0.2", "0.6"})
      results.choices.push_back({"d64", data, value, value == std::string("0.2") ? 0.8 : 0.75, 0.5, false});
  }
  results.choices[0].chosen = results.choices[3].chosen = true;
  EXPECT_THAT(row("A"), HasSubstr("**60.0** (1)"));
  EXPECT_THAT(row("B"), HasSubstr("**70.0** (1)"));
  EXPECT_EQ(row("A", markdown().find("## Chosen")), "| A | **80.0** (0.500) | 75.0 (0.500) |");
  EXPECT_EQ(row("B", markdown().find("## Chosen")), "| B | 80.0 (0.500) | **75.0** (0.500) |");
  EXPECT_THAT(markdown(), HasSubstr("2 records of the raw file belong to no cell"));
  // Another part can take the same choice.
  Part wide = part();
  wide.name = "d512";
  wide.title = "Width 512";
  wide.chooser = std::make_shared<const Part>(part());
  experiment.parts.push_back(wide);
  Record record = results.records[1];
  record.part = "d512";
  record.accuracy = 0.9;
  results.records.push_back(record);
  EXPECT_EQ(row("A", markdown().find("### Width 512")), "| A | 90.0 (1) |");
  EXPECT_THAT(markdown(), HasSubstr("Width 512 takes what was chosen for Width 64."));
  experiment.parts.pop_back();
  results.records.pop_back();
  // While nothing is chosen the runs that serve the choice are no result.
  results.choices[0].chosen = false;
  EXPECT_EQ(row("A"), "| A | 50.0 (1) | - |");
}

TEST_F(ExperimentPage, ComparesHeadDistances) {
  sets(3);
  experiment.sections = {Section::distance};
  for (const std::string& data : part().data)
    for (const char* attention : {"softmax", "softmax+sh"})
      for (Index seed = 0; seed < 2; ++seed) {
        Record& record = add(data, attention, seed, 0.5);
        const bool softmax = std::string(attention) == "softmax";
        const double scale = softmax ? 1 : data == "A" ? 1.5 : data == "B" ? 1.25 : 2;
        // Outputs grow more than their distance: heads are farther apart and more alike.
        const double size = softmax ? 1 : 10;
        record.train_distance = {{10 * scale, 2, 5 * size}, {3 * scale * scale, 1, 5 * size}};
        record.test_distance = {{9 * scale, 2, 5 * size}, {2 * scale * scale, 1, 5 * size}};
      }
  const std::string text = markdown();
  EXPECT_THAT(text, HasSubstr("| A | 1 | `softmax+sh` | 13.5 ± 0 (2) | 2 | 1.50 | 0.27 ± 0 (2) | 0.15 |"));
  EXPECT_THAT(
      in_short(),
      HasSubstr("That heads of `softmax+sh` differ more than those of `softmax` is **contradicted**: the relative "
                "distance is larger in 0 of 6 cells of data set x layer on the test split (Wilcoxon p = 0.031 over the "
                "cells) and in 0 of 6 on the training split, the raw distance in 6 of 6 and 6 of 6."));
  ASSERT_EQ(page(experiment, results).plots.size(), 1u);
  EXPECT_EQ(page(experiment, results).plots[0].first, "made-up-d64-honest-distance.svg");
}

TEST_F(ExperimentPage, TakesNoDepthForEvidence) {
  sets(1);
  experiment.sections = {Section::distance};
  for (const char* attention : {"softmax", "softmax+sh"}) {
    Record& record = add("A", attention, 0, 0.5);
    for (int layer = 1; layer <= 12; ++layer)
      record.test_distance.push_back({layer * (std::string(attention) == "softmax" ? 1.0 : 2.0), 1, 1});
  }
  EXPECT_THAT(in_short(),
              HasSubstr("cannot be decided with one data set: the relative distance is larger in 12 of 12 cells"));
  EXPECT_THAT(in_short(), Not(HasSubstr("confirmed")));
}

TEST_F(ExperimentPage, ComparesCostWithinTheFamily) {
  part().attentions = {"softmax", "softmax+bn+sh", "linear", "linear+bn+sh"};
  part().data = {"short", "long"};
  experiment.sections = {Section::cost};
  for (const std::string& data : part().data)
    for (const std::string& attention : part().attentions)
      for (Index seed = 0; seed < 2; ++seed) {
        Record& record = add(data, attention, seed, 0.5);
        record.length = data == "short" ? 128 : 1024;
        record.multiply_adds = attention == "softmax" ? 100 : attention == "linear" ? 50 : data == "short" ? 40 : 30;
        record.train_rate = attention == "softmax+bn+sh" ? 80 : 100;
      }
  EXPECT_THAT(in_short(),
              HasSubstr("`softmax+bn+sh` against `softmax` at width 64, from N = 128 to 1024: multiply-adds 0.40 to "
                        "0.30, training time 1.25 to 1.25, inference time 1.00 to 1.00, memory 1.00 to 1.00; the "
                        "advantage grows in multiply-adds, not in training time, inference time and memory."));
  EXPECT_THAT(
      in_short(),
      HasSubstr("`linear+bn+sh` against `linear` at width 64, from N = 128 to 1024: multiply-adds 0.80 to 0.60"));
  EXPECT_THAT(in_short(), Not(HasSubstr("`linear` against")));
  EXPECT_THAT(markdown(), HasSubstr("| 128 | 64 | short | `linear+bn+sh` | `linear` | 0.80 | 1.00 | 1.00 | 1.00 |"));
  ASSERT_EQ(page(experiment, results).plots.size(), 1u);
  EXPECT_EQ(page(experiment, results).plots[0].first, "made-up-length-at-width-64.svg");
}

TEST_F(ExperimentPage, FindsTheBestValueOfASweepOnValidation) {
  part().attentions = {"softmax", "softmax+bn(beta=0.2)", "softmax+bn(beta=1)", "softmax+bn(beta=0.6)"};
  sets(2);
  experiment.sections = {Section::sweep};
  for (const std::string& data : part().data)
    for (const std::string& attention : part().attentions) {
      const bool best = attention == "softmax+bn(beta=0.6)";
      add(data, attention, 0, best ? 0.55 : attention == "softmax" ? 0.5 : 0.6).validation = best ? 0.9 : 0.7;
    }
  EXPECT_THAT(
      in_short(),
      HasSubstr(
          "`softmax+bn(beta=...)`, Width 64, honest protocol: beta = 0.6 has the best validation accuracy on average "
          "over 2 data sets (90.0 per cent, the worst value 70.0). On the test split: that `softmax+bn(beta=0.6)` is "
          "more accurate than `softmax` cannot be decided with so few sets: +5.0 points"));
  EXPECT_THAT(markdown(), HasSubstr("| data set | `softmax` | beta = 0.2 | beta = 0.6 | beta = 1 |"));
}

TEST_F(ExperimentPage, ComparesMeansOverCommonSeeds) {
  part().attentions = {"softmax", "softmax+bn(beta=0.2)", "softmax+bn(beta=0.6)", "softmax+bn(beta=1)"};
  sets(2);
  experiment.sections = {Section::accuracy, Section::sweep};
  for (const std::string& data : part().data)
    for (const std::string& attention : part().attentions)
      add(data, attention, 0, 0.5).validation = attention == "softmax+bn(beta=0.6)" ? 0.8 : 0.7;
  // A lucky seed that the others do not have.
  for (const std::string& data : part().data) add(data, "softmax+bn(beta=0.2)", 1, 0.9).validation = 1.0;
  EXPECT_THAT(in_short(), HasSubstr("beta = 0.6 has the best validation accuracy on average over 2 data sets (80.0 per "
                                    "cent, the worst value 70.0)"));
  EXPECT_THAT(row("A"), HasSubstr("**70.0** ± 28.3 (2)"));
  EXPECT_THAT(row("average of the 2 sets that all columns have"),
              HasSubstr("| **50.0** | **50.0** | **50.0** | **50.0** |"));
}

TEST_F(ExperimentPage, SaysHowItWasMade) {
  differences({0.1, 0.2});
  part().settings = {{"model.width", "64"}, {"train.epochs", "100"}};
  experiment.remarks = {"A remark."};
  results.records.front().started = "2026-11-14T10:00:00Z";
  const std::string text = markdown();
  for (const char* expected :
       {"# A made-up experiment\n\nIs it better?\n\n> **In short**", "## Remarks\n\nA remark.\n",
        "./dev reproduce made-up", "| machine | Some CPU |", "| date | 2026-11-14 to 2026-11-16 |", "| seeds | 0, 1 |",
        "| runs | 8 of 8 planned |", "| training time, all runs | 4.0 hours |",
        "`model.width = 64`, `train.epochs = 100`", "[made-up.json](made-up.json)"})
    EXPECT_THAT(text, HasSubstr(expected));
}

TEST_F(ExperimentPage, WithoutRunsIsStillAPage) {
  sets(2);
  experiment.sections = {Section::accuracy, Section::choice, Section::distance, Section::cost, Section::sweep};
  EXPECT_THAT(markdown(), HasSubstr("Nothing has been run yet."));
  EXPECT_TRUE(page(experiment, results).plots.empty());
  part().data.clear();
  EXPECT_THAT(markdown(), HasSubstr("Nothing has been run yet."));
}

TEST_F(ExperimentPage, RefersToItsPlotsAndTheyAreWellFormed) {
  part().data = {"A<b>&\"|", "B"};
  part().attentions = {"softmax", "softmax+bn(beta=0.2)", "softmax+bn(beta=0.4)", "softmax+bn(beta=0.6)"};
  part().protocols = {"honest", "paper"};
  experiment.sections = {Section::accuracy, Section::choice, Section::distance, Section::cost, Section::sweep};
  for (const char* protocol : {"honest", "paper"})
    for (const std::string& data : part().data)
      for (const std::string& attention : part().attentions)
        for (Index seed = 0; seed < 2; ++seed) {
          Record& record = add(data, attention, seed, 0.5 + 0.01 * static_cast<double>(seed), protocol);
          record.train_distance = record.test_distance = {{1, 0.5, 1}, {2, 0.5, 0}};
          record.length = data == "B" ? 64 : 32;
          record.validation = 0.5;
        }
  const Page made = page(experiment, results);
  EXPECT_EQ(made.plots.size(), 7u);
  for (const auto& [name, svg] : made.plots) {
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z0-9-]+\\.svg"))) << name;
    EXPECT_THAT(made.markdown, HasSubstr("](" + name + ")"));
    EXPECT_EQ(xml_fault(svg), "") << name;
    EXPECT_THAT(svg, Not(HasSubstr("nan"))) << name;
  }
  EXPECT_THAT(made.markdown, HasSubstr("| A&lt;b>&amp;\"\\| |"));
  EXPECT_EQ(made.markdown, page(experiment, results).markdown);
  // Every row of a table has as many cells as its header.
  std::size_t cells = 0;
  const auto count = [](std::string line) {
    line = std::regex_replace(line, std::regex("\\\\\\|"), "");
    return static_cast<std::size_t>(std::count(line.begin(), line.end(), '|'));
  };
  for (std::size_t from = 0; from < made.markdown.size();) {
    const std::size_t end = made.markdown.find('\n', from);
    const std::string line = made.markdown.substr(from, end - from);
    if (!line.starts_with('|'))
      cells = 0;
    else if (cells == 0)
      cells = count(line);
    else
      EXPECT_EQ(count(line), cells) << line;
    from = end + 1;
  }
}

}  // namespace
}  // namespace saddle::experiment
