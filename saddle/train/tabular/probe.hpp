// What a model of a table does when it predicts, for analyses.
#pragma once

#include "saddle/analysis/probe.hpp"
#include "saddle/train/tabular/trained_table.hpp"

namespace saddle::train::tabular {

// Attention runs between rows and between attributes in turn, and each kind is shown for itself. Layer l of either is
// that of block l, which is one attention of each kind; tokens are those before the first block and behind each.
struct TableProbes {
  // One sample, the table; its tokens are rows: those that the model has learned from, then those that it predicts.
  analysis::Probe rows;
  // Rows are samples, their attributes tokens: "train" has the rows that the model has learned from, "test" the others.
  std::vector<analysis::Probe> attributes;
};

// The model predicts rows of the table beside rows that it has learned from: of both at most `samples`, evenly spread,
// and together no more than its batches have, and 1024. With sample >= 0 it predicts that row alone. Throws
// InvalidArgument for a row that does not exist.
TableProbes probe(const TrainedTable& trained, const data::WholeTable& table, Index samples, Index sample = -1);

}  // namespace saddle::train::tabular
