// Tables and tensors as input of the algorithms.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "saddle/analysis/causal_discovery/correlation.hpp"
#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/analysis/causal_discovery/table.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

std::vector<std::string> numbered(Index n) {
  std::vector<std::string> names;
  for (Index i = 0; i < n; ++i) names.push_back(std::to_string(i));
  return names;
}

// The positions that the request names among `names`, ascending; `otherwise` if it names none.
Nodes chosen(const Request& request, const std::vector<std::string>& names, Nodes otherwise) {
  if (request.nodes.empty()) return otherwise;
  Nodes positions;
  for (const std::string& wanted : request.nodes) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    auto at = static_cast<Index>(found - names.begin());
    if (found == names.end()) {
      const auto number = parse_number(wanted);
      if (!number || *number != std::floor(*number) || *number < 0 || *number >= static_cast<double>(names.size()))
        throw InvalidArgument(fmt::format("there is no node '{}' among {}", wanted, join(names)),
                              fmt::format("give names, or numbers from 0 to {}", names.size() - 1));
      at = static_cast<Index>(*number);
    }
    if (std::find(positions.begin(), positions.end(), at) != positions.end())
      throw InvalidArgument(fmt::format("node '{}' is asked for twice", wanted));
    positions.push_back(at);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

Nodes everything(std::size_t n) {
  Nodes all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<Index>(i));
  return all;
}

std::vector<std::string> names_at(const std::vector<std::string>& names, const Nodes& positions) {
  std::vector<std::string> part;
  for (const Index at : positions) part.push_back(names[static_cast<std::size_t>(at)]);
  return part;
}

// What a matrix cannot be used for.
void check_matrix(const Request& request) {
  if (request.test == TestKind::chi_square)
    throw InvalidArgument("the chi-square test needs observations, a matrix has none", "use fisher_z, or give a table");
  if (request.samples == 0)
    throw InvalidArgument("Fisher's z needs the number of samples behind the correlations",
                          "set samples; for attention it is the width of the model, for example 768");
}

std::size_t different_values(const std::vector<std::string>& column) {
  return std::set<std::string_view>(column.begin(), column.end()).size();
}

// Chi-square where a column looks like categories and all can be such, else Fisher's z.
TestKind chosen_test(const Table& table, const Request& request, std::vector<std::string>& notes) {
  if (request.test != TestKind::automatic) return request.test;
  const auto discrete = table.discrete(), scattered = table.scattered();
  if (!table.numeric()) {
    if (scattered.empty()) return TestKind::chi_square;
    const auto at = std::find(table.names.begin(), table.names.end(), scattered.front()) - table.names.begin();
    throw InvalidArgument(
        fmt::format("{}: not all columns are numbers, and '{}' has {} different values in {} rows, too many for "
                    "categories",
                    table.file, scattered.front(), different_values(table.columns[static_cast<std::size_t>(at)]),
                    table.rows()),
        "choose nodes that are all numbers or all categories, put numbers into bins, or ask for test=chi_square");
  }
  if (discrete.empty()) return TestKind::fisher_z;
  if (scattered.empty() && !request.logarithm) return TestKind::chi_square;
  notes.push_back("Fisher's z takes columns of few different values as numbers, too: " + join(discrete));
  return TestKind::fisher_z;
}

ChiSquare counted(const Table& table, const Request& request) {
  if (request.logarithm)
    throw InvalidArgument("logarithms change nothing for the chi-square test", "use fisher_z, or leave them out");
  if (request.samples != 0)
    throw InvalidArgument("the chi-square test counts the rows, it takes no number of samples",
                          "leave samples out, or use fisher_z");
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    if (const std::size_t different = different_values(table.columns[c]); different > most_categories)
      throw InvalidArgument(fmt::format("{}: column '{}' has {} different values, too many for the chi-square test",
                                        table.file, table.names[c], different),
                            table.numeric()
                                ? "use fisher_z for numbers, or put them into bins"
                                : "choose nodes that are all numbers or all categories, or put numbers into bins");
  return ChiSquare(table.categories());
}

