// The page of a report: tables and plots in one file, plots as inline SVG so that nothing has to be fetched or run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plot.hpp"
#include "report.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/version.hpp"

namespace saddle::bench {

namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink: #1c2330; --soft: #667085; --line: #d5dae3; --paper: #ffffff; --card: #f6f7f9;
  --good: #12734a; --bad: #b42318; --c0: #2a63c4; --c1: #c2571a; --c2: #12804f; --c3: #8a3fb0; --c4: #a8780a; --c5: #0d7c8c;
  --c6: #b83263; --c7: #5b6472; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b5; --line: #394150; --paper: #14171d;
  --card: #1c212a; --good: #5fc796; --bad: #ff8a80; --c0: #7aa7f5; --c1: #f0995c; --c2: #5fc796; --c3: #c792ea; --c4: #e3b84e;
  --c5: #58c4d4; --c6: #f08bb1; --c7: #a3adbd; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p { color: var(--soft); max-width: 46rem; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } .l { text-align: left; } .wrap { white-space: normal; text-align: left; min-width: 16rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .soft { color: var(--soft); }
figure { margin: 1rem 0; background: var(--card); border-radius: 8px; padding: 0.8rem; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .strong { fill: var(--ink); } svg .grid { stroke: var(--line); stroke-width: 1; } svg .axis { stroke: var(--soft); }
svg .roof { stroke: var(--soft); fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; }
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3g} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                           : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string limits_table(const Report& report) {
  if (report.limits.empty()) return "";
  std::string html =
      "<h2>Limits of this machine</h2><div class=\"scroll\"><table><tr><th class=\"l\">threads</th><th>FMA "
      "f32</th><th>FMA f64</th><th>AMX bf16</th>"
      "<th>exp f32</th><th>triad</th><th>read</th></tr>";
  const auto cell = [](double value, const char* unit) {
    return value > 0 ? fmt::format("<td>{:.4g} {}</td>", value, unit)
                     : std::string("<td class=\"soft\">not measured</td>");
  };
  for (const Limits& l : report.limits)
    html += fmt::format("<tr><td class=\"l\">{}</td>{}{}{}{}{}{}</tr>", l.threads, cell(l.fma_f32, "GFLOP/s"),
                        cell(l.fma_f64, "GFLOP/s"), cell(l.amx_bf16, "GFLOP/s"), cell(l.exp_f32, "G/s"),
                        cell(l.triad, "GB/s"), cell(l.read, "GB/s"));
  return html + "</table></div>";
}

std::string rows_table(const Report& report) {
  if (report.results.empty()) return "";
  std::string html =
      "<h2>Rows</h2><div class=\"scroll\"><table><tr><th class=\"l\">attention</th><th class=\"l\">shape</th><th "
      "class=\"l\">type</th>"
      "<th class=\"l\">pass</th><th>threads</th><th class=\"l\">runs</th><th>time</th><th>GFLOP/s</th><th>of limit</th>"
      "<th>memory</th><th>error</th><th class=\"l\">peers, time over ours</th></tr>";
  for (const Result& result : report.results) {
    const OwnResult& own = result.own;
    std::string peers;
    for (const PeerResult& peer : result.peers)
      if (peer.timing && own.timing)
        peers += fmt::format("{}{}{} {:.2f}x", peers.empty() ? "" : ", ", escaped(peer.name),
                             peer.as_installed ? " as installed" : "", peer.timing->best / own.timing->best);
    html += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td>"
        "<td class=\"l\">{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{:.1e}</td>"
        "<td class=\"wrap\">{}</td></tr>",
        escaped(own.row.attention), shape_text(own.row.dims), own.row.layout == Layout::qkv ? " qkv" : "",
        saddle::to_string(own.row.dtype), to_string(own.row.pass), own.row.threads, escaped(own.implementation),
        own.isa, own.timing ? time_text(own.timing->best) : "-",
        own.timing ? fmt::format("{:.1f}", result.gflops) : "-",
        own.timing && !result.limit.empty() ? fmt::format("{:.1f} %", 100 * result.share) : "-",
        own.memory >= 0 ? fmt::format("{:.2f} MB", own.memory * 1e-6) : "-", own.check.passed ? "good" : "bad",
        own.check.error, peers);
  }
  return html + "</table></div>";
}

