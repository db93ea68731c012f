// saddle bench: how fast an attention runs here, against the machine's own limits, peers and other revisions.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "bench_revision.hpp"
#include "bench_table.hpp"
#include "calibrate.hpp"
#include "command.hpp"
#include "output.hpp"
#include "program.hpp"
#include "report.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/kernels/rates.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

struct BenchOptions {
  std::string suite, html, base, peers;
  std::vector<std::string> attention, shape, dtype, pass, layout;
  double seconds = 4;
  bool list = false, quick = false, calibrate = false, serve = false;
};

constexpr const char* program = "/proc/self/exe";

// Threads that spin after a loop would take the cores from the peers that run next. OpenMP reads its settings when it
// is loaded, so the program starts itself again with them.
void restart_with_sleeping_threads() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "10000", 1);
  setenv("KMP_BLOCKTIME", "1", 0);
  continue_as(program);  // if that fails we go on as we are
}

std::vector<std::string> pieces(const std::vector<std::string>& values, const std::string& fallback) {
  std::vector<std::string> list;
  for (const std::string& value : values)
    for (std::string& piece : split(value)) list.push_back(std::move(piece));
  if (list.empty()) list.push_back(fallback);
  return list;
}

// The rows named by options: every combination.
bench::Suite suite_of_options(const BenchOptions& options) {
  bench::Suite suite{"command line", "", {}, {}, {}};
  const auto attentions = options.attention.empty() ? std::vector<std::string>{"softmax"} : options.attention;
  const auto shapes = options.shape.empty() ? std::vector<std::string>{"1,8,1024,64"} : options.shape;
  for (const std::string& shape : shapes) {
    std::vector<Index> numbers;
    for (const std::string& piece : split(shape)) {
      const auto number = read_index(piece);
      if (!number) throw InvalidArgument(fmt::format("--shape '{}': '{}' is not a whole number", shape, piece));
      numbers.push_back(*number);
    }
    const Dims dims = bench::dims_of(numbers, fmt::format("--shape '{}'", shape));
    for (const std::string& attention : attentions)
      for (const std::string& dtype : pieces(options.dtype, "f32"))
        for (const std::string& pass : pieces(options.pass, "forward"))
          for (const std::string& layout : pieces(options.layout, "contiguous")) {
            const bench::Row row{
                attention, dims, bench::parse_dtype(dtype), bench::parse_pass(pass), bench::parse_layout(layout),
                threads()};
            bench::validate(row);
            suite.entries.push_back({row, "", {}, {}, false});
          }
  }
  return suite;
}

bench::Suite chosen_suite(const BenchOptions& options) {
  const bool rows = !options.attention.empty() || !options.shape.empty() || !options.dtype.empty() ||
                    !options.pass.empty() || !options.layout.empty();
  if (rows && !options.suite.empty())
    throw InvalidArgument("--suite brings its own rows; leave out --attention, --shape, --dtype, --pass and --layout");
  bench::Suite suite = rows ? suite_of_options(options)
                            : bench::load_suite(options.suite.empty() ? "standard" : options.suite, threads());
  if (options.quick) std::erase_if(suite.entries, [](const bench::Entry& entry) { return entry.once; });
  if (options.peers.empty()) return suite;
  std::vector<std::string> peers;
  if (options.peers == "all") {
    peers = bench::peer_names();
  } else if (options.peers != "none") {
    peers = split(options.peers);
    for (const std::string& peer : peers)
      if (const auto& known = bench::peer_names(); std::find(known.begin(), known.end(), peer) == known.end()) {
        const std::string close = nearest(peer, known);
        throw InvalidArgument(fmt::format("--peers: unknown peer '{}', expected all, none or {}", peer, join(known)),
                              close.empty() ? "" : fmt::format("did you mean '{}'?", close));
      }
  }
  for (bench::Entry& entry : suite.entries) entry.peers = peers;
  for (bench::ModelEntry& model : suite.models) model.peers = peers;
  for (bench::GraphEntry& graph : suite.graphs) graph.peers = peers;
  return suite;
}

