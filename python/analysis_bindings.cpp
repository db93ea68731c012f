#include "analysis_bindings.hpp"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/analysis/depth_width/plan.hpp"
#include "saddle/analysis/head_redundancy/head_redundancy.hpp"
#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/analysis/registry.hpp"
#include "saddle/analysis/spectrum/spectrum.hpp"
#include "saddle/base/error.hpp"

namespace py = pybind11;

namespace saddle::python {

namespace {

namespace causal = analysis::causal_discovery;

using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Texts = std::map<std::string, std::string>;

template <int Rank>
Array<double, Rank> array_of(const Numbers& numbers, const char* name) {
  if (numbers.ndim() != Rank)
    throw InvalidArgument(std::string(name) + " has " + std::to_string(numbers.ndim()) + " dimensions, expected " +
                          std::to_string(Rank));
  std::array<Index, Rank> shape;
  std::copy_n(numbers.shape(), Rank, shape.begin());
  Array<double, Rank> values(shape);
  std::copy_n(numbers.data(), values.size(), values.data());
  return values;
}

template <int Rank>
py::array_t<double> numpy_of(const Array<double, Rank>& values) {
  py::array_t<double> numbers(std::vector<py::ssize_t>(values.shape().begin(), values.shape().end()));
  std::copy_n(values.data(), values.size(), numbers.mutable_data());
  return numbers;
}

TensorFile file_of(const std::map<std::string, Numbers>& tensors, const Texts& metadata) {
  TensorFile file;
  file.metadata = metadata;
  for (const auto& [name, numbers] : tensors) {
    Tensor tensor(DType::f64, Shape(numbers.shape(), numbers.shape() + numbers.ndim()));
    std::copy_n(reinterpret_cast<const std::byte*>(numbers.data()), tensor.bytes().size(), tensor.bytes().begin());
    file.tensors.emplace(name, std::move(tensor));
  }
  return file;
}

py::object from_json(const std::string& text) { return py::module_::import("json").attr("loads")(text); }

py::list tables_of(const analysis::Result& result) {
  py::list list;
  for (const analysis::Table& table : result.tables) {
    py::dict entry;
    entry["title"] = table.title;
    entry["columns"] = table.columns;
    entry["rows"] = table.rows;
    list.append(entry);
  }
  return list;
}

py::list charts_of(const analysis::Result& result) {
  py::list list;
  for (const analysis::Chart& chart : result.charts) {
    py::dict entry, curves;
    for (const analysis::Curve& curve : chart.curves) {
      Matrix points({static_cast<Index>(curve.points.size()), 2});
      for (std::size_t i = 0; i < curve.points.size(); ++i) {
        points(static_cast<Index>(i), 0) = curve.points[i].first;
        points(static_cast<Index>(i), 1) = curve.points[i].second;
      }
      curves[py::str(curve.name)] = numpy_of(points);
    }
    entry["title"] = chart.title;
    entry["x"] = chart.x;
    entry["y"] = chart.y;
    entry["logarithmic"] = chart.logarithmic;
    entry["curves"] = curves;
    list.append(entry);
  }
  return list;
}

py::list networks_of(const analysis::Result& result) {
  static constexpr const char* ends[] = {"line", "arrow", "circle"};
  py::list list;
  for (const analysis::Network& network : result.networks) {
    py::list edges;
    for (const auto& edge : network.edges)
      edges.append(py::make_tuple(edge.a, edge.b, ends[static_cast<std::size_t>(edge.at_a)],
                                  ends[static_cast<std::size_t>(edge.at_b)]));
    py::dict entry;
    entry["title"] = network.title;
    entry["nodes"] = network.nodes;
    entry["edges"] = edges;
    entry["marked"] = network.marked;
    list.append(entry);
  }
  return list;
}

py::dict dict_of(const analysis::Result& result) {
  py::dict dict, maps, files, figures;
  for (const analysis::Map& map : result.maps) maps[py::str(map.title)] = numpy_of(map.values);
  for (const auto& [name, contents] : result.files) files[py::str(name)] = contents;
  for (const auto& [name, value] : result.figures) figures[py::str(name)] = value;
  dict["about"] = result.about;
  dict["findings"] = result.findings;
  dict["figures"] = figures;
  dict["result"] = result.json.empty() ? py::none() : from_json(result.json);
  dict["tables"] = tables_of(result);
  dict["charts"] = charts_of(result);
  dict["maps"] = maps;
  dict["networks"] = networks_of(result);
  dict["files"] = files;
  return dict;
}

// What an analysis gives, computed without holding Python's lock.
template <class Run>
py::dict run(const std::string& name, const Texts& given, Run&& compute) {
  const analysis::Analysis& found = analysis::find(name);
  analysis::Result result;
  {
    const py::gil_scoped_release release;
    analysis::Options options(given);
    result = compute(found, options);
  }
  return dict_of(result);
}

py::list analyses() {
  py::list list;
  for (const analysis::Analysis* each : analysis::all()) {
    py::dict entry;
    entry["name"] = each->name;
    entry["title"] = each->title;
    entry["summary"] = each->summary;
    entry["page"] = std::string(analysis::page_of(*each));
    entry["tensors"] = each->takes_tensors();
    entry["files"] = each->takes_files();
    entry["example"] = each->example != nullptr;
    list.append(entry);
  }
  return list;
}

py::dict head_redundancy(const Numbers& heads, const std::vector<Index>& lengths) {
  const auto measured = analysis::head_redundancy::measure(array_of<4>(heads, "heads"), lengths);
  py::dict dict;
  dict["distance"] = measured.distance;
  dict["deviation"] = measured.deviation;
  dict["norm"] = measured.norm;
  dict["relative"] = measured.relative;
  dict["cosine"] = measured.cosine;
  dict["cka"] = measured.cka;
  dict["pairs"] = numpy_of(measured.pairs);
  return dict;
}

py::dict spectrum(const Numbers& matrix) {
  const auto measured = analysis::spectrum::measure(array_of<2>(matrix, "the matrix"));
  py::dict dict;
  dict["values"] = py::array_t<double>(static_cast<py::ssize_t>(measured.values.size()), measured.values.data());
  dict["explained_90"] = measured.explained_90;
  dict["effective_rank"] = measured.effective_rank;
  return dict;
}

analysis::rank_collapse::Mask mask_of(const Numbers& numbers) {
  const auto values = array_of<2>(numbers, "the mask");
  analysis::rank_collapse::Mask mask(values.shape());
  for (Index i = 0; i < values.size(); ++i) mask.data()[i] = values.data()[i] != 0 ? 1 : 0;
  return mask;
}

py::dict mask_graph(const Numbers& numbers) {
  const auto graph = analysis::rank_collapse::graph_of(mask_of(numbers));
  py::dict dict;
  dict["eccentricity"] = graph.eccentricity;
  dict["centre"] = graph.centre;
  dict["radius"] = graph.radius < 0 ? py::object(py::none()) : py::int_(graph.radius);
  dict["quasi_strongly_connected"] = graph.quasi_strongly_connected;
  dict["strongly_connected"] = graph.strongly_connected;
  dict["self_loops"] = graph.self_loops;
  return dict;
}

py::dict collapse_measures(const Numbers& tokens, double rank_rtol) {
  const auto m = analysis::rank_collapse::measure(array_of<2>(tokens, "tokens"), rank_rtol);
  py::dict dict;
  dict["mu"] = m.mu;
  dict["mu_relative"] = m.mu_relative;
  dict["effective_rank"] = m.effective_rank;
  dict["stable_rank"] = m.stable_rank;
  dict["rank"] = m.rank;
  dict["sigma_min"] = m.sigma_min;
  dict["cos_abs_mean"] = m.cos_abs_mean;
  dict["cos_mean"] = m.cos_mean;
  dict["oscillation"] = m.oscillation;
  return dict;
}

causal::Request request_of(const std::string& algorithm, double alpha, bool stable, Index max_size, bool selection_bias,
                           bool tail_completeness, bool strict_r10) {
  causal::Request request;
  request.algorithm = causal::parse_algorithm(algorithm);
  request.options.alpha = alpha;
  request.options.stable = stable;
  request.options.max_size = max_size;
  request.options.selection_bias = selection_bias;
  request.options.tail_completeness = tail_completeness;
  request.options.strict_r10 = strict_r10;
  return request;
}

// Categories numbered from 0 by their values, as many as a table may have.
std::vector<std::vector<std::int32_t>> categories_of(const Matrix& data, const std::vector<std::string>& names) {
  std::vector<std::vector<std::int32_t>> columns;
  for (Index c = 0; c < data.shape()[1]; ++c) {
    std::map<double, std::int32_t> seen;
    for (Index r = 0; r < data.shape()[0]; ++r) seen.emplace(data(r, c), 0);
    if (seen.size() > static_cast<std::size_t>(causal::most_categories))
      throw InvalidArgument("'" + names[static_cast<std::size_t>(c)] + "' has " + std::to_string(seen.size()) +
                            " different values, too many for the chi-square test; at most " +
                            std::to_string(causal::most_categories) +
                            " are categories: use fisher_z for numbers, or put them into bins");
    std::int32_t next = 0;
    for (auto& [value, number] : seen) number = next++;
    auto& column = columns.emplace_back();
    for (Index r = 0; r < data.shape()[0]; ++r) column.push_back(seen.at(data(r, c)));
  }
  return columns;
}

Matrix columns_of(const Matrix& data, const causal::Nodes& columns) {
  Matrix part({data.shape()[0], static_cast<Index>(columns.size())});
  for (Index r = 0; r < data.shape()[0]; ++r)
    for (std::size_t c = 0; c < columns.size(); ++c) part(r, static_cast<Index>(c)) = data(r, columns[c]);
  return part;
}

// Data [rows,variables], correlations [n,n] or attention [N,N]; `nodes` are those to look at, none: all.
causal::Input input_of(const Matrix& values, const std::string& of, const std::string& test,
                       const std::vector<std::string>& names, causal::Nodes nodes, causal::Request request) {
  if (values.shape()[1] != static_cast<Index>(names.size()))
    throw InvalidArgument(std::to_string(names.size()) + " names for " + std::to_string(values.shape()[1]) +
                          " variables");
  std::sort(nodes.begin(), nodes.end());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] < 0 || nodes[i] >= values.shape()[1] || (i > 0 && nodes[i] == nodes[i - 1]))
      throw InvalidArgument("nodes must be different numbers from 0 to " + std::to_string(values.shape()[1] - 1) +
                            ", found " + std::to_string(nodes[i]));
  if (of == "attention") {
    for (const Index node : nodes) request.nodes.push_back(names[static_cast<std::size_t>(node)]);
    return causal::attention_input(values, names, request);
  }
  if (nodes.empty())
    for (Index v = 0; v < values.shape()[1]; ++v) nodes.push_back(v);
  std::vector<std::string> own;
  for (const Index node : nodes) own.push_back(names[static_cast<std::size_t>(node)]);
  if (of == "correlation") {
    if (values.shape()[0] != values.shape()[1])
      throw InvalidArgument("correlations have " + std::to_string(values.shape()[0]) + " rows and " +
                            std::to_string(values.shape()[1]) + " columns, expected a square matrix");
    return {std::move(own), nodes, causal::FisherZ(causal::submatrix(values, nodes), request.samples)};
  }
  const Matrix data = columns_of(values, nodes);
  if (causal::parse_test(test) == causal::TestKind::chi_square) {
    causal::ChiSquare categories(categories_of(data, own));
    return {std::move(own), std::move(nodes), std::move(categories)};
  }
  return {std::move(own), std::move(nodes),
          causal::FisherZ(causal::correlation(data), static_cast<double>(data.shape()[0]))};
}