// Steps of training, ours and torch's.
std::string models_table(const Report& report) {
  if (report.models.empty()) return "";
  std::string html =
      "<h2>Training steps</h2><p>B, tokens, width, heads, layers. Both sides took the same steps from the same weights "
      "first: error is the largest difference of gradients and losses. Memory is the peak of the first step.</p>"
      "<div class=\"scroll\"><table><tr><th class=\"l\">work</th><th class=\"l\">shape</th><th class=\"l\">type</th>"
      "<th>threads</th><th>ours</th><th>torch</th><th>torch over ours</th><th>spinning</th><th>as "
      "installed</th><th>memory</th>"
      "<th>of torch</th><th>error</th></tr>";
  const auto time = [](const SideResult& side) { return side.timing ? time_text(side.timing->best) : "-"; };
  const auto ratio = [](const std::optional<double>& value) { return value ? fmt::format("{:.2f}x", *value) : "-"; };
  const auto memory = [](double bytes) { return bytes >= 0 ? fmt::format("{:.1f} MB", bytes * 1e-6) : "-"; };
  for (const ModelResult& result : report.models) {
    const ModelRow& row = result.entry.row;
    html += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>",
        escaped(result.entry.work), shape_text(row), saddle::to_string(row.dtype), row.threads, time(result.own),
        time(result.torch), ratio(result.ratio(result.torch)), ratio(result.ratio(result.spinning)),
        ratio(result.ratio(result.as_installed)), memory(result.own.memory), memory(result.torch_memory()),
        result.red ? "bad" : "good",
        !result.unmeasured.empty() ? escaped(result.unmeasured) : fmt::format("{:.1e}", result.check.error));
  }
  return html + "</table></div>";
}

// Whole layers, the first of each shape, type and pass being what the others are compared with.
std::string layers_table(const Report& report) {
  if (report.layers.empty()) return "";
  std::string html =
      "<h2>Whole layers</h2><p>Projections included. Each layer was checked on 64 tokens first: in double "
      "against its reference, a declared attention in float against double; error is the largest difference. Speed is "
      "that over the first attention at the same shape: above 1 is faster, below 1 slower. The time of a layer whose "
      "error is red says nothing.</p><div class=\"scroll\"><table><tr><th class=\"l\">"
      "attention</th><th class=\"l\">B, H, N, D</th><th class=\"l\">type</th><th class=\"l\">pass</th><th>threads</th>"
      "<th>time</th><th>median</th><th>speed</th><th>G multiply-adds</th><th>memory</th><th>error</th></tr>";
  const LayerResult* first = nullptr;
  for (const LayerResult& layer : report.layers) {
    if (first == nullptr || shape_text(first->dims) != shape_text(layer.dims) || first->dtype != layer.dtype ||
        first->pass != layer.pass)
      first = &layer;
    html += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td><td>{:.2f}x</td><td>{:.3g}</td><td>{}</td><td class=\"{}\">{:.1e}</td></tr>",
        escaped(layer.attention), shape_text(layer.dims), layer.dtype, layer.pass, layer.threads,
        time_text(layer.time.best), time_text(layer.time.median), first->time.best / layer.time.best,
        layer.multiply_adds * 1e-9, layer.memory >= 0 ? fmt::format("{:.2f} MB", layer.memory * 1e-6) : "-",
        layer.passed ? "good" : "bad", layer.check);
  }
  return html + "</table></div>";
}

