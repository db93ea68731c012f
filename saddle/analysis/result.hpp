// What an analysis is asked and what it gives: tables, curves, maps and sentences, which pages and terminals show.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis {

// Options by name, as text. Every reader names what it knows; check() then refuses the rest.
class SADDLE_API Options {
 public:
  Options() = default;
  explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // The value or the fallback; text of another kind throws InvalidArgument.
  std::string text(const std::string& name, const std::string& fallback);
  double number(const std::string& name, double fallback);
  Index integer(const std::string& name, Index fallback);
  bool flag(const std::string& name, bool fallback);
  std::vector<std::string> list(const std::string& name);  // separated by commas
  // Throws InvalidArgument for options that nobody has asked for.
  void check() const;

 private:
  const std::string* find(const std::string& name);

  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dashed = false;  // what a theory says, beside what was measured
};

struct Chart {
  std::string title, x, y;
  std::vector<Curve> curves;
  bool logarithmic = false;  // y
};

// Numbers as shades.
struct Map {
  std::string title, rows, columns;  // what the sides are
  Array<double, 2> values;
  bool from_zero = true;  // shades begin at 0, with another colour below it; else at the smallest value
  std::optional<std::pair<double, double>> range = {};  // that shades span; unset: as the values have it
};

// The smallest and the largest value that the shades of a map have to tell apart; symmetric where they go below zero.
SADDLE_API std::pair<double, double> range_of(const Map& map);

// A graph with a mark at each end of an edge.
struct Network {
  enum class End { line, arrow, circle };
  struct Edge {
    Index a = 0, b = 0;
    End at_a = End::line, at_b = End::line;
  };
  std::string title;
  std::vector<std::string> nodes;
  std::vector<Edge> edges;
  std::vector<Index> marked = {};  // nodes that stand out
  std::string file = {};           // where the same graph stands for Graphviz
};

struct Result {
  std::string about;                  // two sentences: what is shown, what a good or a bad value looks like
  std::vector<std::string> findings;  // what was found here
  std::vector<Table> tables;
  std::vector<Chart> charts;
  std::vector<Map> maps;
  std::vector<std::pair<std::string, std::string>> files;  // name and contents: "graph.dot"
  std::string json;                                        // all numbers, as one JSON value
  std::vector<Network> networks;
  std::vector<std::pair<std::string, double>> figures;  // those by which several inputs are compared
};

// Several results of one analysis as one, each under the name of its input: figures in a table, curves of charts with
// equal titles together, rows of tables with equal titles together, one range of shades for maps with equal titles.
SADDLE_API Result beside(const std::vector<std::pair<std::string, Result>>& results);

}  // namespace saddle::analysis