// One line that is replaced on a terminal, lines below each other elsewhere.
class Progress {
 public:
  Progress(std::size_t total, bool quiet) : total_(total), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (terminal_ && !quiet_) print_message("\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void next() { ++row_; }
  void say(const std::string& text) const {
    if (quiet_) return;
    const std::string line = row_ == 0 ? text : fmt::format("[{}/{}] {}", row_, total_, text);
    print_message(terminal_ ? "\r\033[K" + line : line + "\n");
  }

 private:
  std::size_t total_, row_ = 0;
  bool quiet_, terminal_;
};

std::vector<int> thread_counts(const bench::Suite& suite) {
  std::vector<int> counts{1};
  if (cpu().cores >= 2) counts.push_back(2);
  for (const bench::Entry& entry : suite.entries) counts.push_back(entry.row.threads);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::erase_if(counts, [](int count) { return count > cpu().cores; });
  return counts;
}

// Short runs are for trying things out: limits in less time, and no arrays beyond the caches.
bench::LimitOptions limit_options(double seconds) { return {std::clamp(seconds / 25, 0.001, 0.15), seconds >= 1}; }

std::string peers_folder() {
  if (const char* folder = std::getenv("SADDLE_PEERS"); folder != nullptr && *folder != '\0') return folder;
  return "build/peers";
}

// Options that the words before them would leave unused are mistakes.
void refuse_unused(const std::string& mode, const BenchOptions& options) {
  const std::pair<const char*, bool> given[] = {
      {"--suite", !options.suite.empty()}, {"--attention", !options.attention.empty()},
      {"--shape", !options.shape.empty()}, {"--dtype", !options.dtype.empty()},
      {"--pass", !options.pass.empty()},   {"--layout", !options.layout.empty()},
      {"--peers", !options.peers.empty()}, {"--quick", options.quick},
      {"--base", !options.base.empty()},   {"--html", !options.html.empty()},
      {"--serve", options.serve},          {"--calibrate", options.calibrate && mode != "--calibrate"},
  };
  for (const auto& [name, present] : given)
    if (present) throw InvalidArgument(fmt::format("{} makes no use of {}", mode, name), "leave one of them out");
}

// Hours of measuring must not end at a folder that is not there.
void check_writable(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) throw IoError(fmt::format("cannot write {}: it is a folder", file.string()));
  const io::AtomicFile trial(file);
}

int list_suites(const Context& context) {
  Json suites = Json::array();
  Table table({"suite", "rows", "summary"}, "lrl");
  for (const auto& [name, text] : bench::builtin_suites()) {
    const bench::Suite suite = bench::parse_suite(text, name, threads());
    const std::size_t rows = suite.size();
    table.add({name, std::to_string(rows), suite.summary});
    suites.push_back({{"name", name}, {"rows", rows}, {"summary", suite.summary}});
  }
  if (context.json) {
    print_json("saddle.bench-suites/1", {{"suites", suites}});
  } else {
    print(table.text());
  }
  return Exit::ok;
}

int calibrate(const BenchOptions& options, const Context& context) {
  const std::string file = kernels::rates_file(best_isa());
  if (file.empty()) throw IoError("there is no place for the calibration", "set SADDLE_CACHE to a folder, or HOME");
  std::error_code failure;
  const auto folder = std::filesystem::path(file).parent_path();
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw IoError(fmt::format("cannot create {}: {}", folder.string(), failure.message()),
                  "set SADDLE_CACHE to a folder that can be written");
  check_writable(file);
  const Progress progress(0, context.quiet || context.json);
  const kernels::Rates rates = bench::calibrate(options.seconds, [&](const std::string& text) { progress.say(text); });
  const std::string text = kernels::to_json(rates);
  io::write_atomically(file, text);
  if (!context.json && !context.quiet) print_message(fmt::format("written to {}\n", file));
  print(text);
  return Exit::ok;
}

// Mechanisms of the layer level have projections of their own, so everything is measured with them; encodings of times
// stand beside them.
int run_layers(const BenchOptions& options, const Context& context) {
  const std::pair<const char*, bool> without[] = {
      {"--layout", !options.layout.empty()}, {"--peers", !options.peers.empty()}, {"--base", !options.base.empty()}};
  for (const auto& [name, given] : without)
    if (given)
      throw InvalidArgument(fmt::format("{} makes no use of {}", "a bench of whole layers", name),
                            "leave it out, or name declared attentions only");
  LayerBenchArguments arguments;
  arguments.attention = options.attention;
  for (const std::string& text : options.attention) static_cast<void>(canonical_attention(text));
  const auto shapes = options.shape.empty() ? std::vector<std::string>{"1,8,1024,64"} : options.shape;
  for (const std::string& shape : shapes) arguments.shape.push_back(read_dims(shape, 0, 0));
  arguments.dtype = pieces(options.dtype, "f32");
  arguments.pass = pieces(options.pass, "forward");
  for (const std::string& dtype : arguments.dtype) bench::parse_dtype(dtype);
  for (const std::string& pass : arguments.pass) bench::parse_pass(pass);
  arguments.seconds = options.seconds;
  arguments.html = options.html;
  if (!options.html.empty()) check_writable(options.html);
  return run_layer_bench(arguments, context);
}