py::dict discovery_of(const causal::Answer& answer) {
  const causal::Graph& graph = answer.discovery.graph;
  py::array_t<std::int64_t> marks({graph.size(), graph.size()});
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = 0; b < graph.size(); ++b) marks.mutable_at(a, b) = static_cast<std::int64_t>(graph.mark(a, b));
  py::dict dict;
  dict["marks"] = marks;
  dict["dot"] = answer.dot;
  dict["result"] = from_json(answer.json);
  return dict;
}

py::dict discover(const Numbers& values, const std::string& of, const std::string& algorithm, const std::string& test,
                  double samples, const std::vector<std::string>& names, const causal::Nodes& nodes, double alpha,
                  bool stable, Index max_size, bool selection_bias, bool tail_completeness, bool strict_r10,
                  Index target, const std::function<bool(std::vector<Index>)>& judge, Index max_set_size,
                  Index max_range, bool search_minimal) {
  const Matrix matrix = array_of<2>(values, of.c_str());
  if (!std::all_of(matrix.begin(), matrix.end(), [](double value) { return std::isfinite(value); }))
    throw InvalidArgument(of + " holds NaN or infinity, finite numbers are expected");
  causal::Request request =
      request_of(algorithm, alpha, stable, max_size, selection_bias, tail_completeness, strict_r10);
  request.samples = samples;
  request.explain.max_set_size = max_set_size;
  request.explain.max_range = max_range;
  request.explain.search_minimal = search_minimal;
  if (target >= 0) {
    if (target >= static_cast<Index>(names.size()))
      throw InvalidArgument("the target is variable " + std::to_string(target) + ", there are " +
                            std::to_string(names.size()));
    request.target = names[static_cast<std::size_t>(target)];
  }
  causal::Input input = input_of(matrix, of, test, names, nodes, request);
  const causal::Nodes positions = input.positions;
  causal::IsExplanation asked;
  if (judge)
    asked = [&](const causal::Nodes& tokens, Index) {
      causal::Nodes places;
      for (const Index token : tokens) places.push_back(positions[static_cast<std::size_t>(token)]);
      const py::gil_scoped_acquire acquire;
      return judge(places);
    };
  const py::gil_scoped_release release;
  const causal::Answer answer = causal::discover(std::move(input), request, asked);
  const py::gil_scoped_acquire acquire;
  return discovery_of(answer);
}

