#include "bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

std::string quantity(double value, const char* unit) {
  return value > 0 ? fmt::format("{:.4g} {}", value, unit) : "not measured";
}

// "torch 2.03x (as installed 4.40x)", "onednn: not measured, it was not built".
std::string peers_text(const bench::Result& result) {
  std::vector<std::string> parts;
  for (const bench::PeerResult& peer : result.peers) {
    if (peer.as_installed && !parts.empty()) {
      if (peer.timing && result.own.timing)
        parts.back() += fmt::format(" (as installed {:.2f}x)", peer.timing->best / result.own.timing->best);
      continue;
    }
    const std::string note = peer.name == "torch-mha" ? " with its projections" : "";
    parts.push_back(peer.timing && result.own.timing
                        ? fmt::format("{}{} {}, {:.2f}x", peer.name, note, seconds_text(peer.timing->best),
                                      peer.timing->best / result.own.timing->best)
                        : fmt::format("{}: not measured, {}", peer.name, peer.reason));
  }
  return join(parts, "; ");
}

std::string check_text(const bench::OwnResult& own) {
  if (!own.refused.empty()) return red(own.refused);
  const std::string error = error_text(own.check.error);
  return own.check.passed ? error : red(fmt::format("wrong: {} above {}", error, error_text(own.check.tolerance)));
}

std::string verdict_text(const bench::BarResult& judged) {
  const std::string text = bench::to_string(judged.verdict);
  return judged.verdict == bench::Verdict::reached  ? green(text)
         : judged.verdict == bench::Verdict::missed ? red(text)
                                                    : dim(text);
}

std::string measured_text(const bench::BarResult& judged) {
  if (!judged.value) return judged.reason;
  std::string text = bench::value_text(judged.bar, *judged.value);
  if (judged.as_installed)
    text += fmt::format(" (as installed {})", bench::value_text(judged.bar, *judged.as_installed));
  return text;
}

}  // namespace

std::string limits_text(const bench::Report& report) {
  std::string text = fmt::format("{}, {} cores, {} in use\n", cpu().brand.empty() ? "unknown CPU" : cpu().brand,
                                 cpu().cores, to_string(best_isa()));
  if (report.limits.empty()) return text;
  Table table({"limit", "FMA f32", "FMA f64", "FMA f32 AVX2", "AMX bf16", "exp f32", "triad", "read"}, "lrrrrrrr");
  for (const bench::Limits& l : report.limits)
    table.add({fmt::format("{} thread{}", l.threads, l.threads == 1 ? "" : "s"), quantity(l.fma_f32, "GFLOP/s"),
               quantity(l.fma_f64, "GFLOP/s"), quantity(l.fma_avx2, "GFLOP/s"), quantity(l.amx_bf16, "GFLOP/s"),
               quantity(l.exp_f32, "G/s"), quantity(l.triad, "GB/s"), quantity(l.read, "GB/s")});
  text += table.text();
  // Cores that are really free add up.
  const bench::Limits& one = report.limits.front();
  for (const bench::Limits& l : report.limits)
    if (l.fma_f32 < 0.75 * l.threads / one.threads * one.fma_f32) {
      text +=
          wrap(fmt::format("note: {} threads reach only {:.2f} times the FMA rate of one. Something else is using this "
                           "machine; figures for {} threads mean little.",
                           l.threads, l.fma_f32 / one.fma_f32, l.threads),
               0);
      break;
    }
  return text;
}

std::string rows_text(const bench::Report& report, bool verbose) {
  if (report.results.empty()) return "";
  Table table(
      {"attention", "shape", "type", "pass", "thr", "runs", "time", "median", "GFLOP/s", "of limit", "memory", "error"},
      "llllrlrrrrrr");
  bool equivalent = false;
  const auto add = [&](const bench::OwnResult& own, const std::string& gflops, const std::string& share) {
    table.add({own.row.attention,
               bench::shape_text(own.row.dims) + (own.row.layout == bench::Layout::qkv ? " qkv" : ""),
               std::string(to_string(own.row.dtype)), to_string(own.row.pass), std::to_string(own.row.threads),
               own.implementation.empty() ? "" : fmt::format("{} {}", own.implementation, own.isa),
               own.timing ? seconds_text(own.timing->best) : "-", own.timing ? seconds_text(own.timing->median) : "-",
               gflops, share, own.memory >= 0 && own.timing ? bytes_text(own.memory) : "-", check_text(own)});
  };
  for (const bench::Result& result : report.results) {
    const bool timed = result.own.timing.has_value();
    const bool counted = timed && bench::counts_equivalent(result.own.row);
    equivalent |= counted;
    add(result.own, timed ? fmt::format("{:.1f}{}", result.gflops, counted ? "*" : "") : "-",
        timed && !result.limit.empty() ? fmt::format("{:.1f} %", 100 * result.share) : "-");
    for (const bench::OwnResult& other : result.others) add(other, "", "");
    if (const std::string peers = peers_text(result); !peers.empty()) table.note(peers);
    if (verbose || !result.own.check.passed) table.note("compared with the reference: " + result.own.check.what);
  }
  std::string text = table.text();
  text += wrap(
      "time: minimum over interleaved rounds; memory: beyond inputs, outputs and gradients; error: largest "
      "difference from the double reference, relative to the largest value; ratios: time of the peer over ours",
      0);
  if (equivalent) text += "*: equivalent rate, counted as if every pair were computed\n";
  return text;
}

