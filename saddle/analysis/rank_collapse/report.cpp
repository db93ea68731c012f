#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/rank_collapse/report_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using Json = nlohmann::ordered_json;

constexpr double Measures::*fields[] = {&Measures::mu,           &Measures::mu_relative, &Measures::effective_rank,
                                        &Measures::stable_rank,  &Measures::rank,        &Measures::sigma_min,
                                        &Measures::cos_abs_mean, &Measures::cos_mean,    &Measures::oscillation};

Index centres_of(const Graph& graph) { return std::count(graph.centre.begin(), graph.centre.end(), true); }

// One measure for t = 0..layers.
std::vector<double> values_of(const std::vector<Measures>& measures, double Measures::*field) {
  std::vector<double> values;
  for (const Measures& m : measures) values.push_back(m.*field);
  return values;
}

Json json_of(const Course& course) {
  Json layers = Json::array();
  for (std::size_t t = 0; t < course.measures.size(); ++t) {
    const Measures& m = course.measures[t];
    layers.push_back({{"block", t},
                      {"mu", m.mu},
                      {"mu_relative", m.mu_relative},
                      {"effective_rank", m.effective_rank},
                      {"stable_rank", m.stable_rank},
                      {"rank", m.rank},
                      {"sigma_min", m.sigma_min},
                      {"cos_abs_mean", m.cos_abs_mean},
                      {"cos_mean", m.cos_mean},
                      {"oscillation", m.oscillation}});
  }
  return {{"split", course.name},
          {"layers", layers},
          {"pure_attention", values_of(course.pure, &Measures::mu_relative)},
          {"pure_oscillation", values_of(course.pure, &Measures::oscillation)},
          {"oscillation_bound", course.bound},
          {"measured_rate", course.measured},
          {"guaranteed_rate", course.guaranteed},
          {"promised", course.promised},
          {"radius", course.graph.radius},
          {"centres", centres_of(course.graph)},
          {"quasi_strongly_connected", course.graph.quasi_strongly_connected},
          {"strongly_connected", course.graph.strongly_connected}};
}

std::vector<std::string> row_of(const std::string& name, std::size_t t, const Measures& m) {
  return {name,
          std::to_string(t),
          fmt::format("{:.4g}", m.mu),
          fmt::format("{:.3g}", m.mu_relative),
          fmt::format("{:.2f}", m.effective_rank),
          fmt::format("{:.2f}", m.stable_rank),
          fmt::format("{:.1f}", m.rank),
          fmt::format("{:.2g}", m.sigma_min),
          fmt::format("{:.3f}", m.cos_abs_mean)};
}

// The rate of a measure, as text; nothing where nothing falls or there is one value only.
std::string rate_or_nothing(const std::vector<Measures>& measures, double Measures::*field) {
  const double rate = measured_rate(values_of(measures, field));
  return std::isnan(rate) ? "" : fmt::format("{:.4g}", rate);
}

// What the theorem is about: attention alone, which is the course itself if nothing else is in it.
const std::vector<Measures>& attention_alone(const Course& course) {
  return course.pure.empty() ? course.measures : course.pure;
}

std::string rate_text(const Course& course) {
  std::string text = fmt::format("{}: mu/|X| changes by a factor of {:.3g} per block", course.name, course.measured);
  if (const std::string alone = rate_or_nothing(course.pure, &Measures::mu_relative); !alone.empty())
    text += fmt::format(", attention alone with these weights would make it {}", alone);
  if (!course.promised) return text + "; the theorem promises nothing here.";
  const std::string promise = promise_text(course.guaranteed, true, 6);
  return text + fmt::format("; in the long run the theorem promises a factor {}{} for {} of attention alone{}.",
                            promise.starts_with("below") ? "" : "of at most ", promise,
                            course.bound.empty() ? "mu" : "the oscillation",
                            course.bound.empty() ? ", as long as products of its value matrices stay bounded" : "");
}

// (1 - k eps^r)^floor(t/r) of the theorem, times the oscillation at the start.
std::vector<double> bound_of(const Trace& trace) {
  const Index r = std::max<Index>(1, trace.graph.radius);
  std::vector<double> bound;
  for (std::size_t t = 0; t < trace.measures.size(); ++t)
    bound.push_back(trace.measures.front().oscillation *
                    std::pow(trace.guaranteed, static_cast<double>(static_cast<Index>(t) / r * r)));
  return bound;
}