int run_suite(const BenchOptions& options, const Context& context) {
  const bench::Suite suite = chosen_suite(options);
  if (!options.base.empty() && suite.size() != suite.entries.size())
    throw InvalidArgument(fmt::format("--base compares attentions, suite '{}' has models or graphs", suite.name),
                          "leave --base out");
  if (!options.html.empty()) check_writable(options.html);
  set_log_level(LogLevel::error);  // which implementation runs stands in every row
  Progress progress(suite.size(), context.quiet);
  bench::Report report;
  report.suite = suite.name;
  report.base = options.base;
  bench::Peers peers(peers_folder());
  bench::RunOptions run;
  run.rounds.seconds = options.seconds;
  run.peers = &peers;
  run.self = program;
  run.progress = [&](const std::string& text) { progress.say(text); };
  std::unique_ptr<Revision> revision;
  if (!options.base.empty()) {
    revision = std::make_unique<Revision>(options.base, run.progress);
    run.base = revision->program();
  }
  const std::vector<int> counts = thread_counts(suite);
  if (!suite.entries.empty()) {
    progress.say("measuring the limits of this machine");
    report.limits = bench::measure_limits(best_isa(), counts, limit_options(options.seconds));
  }
  for (const bench::Entry& entry : suite.entries) {
    progress.next();
    report.results.push_back(bench::run_entry(entry, run));
    // Again, briefly: a limit that was disturbed the first time would flatter every share.
    if (options.seconds >= 1) bench::improve(report.limits, bench::measure_limits(best_isa(), counts, {0.01, false}));
  }
  peers.stop();
  for (const bench::ModelEntry& model : suite.models) {
    progress.next();
    report.models.push_back(bench::run_model(model, run));
  }
  for (const bench::GraphEntry& graph : suite.graphs) {
    progress.next();
    report.graphs.push_back(bench::run_graph(graph, run));
  }
  for (bench::Result& result : report.results) bench::conclude(result, report.limits);
  if (context.json) {
    print_json("saddle.bench/1", bench::to_json(report));
  } else {
    std::string text = limits_text(report);
    for (const std::string& part :
         {rows_text(report, context.verbose), models_text(report), graphs_text(report), bars_text(report)})
      if (!part.empty()) text += "\n" + part;
    print(text);
  }
  if (!options.html.empty()) io::write_atomically(options.html, bench::to_html(report));
  return report.passed() ? Exit::ok : Exit::failed;
}

int run_bench(const BenchOptions& options, const Context& context) {
  if (!(options.seconds > 0 && options.seconds <= 3600))
    throw InvalidArgument(fmt::format("--seconds must be above 0 and at most 3600, found {}", options.seconds));
  if (options.list || options.calibrate) refuse_unused(options.list ? "--list" : "--calibrate", options);
  if (options.list) return list_suites(context);
  if (std::any_of(options.attention.begin(), options.attention.end(),
                  [](const std::string& text) { return read_layer(text) || read_time_encoding(text); }))
    return run_layers(options, context);
  const int wanted = threads();
  restart_with_sleeping_threads();
  if (options.serve) return bench::serve();
  set_threads(wanted);
  return options.calibrate ? calibrate(options, context) : run_suite(options, context);
}

}  // namespace

Command bench_command() {
  const auto o = std::make_shared<BenchOptions>();
  return {"bench",
          "Measure attention on this machine: correctness first, then time against the machine's limits and peers.",
          {{"the suites there are; floors is the one that must pass", "saddle bench --list"},
           {"one row", "saddle bench --attention softmax --shape 1,2,128,16 --seconds 0.1"},
           {"every combination of what is named, as JSON",
            "saddle bench --attention softmax --attention 'linear(elu1)' --shape 1,2,64,16 --pass "
            "forward,forward+backward --seconds 0.1 --json"},
           {"a page with plots", "saddle bench --suite quick --seconds 0.1 --html bench.html"}},
          {{"--suite", "NAME", "a suite by name, or a .toml file; default standard", &o->suite},
           {"--attention", "TEXT", "a row of its own; may be given more than once", &o->attention},
           {"--shape", "B,H,N,D", "or B,H,N,M,D,E; may be given more than once", &o->shape},
           {"--dtype", "LIST", "f32, f64, bf16; default f32", &o->dtype},
           {"--pass", "LIST", "forward, forward+backward; default forward", &o->pass},
           {"--layout", "LIST", "contiguous, qkv; default contiguous", &o->layout},
           {"--peers", "LIST", "all, none, or names; default what the suite says", &o->peers},
           {"--seconds", "S", "of rounds for one row, roughly; default 4", &o->seconds},
           {"--quick", "", "leave out rows that run once for minutes", &o->quick},
           {"--base", "REVISION", "build this git revision too and compare with it", &o->base},
           {"--html", "FILE", "write a page with roofline and scaling plots", &o->html},
           {"--list", "", "show the suites", &o->list},
           {"--calibrate", "", "measure the rates that predicted times are made of, and keep them", &o->calibrate},
           {"--serve", "", "answer requests on stdin, one JSON object per line; what --base talks to", &o->serve}},
          [o](const Context& context) { return run_bench(*o, context); }};
}

}  // namespace saddle::cli