// Causal graphs, ours and numpy's.
std::string graphs_table(const Report& report) {
  if (report.graphs.empty()) return "";
  std::string html =
      "<h2>Causal graphs</h2><p>The PC algorithm with Fisher's z, stable, on a random linear model. Both sides found "
      "the same edges with the same tests first; otherwise there is no time.</p><div class=\"scroll\"><table><tr><th "
      "class=\"l\">work</th><th class=\"l\">graph</th><th>threads</th><th>edges</th><th>tests</th><th>ours</th>"
      "<th>numpy</th><th>numpy over ours</th><th class=\"l\">check</th></tr>";
  const auto time = [](const std::optional<Timing>& timing) { return timing ? time_text(timing->best) : "-"; };
  for (const GraphResult& result : report.graphs)
    html += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td class=\"l {}\">{}</td></tr>",
        escaped(result.entry.work), to_string(result.entry.row), result.entry.row.threads, result.edges, result.tests,
        time(result.own), time(result.numpy), result.ratio() ? fmt::format("{:.1f}x", *result.ratio()) : "-",
        result.red    ? "bad"
        : result.same ? "good"
                      : "",
        result.red    ? "another graph"
        : result.same ? "same graph, same tests"
                      : escaped(result.unmeasured));
  return html + "</table></div>";
}

std::string bars_table(const Report& report) {
  std::string rows;
  const auto add = [&](const std::string& work, const std::string& shape, const BarResult& judged, const Row& row) {
    rows += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"wrap\">{}</td>"
        "<td class=\"l {}\">{}</td></tr>",
        escaped(work), shape, escaped(bar_text(judged.bar, row)),
        judged.value ? value_text(judged.bar, *judged.value) : escaped(judged.reason),
        judged.verdict == Verdict::reached  ? "good"
        : judged.verdict == Verdict::missed ? "bad"
                                            : "soft",
        to_string(judged.verdict));
  };
  for (const Result& result : report.results)
    for (const BarResult& judged : result.bars)
      add(result.entry.work.empty() ? to_string(result.entry.row) : result.entry.work,
          shape_text(result.entry.row.dims), judged, result.entry.row);
  for (const ModelResult& result : report.models)
    for (const BarResult& judged : result.bars)
      add(fmt::format("{} {}", result.entry.work, saddle::to_string(result.entry.row.dtype)),
          shape_text(result.entry.row), judged, {});
  for (const GraphResult& result : report.graphs)
    for (const BarResult& judged : result.bars) add(result.entry.work, to_string(result.entry.row), judged, {});
  if (rows.empty()) return "";
  return "<h2>Bars</h2><div class=\"scroll\"><table><tr><th class=\"l\">work</th><th class=\"l\">shape</th><th "
         "class=\"l\">bar</th><th class=\"l\">measured</th><th class=\"l\">verdict</th></tr>" +
         rows + "</table></div>";
}

// "softmax f32 forward": what stays the same along a line.
std::string kind_of(const Row& row) {
  return fmt::format("{} {} {}", row.attention, saddle::to_string(row.dtype), to_string(row.pass));
}

std::string roofline(const Report& report) {
  if (report.limits.empty()) return "";
  const Limits& most = report.limits.back();
  Plot plot;
  plot.x_title = "operations per byte of input and output";
  plot.y_title = "GFLOP/s";
  double least = 1e30, largest = 0;
  for (const Result& result : report.results) {
    if (!result.own.timing) continue;
    const double intensity = flops(result.own.row) / bytes(result.own.row);
    least = std::min(least, intensity);
    largest = std::max(largest, intensity);
    plot.series(kind_of(result.own.row))
        .points.push_back(
            {intensity, result.gflops, fmt::format("{}: {:.1f} GFLOP/s", to_string(result.own.row), result.gflops)});
  }
  if (largest == 0) return "";
  plot.lines = false;
  const double bandwidth = std::max(most.triad, most.read);
  const auto roof = [&](const std::string& name, double peak) {
    if (peak <= 0) return;
    // Without a bandwidth only the flat part is known.
    const double corner = bandwidth > 0 ? peak / bandwidth : least / 2;
    const double left = std::min(least, corner) / 2, right = std::max(largest, corner) * 2;
    std::vector<PlotPoint> line;
    if (bandwidth > 0) line.push_back({left, left * bandwidth, ""});
    line.push_back({corner, peak, ""});
    line.push_back({right, peak, ""});
    plot.roofs.push_back({fmt::format("{} {:.0f}", name, peak), line});
  };
  roof(fmt::format("FMA f32, {} threads:", most.threads), most.fma_f32);
  roof(fmt::format("AMX bf16, {} threads:", most.threads), most.amx_bf16);
  return "<h2>Roofline</h2><p>Rate against arithmetic intensity, under the limits measured in the same run. Rates of "
         "finite kernels are equivalent rates: counted as if every pair were computed.</p><figure>" +
         plot.svg() + "</figure>";
}