void add(std::vector<double>& sum, const std::vector<double>& values, double share) {
  sum.resize(values.size());
  for (std::size_t t = 0; t < values.size(); ++t) sum[t] += share * values[t];
}

// A single token has no cosine with another: it is like itself.
void add(std::vector<Measures>& sum, const std::vector<Measures>& measures, double share) {
  sum.resize(measures.size());
  for (std::size_t t = 0; t < measures.size(); ++t)
    for (double Measures::*field : fields) {
      const double value = measures[t].*field;
      sum[t].*field += share * (std::isnan(value) ? 1 : value);
    }
}

Curve curve_of(const std::string& name, const std::vector<double>& values, bool dashed) {
  Curve curve{name, {}, dashed};
  for (std::size_t t = 0; t < values.size(); ++t) curve.points.emplace_back(static_cast<double>(t), values[t]);
  // From rounding on, a falling line says nothing.
  if (dashed) std::erase_if(curve.points, [](const auto& point) { return point.second < 1e-13; });
  return curve;
}

// The theorem bounds the range of a feature, not mu/|X|: its line stands beside what it is about.
Chart oscillation_chart(const std::vector<Course>& courses) {
  Chart chart{"Oscillation and its bound", "block", "largest range of a feature", {}, true};
  for (const Course& course : courses)
    chart.curves.push_back(curve_of(course.name, values_of(course.measures, &Measures::oscillation), false));
  const Course& last = courses.back();
  if (!last.pure.empty())
    chart.curves.push_back(
        curve_of(last.name + ", attention alone", values_of(last.pure, &Measures::oscillation), true));
  chart.curves.push_back(curve_of(last.name + ", theorem", last.bound, true));
  std::erase_if(chart.curves, [](const Curve& curve) { return curve.points.empty(); });
  return chart;
}

}  // namespace

Course mean_course(const std::string& name, const std::vector<Trace>& traces, bool identity,
                   const std::vector<std::vector<Measures>>& pure) {
  if (traces.empty()) throw InvalidArgument("rank_collapse: there are no samples to look at");
  Course course;
  course.name = name;
  course.graph = traces.front().graph;
  course.guaranteed = course.measured = 0;
  course.promised = true;
  const double share = 1 / static_cast<double>(traces.size());
  for (const Trace& trace : traces) {
    add(course.measures, trace.measures, share);
    course.measured += share * (std::isnan(trace.measured) ? 1 : trace.measured);
    course.guaranteed = std::max(course.guaranteed, trace.guaranteed);
    course.promised = course.promised && trace.promised;
  }
  for (const auto& own : pure) add(course.pure, own, 1 / static_cast<double>(pure.size()));
  if (identity && course.promised)
    for (const Trace& trace : traces) add(course.bound, bound_of(trace), share);
  return course;
}

Matrix product(const Matrix& a, const Matrix& x) {
  Matrix y({a.shape()[0], x.shape()[1]});
  for (Index i = 0; i < a.shape()[0]; ++i)
    for (Index j = 0; j < a.shape()[1]; ++j)
      for (Index c = 0; c < x.shape()[1]; ++c) y(i, c) += a(i, j) * x(j, c);
  return y;
}

std::vector<Measures> pure_attention(const Matrix& x, const std::vector<Matrix>& attention) {
  std::vector<Matrix> tokens{x};
  for (const Matrix& a : attention) tokens.push_back(product(a, tokens.back()));
  return measure(tokens);
}

std::string graph_text(const Graph& graph) {
  if (!graph.quasi_strongly_connected)
    return "no token reaches all others: groups of tokens collapse separately, if at all";
  const Index centres = centres_of(graph), N = static_cast<Index>(graph.centre.size());
  return fmt::format(
      "{} of {} tokens reach{} all others (centres), so it is quasi-strongly connected, with radius {}{}", centres, N,
      centres == 1 ? "es" : "", graph.radius, graph.strongly_connected ? "; all reach all (strongly connected)" : "");
}