FisherZ correlated(const Table& table, const Request& request) {
  Matrix values = table.numbers();
  if (table.rows() < fewest_samples)
    throw InvalidArgument(
        fmt::format("{}: Fisher's z needs {} rows or more, found {}", table.file, fewest_samples, table.rows()),
        "give more rows");
  for (Index c = 0; c < values.shape()[1]; ++c) {
    const std::string& name = table.names[static_cast<std::size_t>(c)];
    bool constant = true;
    for (Index r = 0; r < values.shape()[0]; ++r) {
      double& value = values(r, c);
      if (request.logarithm && !(value > 0))
        throw DataError(table.file, table.lines[static_cast<std::size_t>(r)], 0,
                        fmt::format("column '{}': {} has no logarithm", name, value), "ask for no logarithms");
      if (request.logarithm) value = std::log(value);
      constant = constant && value == values(0, c);
    }
    if (constant)
      throw InvalidArgument(fmt::format("{}: column '{}' is constant, so it has no correlations", table.file, name),
                            "leave the column out");
  }
  return FisherZ(correlation(values), request.samples != 0 ? request.samples : static_cast<double>(table.rows()));
}

Input table_input(const Request& request) {
  if (!request.tensor.empty() || !request.values.empty())
    throw InvalidArgument(fmt::format("{} is a table and has no tensors", request.file),
                          "names of tensors go with a .safetensors file");
  Table whole = request.text ? parse_table(*request.text, request.file) : read_table(request.file);
  if (request.rows != 0) whole.keep(request.rows);
  const Nodes positions = chosen(request, whole.names, everything(whole.names.size()));
  Table table = whole.select(names_at(whole.names, positions));
  std::vector<std::string> notes;
  if (!request.drop_missing)
    table.require_complete();
  else if (const Index dropped = table.drop_incomplete(); dropped > 0)
    notes.push_back(fmt::format("{} of {} rows lack a value and were left out", dropped, whole.rows()));
  if (table.rows() < 2)
    throw InvalidArgument(fmt::format("{}: one row says nothing about independence", table.file), "give more rows");
  if (chosen_test(table, request, notes) == TestKind::chi_square)
    return {table.names, positions, counted(table, request), std::move(notes)};
  return {table.names, positions, correlated(table, request), std::move(notes)};
}

std::string tensor_name(const TensorFile& file, const Request& request) {
  if (!request.tensor.empty()) return request.tensor;
  if (const auto name = matrix_name(file)) return *name;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  throw InvalidArgument(fmt::format("{} has neither attention nor correlation, it has {}", request.file, join(names)),
                        "name the tensor");
}

// One matrix out of [N,M], [H,N,M] or [B,H,N,M].
Matrix one_head(const TensorFile& file, const std::string& name, const Request& request) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) {
    std::vector<std::string> names;
    for (const auto& [each, tensor] : file.tensors) names.push_back(each);
    throw InvalidArgument(fmt::format("{} has no tensor '{}', it has {}", request.file, name, join(names)));
  }
  const Shape& shape = found->second.shape();
  const std::size_t rank = shape.size();
  if (rank < 2 || rank > 4)
    throw InvalidArgument(
        fmt::format("tensor '{}' has shape {}, expected (N,N), (H,N,N) or (B,H,N,N)", name, saddle::to_string(shape)));
  const Index H = rank > 2 ? shape[rank - 3] : 1, B = rank > 3 ? shape[0] : 1;
  if (request.head < 0 || request.head >= H || request.batch < 0 || request.batch >= B)
    throw InvalidArgument(fmt::format("tensor '{}' has {} heads and {} inputs, asked for head {} of input {}", name, H,
                                      B, request.head, request.batch),
                          "both count from 0");
  Matrix matrix({shape[rank - 2], shape[rank - 1]});
  const Index start = (request.batch * H + request.head) * matrix.size();
  for (Index i = 0; i < matrix.size(); ++i) matrix.data()[i] = found->second.at(start + i);
  return matrix;
}