// One line per kind of row and thread count, over N; only kinds that were run at more than one N.
std::string scaling_in_tokens(const Report& report) {
  Plot plot;
  plot.x_title = "tokens N";
  plot.y_title = "time";
  plot.seconds = true;
  for (const Result& result : report.results) {
    const Row& row = result.own.row;
    if (!result.own.timing || row.layout != Layout::contiguous) continue;
    plot.series(fmt::format("{}, {} thread{}, B {} H {} D {}", kind_of(row), row.threads, row.threads == 1 ? "" : "s",
                            row.dims.B, row.dims.H, row.dims.D))
        .points.push_back({static_cast<double>(row.dims.N), result.own.timing->best,
                           fmt::format("N = {}: {}", row.dims.N, time_text(result.own.timing->best))});
  }
  for (const LayerResult& layer : report.layers)
    plot.series(fmt::format("{} {} {}, B {} H {} D {}", layer.attention, layer.dtype, layer.pass, layer.dims.B,
                            layer.dims.H, layer.dims.D))
        .points.push_back({static_cast<double>(layer.dims.N), layer.time.best,
                           fmt::format("N = {}: {}", layer.dims.N, time_text(layer.time.best))});
  plot.keep_lines();
  if (plot.empty()) return "";
  return "<h2>Time against the number of tokens</h2><figure>" + plot.svg() + "</figure>";
}

std::string scaling_in_threads(const Report& report) {
  Plot plot;
  plot.x_title = "threads";
  plot.y_title = "speed-up over one thread";
  plot.logarithmic = false;
  std::map<std::string, double> one;
  const auto key = [](const Row& row) { return kind_of(row) + " " + shape_text(row.dims); };
  for (const Result& result : report.results)
    if (result.own.timing && result.own.row.threads == 1) one[key(result.own.row)] = result.own.timing->best;
  for (const Result& result : report.results) {
    const Row& row = result.own.row;
    if (!result.own.timing || !one.contains(key(row)) || row.layout != Layout::contiguous) continue;
    const double factor = one[key(row)] / result.own.timing->best;
    plot.series(key(row)).points.push_back(
        {static_cast<double>(row.threads), factor, fmt::format("{} threads: {:.2f}x", row.threads, factor)});
  }
  plot.keep_lines();
  if (plot.empty()) return "";
  return "<h2>Speed-up with threads</h2><figure>" + plot.svg() + "</figure>";
}

}  // namespace

std::string to_html(const Report& report) {
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width\"><title>saddle bench: {0}</title><style>{1}</style></head><body>"
             "<h1>saddle bench: {0}</h1><p>saddle {2} on {3}, {4} cores, {5} in use. Times are minima over interleaved "
             "rounds{6}.</p>",
             escaped(report.suite), style, version(), escaped(cpu().brand.empty() ? "an unknown CPU" : cpu().brand),
             cpu().cores, saddle::to_string(best_isa()),
             report.results.empty() ? "" : "; every attention was compared with the double reference first") +
         limits_table(report) + bars_table(report) + roofline(report) + scaling_in_tokens(report) +
         scaling_in_threads(report) + layers_table(report) + models_table(report) + graphs_table(report) +
         rows_table(report) + "</body></html>\n";
}

}  // namespace saddle::bench