std::string promise_text(double guaranteed, bool promised, int digits) {
  if (!promised) return "nothing";
  if (guaranteed >= 1) return "below 1 by less than 1e-16";
  const std::string rate = fmt::format("{:.{}g}", guaranteed, digits);
  return rate == "1" ? fmt::format("below 1 by {:.1g}", 1 - guaranteed) : rate;
}

Result report(const std::string& name, const std::vector<Course>& courses) {
  Result result;
  result.about =
      "How far the tokens of a sample lie from their mean (mu/|X|) and how many directions they span, from the "
      "embedding (0) to the last block; dashed is what attention alone would do with the same weights, and where a "
      "theorem gives a bound it stands beside the oscillation, the largest range of a feature over tokens. Tokens that "
      "keep apart hold mu/|X| well above 0.1 and a mean |cosine| below about 0.5; a falling line and a cosine near 1 "
      "mean that later blocks see tokens that hardly differ.";
  Table table{"Blocks",
              {"split", "after block", "mu", "mu/|X|", "effective rank", "stable rank", "rank",
               "smallest singular value", "mean |cosine|"},
              {}};
  Table masks{"Mask as a graph, and rates per block",
              {"split", "tokens", "centres", "radius", "quasi-strongly connected", "strongly connected", "self-loops",
               "mu/|X|", "mu/|X|, attention alone", "oscillation, attention alone", "oscillation, theorem"},
              {}};
  Chart spread{"Distance of tokens from their mean", "block", "mu / |X|", {}, true};
  Chart ranks{"Effective rank of the tokens", "block", "effective rank", {}, false};
  Chart cosines{"Mean |cosine| of pairs of tokens", "block", "|cosine|", {}, false};
  Json splits = Json::array();
  for (const Course& course : courses) {
    Curve mu{course.name, {}}, rank{course.name, {}}, cosine{course.name, {}};
    for (std::size_t t = 0; t < course.measures.size(); ++t) {
      const Measures& m = course.measures[t];
      const auto at = static_cast<double>(t);
      mu.points.emplace_back(at, m.mu_relative);
      rank.points.emplace_back(at, m.effective_rank);
      cosine.points.emplace_back(at, m.cos_abs_mean);
      table.rows.push_back(row_of(course.name, t, m));
    }
    spread.curves.push_back(std::move(mu));
    ranks.curves.push_back(std::move(rank));
    cosines.curves.push_back(std::move(cosine));
    const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
    const Graph& graph = course.graph;
    masks.rows.push_back({course.name, std::to_string(graph.centre.size()), std::to_string(centres_of(graph)),
                          graph.radius < 0 ? "none" : std::to_string(graph.radius), yes(graph.quasi_strongly_connected),
                          yes(graph.strongly_connected), yes(graph.self_loops), fmt::format("{:.4g}", course.measured),
                          rate_or_nothing(course.pure, &Measures::mu_relative),
                          course.pure.empty() && course.bound.empty()
                              ? ""
                              : rate_or_nothing(attention_alone(course), &Measures::oscillation),
                          promise_text(course.guaranteed, course.promised, 8)});
    splits.push_back(json_of(course));
    if (&course == &courses.front())
      result.findings.push_back("Mask, as the first sample shows it: " + graph_text(graph) + ".");
    result.findings.push_back(rate_text(course));
    result.figures.emplace_back(course.name + ": mu/|X| after the last block", course.measures.back().mu_relative);
    result.figures.emplace_back(course.name + ": effective rank", course.measures.back().effective_rank);
  }
  // Of the last one: more dashed lines would hide each other.
  const Course& last = courses.back();
  Curve alone = curve_of(last.name + ", attention alone", values_of(last.pure, &Measures::mu_relative), true);
  if (!alone.points.empty()) spread.curves.push_back(std::move(alone));
  result.tables = {std::move(masks), std::move(table)};
  result.charts = {std::move(spread), std::move(ranks), std::move(cosines)};
  if (!last.bound.empty()) result.charts.push_back(oscillation_chart(courses));
  result.json = Json{{"model", name}, {"splits", splits}}.dump();
  return result;
}

}  // namespace saddle::analysis::rank_collapse