// Metadata `tokens`: a JSON list with a name for each of the N positions.
std::vector<std::string> token_names(const TensorFile& file, Index N, const std::string& path) {
  const auto found = file.metadata.find("tokens");
  if (found == file.metadata.end()) return numbered(N);
  const auto list = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<std::string> names;
  if (list.is_array())
    for (const auto& token : list)
      if (token.is_string()) names.push_back(token.get<std::string>());
  if (static_cast<Index>(names.size()) != N)
    throw DataError(path, 0, 0, fmt::format("metadata 'tokens' must be a JSON list of {} texts", N));
  return names;
}

}  // namespace

Input attention_input(const Matrix& attention, std::vector<std::string> names, const Request& request,
                      const Matrix* values) {
  check_attention(attention);
  const Index N = attention.shape()[0];
  if (names.empty()) names = numbered(N);
  if (static_cast<Index>(names.size()) != N)
    throw InvalidArgument(fmt::format("{} names for {} tokens", names.size(), N));
  Nodes seen;
  for (Index j = 0; j < N; ++j)
    for (Index i = 0; i < N; ++i)
      if (attention(i, j) != 0) {
        seen.push_back(j);
        break;
      }
  if (seen.empty()) throw InvalidArgument("the attention is 0 everywhere", "give the weights of one head");
  check_matrix(request);
  std::vector<std::string> notes;
  const auto padding = N - static_cast<Index>(seen.size());
  if (padding > 0 && request.nodes.empty())
    notes.push_back(fmt::format("{} of {} positions get no attention and are left out as padding", padding, N));
  const Nodes positions = chosen(request, names, std::move(seen));
  Matrix R = attention_correlation(attention, values, positions);
  names = names_at(names, positions);
  if (const auto same = copies(R))
    notes.push_back(fmt::format("tokens such as '{}' and '{}' pay the same attention: of their edges rounding decides",
                                names[static_cast<std::size_t>(same->first)],
                                names[static_cast<std::size_t>(same->second)]));
  return {std::move(names), positions, FisherZ(std::move(R), request.samples), std::move(notes), true};
}

std::optional<std::string> matrix_name(const TensorFile& file) {
  for (const char* name : {"attention", "correlation", "in.attention", "in.correlation"})
    if (const auto found = file.tensors.find(name); found != file.tensors.end() && found->second.shape().size() <= 4)
      return name;
  return std::nullopt;
}

Input tensor_input(const TensorFile& file, const Request& request) {
  if (request.logarithm)
    throw InvalidArgument(fmt::format("{} holds no observations to take logarithms of", request.file));
  Request complete = request;
  if (const auto recorded = file.metadata.find("num_samples"); request.samples == 0 && recorded != file.metadata.end())
    complete.samples = parse_number(recorded->second).value_or(0);
  const std::string name = tensor_name(file, request);
  const Matrix matrix = one_head(file, name, request);
  auto names = token_names(file, matrix.shape()[0], request.file);
  if (name.find("correlation") == std::string::npos) {
    if (request.values.empty()) return attention_input(matrix, std::move(names), complete);
    const Matrix values = one_head(file, request.values, request);
    return attention_input(matrix, std::move(names), complete, &values);
  }
  if (!request.values.empty()) throw InvalidArgument("values go with attention, not with correlations");
  if (matrix.shape()[0] != matrix.shape()[1])
    throw InvalidArgument(fmt::format("tensor '{}' has {} rows and {} columns, correlations are square", name,
                                      matrix.shape()[0], matrix.shape()[1]));
  check_matrix(complete);
  const Nodes positions = chosen(complete, names, everything(names.size()));
  return {names_at(names, positions), positions, FisherZ(submatrix(matrix, positions), complete.samples)};
}

Input read_input(const Request& request) {
  if (request.file.empty() && !request.text)
    throw InvalidArgument("causal discovery needs a file", "give a table (.csv) or tensors (.safetensors)");
  return std::filesystem::path(request.file).extension() == ".safetensors"
             ? tensor_input(io::read_safetensors(request.file), request)
             : table_input(request);
}

}  // namespace saddle::analysis::causal_discovery
