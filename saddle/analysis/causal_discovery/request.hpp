// From a file to a causal graph: what is asked, what is read, what comes out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "saddle/analysis/causal_discovery/cleann.hpp"
#include "saddle/analysis/causal_discovery/learn.hpp"
#include "saddle/analysis/causal_discovery/table.hpp"
#include "saddle/base/tensor.hpp"

namespace saddle::analysis::causal_discovery {

enum class Algorithm { pc, fci, icd };
enum class TestKind { automatic, fisher_z, chi_square };  // automatic: by the columns of a table

SADDLE_API std::string_view to_string(Algorithm algorithm);
SADDLE_API std::string_view to_string(TestKind test);  // "auto", "fisher_z", "chi_square"
// By name; throw InvalidArgument with the nearest.
SADDLE_API Algorithm parse_algorithm(std::string_view name);
SADDLE_API TestKind parse_test(std::string_view name);

struct Request {
  std::string file;                      // a table (.csv, .tsv, .txt), or .safetensors with attention or correlations
  std::optional<std::string> text = {};  // the contents of the table, for a caller that has them unpacked
  Algorithm algorithm = Algorithm::icd;
  TestKind test = TestKind::automatic;
  Options options = {};
  std::vector<std::string> nodes = {};     // variables to analyse, by name or number from 0; none: all
  double samples = 0;                      // 0: rows of the table, or metadata num_samples of the tensors
  bool logarithm = false;                  // of the columns of a table, before their correlations
  bool drop_missing = false;               // rows of a table without a value; else they are refused
  Index rows = 0;                          // of a table: the first so many; 0: all
  std::string tensor = {};                 // none: the one of attention, correlation, in.attention, in.correlation
  std::string values = {};                 // a tensor with the values of the head; none: taken as independent
  Index batch = 0, head = 0;               // of a tensor [B,H,N,N] or [H,N,N]
  std::optional<std::string> target = {};  // explain this node, by name or number
  ExplainOptions explain = {};
};

// What the algorithms see.
struct Input {
  std::vector<std::string> names;  // of the nodes
  Nodes positions;                 // of the nodes in the file
  IndependenceTest test;
  std::vector<std::string> notes = {};  // sentences on what a reader should know
  bool tokens = false;                  // of one head of attention; else variables, no two of them copies
};

struct Answer {
  Request request;
  Input input;
  Discovery discovery;
  std::optional<Index> target = {};
  std::optional<Explanations> explanations = {};  // without a model to ask: the tree and the whole set
  std::string json = {}, dot = {};
};

// Attention [N,N] of one head as input. Positions whose attention column is 0 are padding and left out unless the
// request names its nodes; what their rows hold does not matter. Throws InvalidArgument.
SADDLE_API Input attention_input(const Matrix& attention, std::vector<std::string> names, const Request& request,
                                 const Matrix* values = nullptr);
// Its attention or correlations; request.file names it in messages. Throws InvalidArgument and DataError.
SADDLE_API Input tensor_input(const TensorFile& file, const Request& request);
// The tensor that it takes if the request names none; nothing if there is none of up to four dimensions.
SADDLE_API std::optional<std::string> matrix_name(const TensorFile& file);
// Reads request.file. Throws IoError, DataError and InvalidArgument.
SADDLE_API Input read_input(const Request& request);

// `judge` asks a model about sets of node numbers, see explain(). Throws InvalidArgument where two variables are copies
// of each other: of such pairs rounding would decide.
SADDLE_API Answer discover(Input input, const Request& request, const IsExplanation& judge = {});
SADDLE_API Answer discover(const Request& request);

}  // namespace saddle::analysis::causal_discovery