std::string models_text(const bench::Report& report) {
  if (report.models.empty()) return "";
  Table table({"work", "shape", "type", "thr", "ours", "torch", "ratio", "spinning", "as installed", "memory",
               "of torch", "error"},
              "lllrrrrrrrrr");
  const auto time = [](const bench::SideResult& side) { return side.timing ? seconds_text(side.timing->best) : "-"; };
  const auto ratio = [](const std::optional<double>& value) { return value ? fmt::format("{:.2f}x", *value) : "-"; };
  const auto memory = [](double bytes) { return bytes >= 0 ? bytes_text(bytes) : "-"; };
  for (const bench::ModelResult& result : report.models) {
    const bench::ModelRow& row = result.entry.row;
    const std::string error = error_text(result.check.error);
    const bool compared = result.unmeasured.empty() && result.own.reason.empty();
    table.add({result.entry.work, bench::shape_text(row), std::string(to_string(row.dtype)),
               std::to_string(row.threads), time(result.own), time(result.torch), ratio(result.ratio(result.torch)),
               ratio(result.ratio(result.spinning)), ratio(result.ratio(result.as_installed)),
               memory(result.own.memory), memory(result.torch_memory()),
               !result.check.passed ? red(fmt::format("wrong: {} above {}", error, error_text(result.check.tolerance)))
               : compared           ? error
                                    : "-"});
    if (!result.unmeasured.empty()) {
      table.note("not measured, " + result.unmeasured);
    } else if (result.check.passed && !result.own.reason.empty()) {
      table.note(red("our side failed: " + result.own.reason));
    } else if (!result.as_installed.reason.empty()) {
      table.note("torch as installed: not measured, " + result.as_installed.reason);
    } else if (!result.spinning.reason.empty()) {
      table.note("torch with spinning threads: not measured, " + result.spinning.reason);
    }
  }
  return table.text() +
         wrap(
             "shape: B, tokens, width, heads, layers; times: minimum of one training step over interleaved rounds; "
             "ratios: time of torch over ours, tuned, tuned with threads that never sleep (bf16), and as installed; "
             "memory: peak of the first step; error: largest difference of the "
             "gradients of the first step and the losses of three, relative",
             0);
}

std::string graphs_text(const bench::Report& report) {
  if (report.graphs.empty()) return "";
  Table table({"work", "graph", "thr", "edges", "tests", "ours", "numpy", "ratio", "check"}, "llrrrrrrl");
  const auto time = [](const std::optional<bench::Timing>& timing) {
    return timing ? seconds_text(timing->best) : "-";
  };
  for (const bench::GraphResult& result : report.graphs) {
    table.add({result.entry.work, to_string(result.entry.row), std::to_string(result.entry.row.threads),
               std::to_string(result.edges), std::to_string(result.tests), time(result.own), time(result.numpy),
               result.ratio() ? fmt::format("{:.1f}x", *result.ratio()) : "-",
               result.red    ? red("another graph than numpy's")
               : result.same ? "same graph, same tests"
                             : "-"});
    if (!result.unmeasured.empty()) table.note("skipped, " + result.unmeasured);
  }
  return table.text() +
         wrap(
             "PC with Fisher's z, stable, on a random linear model; times: minimum over interleaved rounds, without "
             "reading and correlations; ratio: time of numpy over ours",
             0);
}

std::string bars_text(const bench::Report& report) {
  Table table({"work", "shape", "bar", "measured", "verdict"}, "lllll");
  int reached = 0, missed = 0, unknown = 0;
  const auto add = [&](const std::string& work, const std::string& shape, const bench::BarResult& judged,
                       const bench::Row& row) {
    table.add({work, shape, bench::bar_text(judged.bar, row), measured_text(judged), verdict_text(judged)});
    ++(judged.verdict == bench::Verdict::reached  ? reached
       : judged.verdict == bench::Verdict::missed ? missed
                                                  : unknown);
  };
  for (const bench::Result& result : report.results) {
    const bench::Row& row = result.entry.row;
    const std::string plain = fmt::format("{} {} {}", row.attention, to_string(row.dtype), to_string(row.pass));
    for (const bench::BarResult& judged : result.bars)
      add(result.entry.work.empty() ? plain : result.entry.work, bench::shape_text(row.dims), judged, row);
  }
  for (const bench::ModelResult& result : report.models)
    for (const bench::BarResult& judged : result.bars)
      add(fmt::format("{} {}", result.entry.work, to_string(result.entry.row.dtype)),
          bench::shape_text(result.entry.row), judged, {});
  for (const bench::GraphResult& result : report.graphs)
    for (const bench::BarResult& judged : result.bars)
      add(fmt::format("{}, {} thread{}", result.entry.work, result.entry.row.threads,
                      result.entry.row.threads == 1 ? "" : "s"),
          std::to_string(result.entry.row.variables), judged, {});
  if (reached + missed + unknown == 0) return "";
  return table.text() + fmt::format("{} reached, {} missed, {} not measured\n", reached, missed, unknown);
}

}  // namespace saddle::cli
