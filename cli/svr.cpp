// saddle svr solve: fits the regression behind an attention to a table, and predicts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "csv.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/fit.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::cli {

namespace {

struct SvrArguments {
  std::string data, inputs, targets, predict, out, attention = "rbf(gamma=0.5)+one";
  primal::SvrOptions svr;
};

// The columns of a table: targets default to the last one, inputs to all others.
struct Columns {
  std::vector<std::size_t> inputs, targets;
};

std::vector<std::size_t> find_columns(const CsvTable& table, const char* option, const std::string& names) {
  std::vector<std::size_t> columns;
  for (const std::string& name : split(names)) {
    const std::size_t column = table.column(name);
    if (std::find(columns.begin(), columns.end(), column) != columns.end())
      throw InvalidArgument(fmt::format("{} '{}' names column '{}' twice", option, names, table.header[column]),
                            "name every column once");
    columns.push_back(column);
  }
  return columns;
}

Columns choose_columns(const CsvTable& table, const SvrArguments& arguments) {
  Columns columns;
  columns.targets = arguments.targets.empty() ? std::vector{table.header.size() - 1}
                                              : find_columns(table, "--targets", arguments.targets);
  const auto is_target = [&](std::size_t c) {
    return std::count(columns.targets.begin(), columns.targets.end(), c) > 0;
  };
  if (!arguments.inputs.empty()) {
    columns.inputs = find_columns(table, "--inputs", arguments.inputs);
  } else {
    for (std::size_t c = 0; c < table.header.size(); ++c)
      if (!is_target(c)) columns.inputs.push_back(c);
  }
  if (columns.inputs.empty()) throw InvalidArgument(table.file + " leaves no column for the inputs");
  for (std::size_t c : columns.inputs)
    if (is_target(c)) throw InvalidArgument(fmt::format("column '{}' is both an input and a target", table.header[c]));
  return columns;
}

std::vector<std::string> names_of(const CsvTable& table, const std::vector<std::size_t>& columns) {
  std::vector<std::string> names;
  for (std::size_t c : columns) names.push_back(table.header[c]);
  return names;
}

double rmse(const Matrix& f, const Matrix& y, Index e) {
  double sum = 0;
  for (Index i = 0; i < y.shape()[0]; ++i) sum += (f(i, e) - y(i, e)) * (f(i, e) - y(i, e));
  return std::sqrt(sum / static_cast<double>(y.shape()[0]));
}

// Everything that is known after the fit.
struct Report {
  std::string data;
  std::vector<std::string> inputs, targets;
  primal::Fit fit;
  primal::SvrOptions options;
  Matrix y;
};

double relative_gap(const primal::SvrChannel& channel) {
  return std::fabs(channel.primal - channel.dual) / (1 + std::fabs(channel.primal));
}

bool supports(const Report& report, Index row) {
  for (Index e = 0; e < report.y.shape()[1]; ++e)
    if (report.fit.solution.beta(row, e) != 0) return true;
  return false;
}

std::string report_text(const Report& report, bool verbose) {
  const auto& solution = report.fit.solution;
  const Index rows = report.y.shape()[0];
  std::string text = fmt::format("{} on {}: {} rows, inputs {}, C={:g}, epsilon={:g}, {}\n\n",
                                 bold(primal::to_text(report.fit.attention)), report.data, rows, join(report.inputs),
                                 report.options.C, report.options.epsilon, report.options.bias ? "bias" : "no bias");
  Table table({"target", "status", "gap", "KKT", "support vectors", "RMSE", "bias", "primal objective"}, "llrrrrrr");
  for (std::size_t e = 0; e < report.targets.size(); ++e) {
    const primal::SvrChannel& channel = solution.channels[e];
    const auto at = static_cast<Index>(e);
    table.add({report.targets[e], to_string(channel.status), error_text(relative_gap(channel)), error_text(channel.kkt),
               fmt::format("{} of {}", channel.support_vectors, rows), number_text(rmse(solution.f, report.y, at)),
               number_text(solution.b(at)), number_text(channel.primal)});
    if (!channel.message.empty()) table.note(channel.message);
  }
  text += table.text();
  if (!verbose) return text;

  std::vector<std::string> header{"row"};
  for (const std::string& target : report.targets) header.push_back("beta " + target);
  Table support(header, std::string(header.size(), 'r'));
  for (Index i = 0; i < rows; ++i) {
    if (!supports(report, i)) continue;
    std::vector<std::string> line{std::to_string(i + 1)};
    for (Index e = 0; e < report.y.shape()[1]; ++e) line.push_back(number_text(solution.beta(i, e)));
    support.add(line);
  }
  return text + "\n" + support.text();
}

Json row_json(const Matrix& x, Index i) {
  return std::vector<double>(x.data() + i * x.shape()[1], x.data() + (i + 1) * x.shape()[1]);
}

Json report_json(const Report& report) {
  const auto& solution = report.fit.solution;
  Json channels = Json::array(), support = Json::array();
  for (std::size_t e = 0; e < report.targets.size(); ++e) {
    const primal::SvrChannel& channel = solution.channels[e];
    const auto at = static_cast<Index>(e);
    channels.push_back({{"target", report.targets[e]},
                        {"status", to_string(channel.status)},
                        {"message", channel.message},
                        {"iterations", channel.iterations},
                        {"primal", channel.primal},
                        {"dual", channel.dual},
                        {"gap", relative_gap(channel)},
                        {"kkt", channel.kkt},
                        {"support_vectors", channel.support_vectors},
                        {"rmse", rmse(solution.f, report.y, at)},
                        {"bias", solution.b(at)}});
  }
  for (Index i = 0; i < report.y.shape()[0]; ++i)
    if (supports(report, i))
      support.push_back({{"row", i + 1}, {"beta", row_json(solution.beta, i)}, {"v", row_json(report.fit.v, i)}});
  return {{"attention", primal::to_text(report.fit.attention)},
          {"rows", report.y.shape()[0]},
          {"inputs", report.inputs},
          {"targets", report.targets},
          {"C", report.options.C},
          {"epsilon", report.options.epsilon},
          {"bias", report.options.bias},
          {"converged", solution.converged()},
          {"channels", channels},
          {"support_vectors", support}};
}

// Inputs, then predicted_<target> for each target.
std::string predictions_csv(const Report& report, const Matrix& x, const Matrix& f) {
  std::vector<std::string> names;
  for (const std::string& name : report.inputs) names.push_back(csv_field(name));
  for (const std::string& name : report.targets) names.push_back(csv_field("predicted_" + name));
  std::string text = join(names, ",") + "\n";
  for (Index i = 0; i < x.shape()[0]; ++i) {
    std::vector<std::string> cells;
    for (Index d = 0; d < x.shape()[1]; ++d) cells.push_back(format_number(x(i, d)));
    for (Index e = 0; e < f.shape()[1]; ++e) cells.push_back(format_number(f(i, e)));
    text += join(cells, ",") + "\n";
  }
  return text;
}

void check(const SvrArguments& arguments) {
  if (!(arguments.svr.C > 0) || !std::isfinite(arguments.svr.C))
    throw InvalidArgument(
        fmt::format("-C is the largest multiplier and must be positive, found {:g}", arguments.svr.C));
  if (!(arguments.svr.epsilon >= 0) || !std::isfinite(arguments.svr.epsilon))
    throw InvalidArgument(fmt::format("--epsilon is the half-width of the tube and must be 0 or more, found {:g}",
                                      arguments.svr.epsilon));
  if (arguments.data == "-" && arguments.predict == "-")
    throw InvalidArgument("--data - and --predict - cannot both read stdin: it holds one table",
                          "keep one of the two tables in a file");
}

// Without a solution there is nothing to predict with; at the iteration limit there is the best point found.
bool has_solution(const primal::SvrSolution& solution) {
  return std::none_of(solution.channels.begin(), solution.channels.end(), [](const primal::SvrChannel& channel) {
    return channel.status == primal::SvrStatus::not_finite ||
           channel.status == primal::SvrStatus::not_positive_semidefinite;
  });
}

// "y: the Gram matrix is not finite" for every target that has a message.
std::string messages(const Report& report) {
  std::vector<std::string> lines;
  for (std::size_t e = 0; e < report.targets.size(); ++e)
    if (const std::string& message = report.fit.solution.channels[e].message; !message.empty())
      lines.push_back(report.targets[e] + ": " + message);
  return join(lines, "; ");
}

int solve(const SvrArguments& arguments, const Context& context) {
  check(arguments);
  const primal::Attention attention = read_attention(arguments.attention);
  const CsvTable table = read_csv(arguments.data);
  const Columns columns = choose_columns(table, arguments);
  const Matrix k = table.numbers(columns.inputs);
  Report report{table.file,    names_of(table, columns.inputs), names_of(table, columns.targets), {},
                arguments.svr, table.numbers(columns.targets)};
  report.options.bias |= attention.bias.has_value();
  report.fit = primal::fit_attention(attention, k, report.y, report.options);

  const bool solved = has_solution(report.fit.solution), other = solved && !arguments.predict.empty();
  Matrix x = k, f = report.fit.solution.f;
  if (other) {
    const CsvTable unseen = read_csv(arguments.predict);
    std::vector<std::size_t> inputs;
    for (const std::string& name : report.inputs) inputs.push_back(unseen.column(name));
    x = unseen.numbers(inputs);
    f = report.fit.predict(x);
  }
  const bool csv_on_stdout = other && arguments.out.empty() && !context.json;
  const bool to_file = solved && !arguments.out.empty();
  if (to_file || csv_on_stdout) print_or_write(arguments.out, predictions_csv(report, x, f));
  if (context.json) {
    Json document = report_json(report);
    if (other || to_file) {
      document["predictions"] = Json::array();
      for (Index i = 0; i < f.shape()[0]; ++i) document["predictions"].push_back(row_json(f, i));
    }
    print_json("saddle.svr.solve/1", document);
  } else {
    const std::string text = report_text(report, context.verbose);
    if (!csv_on_stdout)
      print(text);
    else if (!context.quiet)
      print_message(text);
  }
  if (report.fit.solution.converged()) return Exit::ok;
  print_error("the regression did not converge for every target: " + messages(report),
              "scale the inputs with +bn(scale=std), or lower -C; the status of each target says what is wrong");
  return Exit::failed;
}

}  // namespace