std::string plan(const std::string& params, const std::string& flops, const std::string& tokens,
                 std::optional<Index> depth, std::optional<Index> width, std::optional<Index> heads,
                 const std::string& config, Index multiple, double band) {
  using analysis::depth_width::PlanRequest;
  PlanRequest request;
  request.params = params;
  request.flops = flops;
  request.tokens = tokens;
  request.depth = depth.value_or(PlanRequest::not_given);
  request.width = width.value_or(PlanRequest::not_given);
  request.heads = heads.value_or(PlanRequest::not_given);
  request.config = config;
  request.multiple = multiple;
  request.band = band;
  return analysis::depth_width::to_json(analysis::depth_width::make_plan(request));
}

}  // namespace

void bind_analyses(py::module_& module) {
  module.def("analyses", &analyses);
  module.def(
      "analyze_tensors",
      [](const std::string& name, const std::map<std::string, Numbers>& tensors, const Texts& metadata,
         const Texts& options) {
        const TensorFile file = file_of(tensors, metadata);
        return run(name, options, [&](const analysis::Analysis& found, analysis::Options& given) {
          return analysis::analyze_tensors(found, file, "arrays", given);
        });
      },
      py::arg("name"), py::arg("tensors"), py::arg("metadata"), py::arg("options"));
  module.def(
      "analyze_file",
      [](const std::string& name, const std::string& path, const Texts& options, const std::string& packed) {
        return run(name, options, [&](const analysis::Analysis& found, analysis::Options& given) {
          return analysis::analyze_file(found, path, given, packed);
        });
      },
      py::arg("name"), py::arg("path"), py::arg("options"), py::arg("packed") = "");
  module.def(
      "analyze_example",
      [](const std::string& name, const Texts& options) {
        return run(name, options, [](const analysis::Analysis& found, analysis::Options& given) {
          if (!found.example) throw NotSupported("'" + found.name + "' has no example of its own", {});
          return found.example(given);
        });
      },
      py::arg("name"), py::arg("options"));
  module.def("head_redundancy", &head_redundancy);
  module.def("spectrum", &spectrum);
  module.def("mask_graph", &mask_graph);
  module.def("collapse_measures", &collapse_measures);
  module.def("discover", &discover);
  module.def("plan", &plan);
}

}  // namespace saddle::python