Command svr_command() {
  const auto a = std::make_shared<SvrArguments>();
  const Command solve_command{
      "solve",
      "Fit the support vector regression behind an attention to a CSV table; predict; report support vectors.",
      {{"a table to play with", "printf 'x,y\\n0,0\\n1,1\\n2,4\\n3,9\\n4,16\\n5,25\\n' > parabola.csv"},
       {"fit y to x", "saddle svr solve --data parabola.csv --inputs x --targets y -C 100 --bias"},
       {"a polynomial kernel, exactly", "saddle svr solve --data parabola.csv --attention 'poly(degree=2)+one' -C 1e3"},
       {"predict the rows of another table, as CSV",
        "printf 'x\\n1.5\\n2.5\\n' | saddle svr solve --data parabola.csv -C 100 --bias --predict -"},
       {"softmax attention as a regression on standardised inputs, with its support vectors",
        "saddle svr solve --data parabola.csv --attention 'softmax+bn(scale=std)' -C 1e5 --verbose"}},
      {{"--data", "FILE", "CSV with a header row; - is stdin", &a->data, true},
       {"--inputs", "COLUMNS", "names, or numbers from 1; default all but the targets", &a->inputs},
       {"--targets", "COLUMNS", "names, or numbers from 1; default the last column", &a->targets},
       {"--attention", "FORM", "kernel, normaliser and transforms; default rbf(gamma=0.5)+one", &a->attention},
       {"-C", "C", "largest multiplier; default 1", &a->svr.C},
       {"--epsilon", "EPS", "half-width of the tube without loss; default 0.1", &a->svr.epsilon},
       {"--bias", "", "fit a bias per target", &a->svr.bias},
       {"--predict", "FILE", "CSV with the input columns; predictions go to --out or stdout", &a->predict},
       {"--out", "FILE", "write predictions here; without --predict those of the data itself", &a->out}},
      [a](const Context& context) { return solve(*a, context); }};
  return {"svr",
          "The support vector regression that attention solves.",
          {{"how to fit a table", "saddle svr solve --help"}},
          {},
          nullptr,
          {solve_command}};
}

}  // namespace saddle::cli
