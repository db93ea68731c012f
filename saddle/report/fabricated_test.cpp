#include "saddle/report/fabricated_test.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::report {

namespace {

using Json = nlohmann::ordered_json;

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 3; ++b) word = word << 8 | (b < n ? bytes[i + b] : 0u);
    for (std::size_t b = 0; b < 4; ++b) text += b <= n ? letters[word >> (18 - 6 * b) & 63] : '=';
  }
  return text;
}

double bump(double x, double centre, double width) { return std::exp(-(x - centre) * (x - centre) / (width * width)); }

std::vector<std::string> class_names(const Fabricated& run) {
  const std::vector<std::string> clothes{"T-shirt", "trousers", "pullover", "dress", "coat",
                                         "sandal",  "shirt",    "sneaker",  "bag",   "ankle boot"};
  std::vector<std::string> names;
  for (Index c = 0; c < run.classes; ++c)
    names.push_back(run.kind == "image" && c < 10    ? clothes[static_cast<std::size_t>(c)]
                    : run.kind == "series" && c == 1 ? "<script>alert(1)</script>"
                    : run.kind == "series" && c == 2 ? "</script><b>\"bold\"</b>"
                                                     : fmt::format("{}", c));
  return names;
}

// A shape that depends on the class, bright on dark.
Json image(Index label, Stream& random) {
  const double width = 5 + static_cast<double>(label % 4), tall = 11 - static_cast<double>(label % 3) * 2;
  std::vector<std::uint8_t> pixels;
  for (int r = 0; r < 28; ++r)
    for (int c = 0; c < 28; ++c) {
      const double x = (c - 13.5) / width, y = (r - 13.5) / tall;
      const double inside = std::pow(std::abs(x), 4) + std::pow(std::abs(y), 4) < 1 ? 1 : 0;
      const double sleeve = label % 2 == 0 && std::abs(y + 0.4 - 0.2 * std::abs(x)) < 0.25 && std::abs(x) < 1.9 ? 1 : 0;
      const double shade = 0.55 + 0.25 * std::sin(0.7 * c + static_cast<double>(label)) + 0.1 * random.normal();
      pixels.push_back(static_cast<std::uint8_t>(255 * std::clamp(std::max(inside, sleeve) * shade, 0.0, 1.0)));
    }
  return {{"kind", "image"}, {"channels", 1}, {"rows", 28}, {"columns", 28}, {"values", base64(pixels)}};
}

Json series(Index label, Stream& random) {
  constexpr int length = 45;
  Json values = Json::array();
  for (int channel = 0; channel < 3; ++channel) {
    Json& row = values.emplace_back(Json::array());
    for (int t = 0; t < length; ++t)
      row.push_back(std::sin(0.15 * t * static_cast<double>(1 + label) + channel) + 0.6 * bump(t, 12 + 9 * channel, 3) +
                    0.08 * random.normal());
  }
  values[2][7] = nullptr;
  return {{"kind", "series"},
          {"channels", 3},
          {"length", length},
          {"channel_names", {"x", "y", "<i>z</i>"}},
          {"values", values}};
}

Json tokens(Stream& random) {
  const std::vector<std::string> words{"[MAX", "[MIN", "[MED", "[SM", "]", "0", "2", "3", "5", "7", "9", "1", "4"};
  Json text = Json::array();
  for (int t = 0; t < 40; ++t) text.push_back(words[static_cast<std::size_t>(random.below(words.size()))]);
  return {{"kind", "tokens"}, {"length", 40}, {"text", text}};
}

// Attention of queries near and far; heads differ, pooled keys stand for `factor` tokens (factor x factor patches).
Json map(const Fabricated& run, Index layer, Index head, Index factor, Index sample) {
  const bool grid = run.kind == "image";
  const Index N = grid ? 50 : run.kind == "series" ? 45 : 40;
  const Index side = (7 + factor - 1) / factor;
  const Index M = grid ? 1 + side * side : (N + factor - 1) / factor;
  const double width = 1.2 + static_cast<double>(head) * 1.1 + static_cast<double>(layer) * 0.8;
  std::vector<double> weights(static_cast<std::size_t>(N * M));
  double largest = 0;
  for (Index i = 0; i < N; ++i) {
    double sum = 0;
    for (Index j = 0; j < M; ++j) {
      double w = 0.03;
      if (grid) {
        const double qr = i == 0 ? 3 : static_cast<double>((i - 1) / 7),
                     qc = i == 0 ? 3 : static_cast<double>((i - 1) % 7);
        const double f = static_cast<double>(factor);
        const double kr = (static_cast<double>((j - 1) / side) + 0.5) * f - 0.5,
                     kc = (static_cast<double>((j - 1) % side) + 0.5) * f - 0.5;
        w += j == 0 ? 0.2 : bump(qr + (head == 1 ? 2 : 0), kr, width) * bump(qc - (head == 2 ? 2 : 0), kc, width);
      } else {
        w += bump(static_cast<double>(i) - 4.0 * static_cast<double>(head) + static_cast<double>(sample % 3),
                  (static_cast<double>(j) + 0.5) * static_cast<double>(factor), 2 * width);
      }
      weights[static_cast<std::size_t>(i * M + j)] = w;
      sum += w;
    }
    for (Index j = 0; j < M; ++j) {
      double& w = weights[static_cast<std::size_t>(i * M + j)];
      w /= sum;
      largest = std::max(largest, w);
    }
  }
  std::vector<std::uint8_t> bytes;
  for (const double w : weights) bytes.push_back(static_cast<std::uint8_t>(std::lround(255 * w / largest)));
  return {{"rows", N}, {"columns", M}, {"max", largest}, {"data", base64(bytes)}};
}

Json inspect_of(const Fabricated& run, Stream& random) {
  Json samples = Json::array(), pooling = Json::array();
  Stream inputs(0, "inputs/" + run.data);  // the same for every attention and seed
  for (Index s = 0; s < run.samples; ++s) {
    const Index label = s % run.classes, predicted = s % 3 == 2 ? (label + 1) % run.classes : label;
    std::vector<double> probabilities(static_cast<std::size_t>(run.classes), 0.0);
    for (double& p : probabilities) p = 0.02 * random.uniform();
    probabilities[static_cast<std::size_t>(predicted)] += 0.5;
    probabilities[static_cast<std::size_t>(label)] += 0.2;
    const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
    for (double& p : probabilities) p /= sum;
    Json layers = Json::array();
    for (Index l = 0; l < run.layers; ++l) {
      Json heads = Json::array();
      for (Index h = 0; h < run.heads; ++h)
        heads.push_back(map(run, l, h, run.factors.empty() ? 1 : run.factors[static_cast<std::size_t>(h)], s));
      layers.push_back({{"heads", heads}});
    }
    const Json input = run.kind == "image"    ? image(label, inputs)
                       : run.kind == "series" ? series(label, inputs)
                                              : tokens(inputs);
    samples.push_back({{"index", 17 * s + 3},
                       {"label", label},
                       {"predicted", predicted},
                       {"probabilities", probabilities},
                       {"input", input},
                       {"layers", layers}});
  }
  if (!run.factors.empty())
    for (Index l = 0; l < run.layers; ++l) pooling.push_back({{"layer", l}, {"factors", run.factors}});
  const Json grid = run.kind == "image" ? Json{{"prefix", 1}, {"rows", 7}, {"columns", 7}} : Json();
  return {{"schema", "saddle.inspect/1"}, {"samples", samples}, {"grid", grid}, {"pooling", pooling}};
}

// Counts that add up to the accuracy, with errors in neighbouring classes.
Json confusion_of(const Fabricated& run, double accuracy, Stream& random) {
  constexpr Index support = 100;
  Json rows = Json::array();
  for (Index t = 0; t < run.classes; ++t) {
    std::vector<Index> row(static_cast<std::size_t>(run.classes), 0);
    for (Index n = 0; n < support; ++n) {
      const bool right = random.uniform() < accuracy;
      const Index guess = right ? t : (t + 1 + static_cast<Index>(random.below(run.classes > 4 ? 3 : 1))) % run.classes;
      ++row[static_cast<std::size_t>(guess)];
    }
    rows.push_back(row);
  }
  return rows;
}

Json per_class_of(const Json& confusion, const std::vector<std::string>& names) {
  Json rows = Json::array();
  for (std::size_t c = 0; c < names.size(); ++c) {
    double predicted = 0, support = 0;
    for (std::size_t o = 0; o < names.size(); ++o) {
      predicted += confusion[o][c].get<double>();
      support += confusion[c][o].get<double>();
    }
    const double hits = confusion[c][c].get<double>(), recall = hits / support;
    Json row{{"label", names[c]}, {"recall", recall}, {"support", support}};
    row["precision"] = predicted > 0 ? Json(hits / predicted) : Json();
    row["f1"] = 2 * hits / (predicted + support);
    rows.push_back(row);
  }
  return rows;
}

std::string metrics_of(const Fabricated& run, Stream& random) {
  std::string lines;
  const auto add = [&](Index epoch, const char* split, double loss, double accuracy) {
    lines += Json{{"epoch", epoch},
                  {"step", 50 * epoch},
                  {"split", split},
                  {"loss", loss},
                  {"accuracy", accuracy},
                  {"lr", 1e-3},
                  {"seconds", 3.1 * run.cost * static_cast<double>(epoch)}}
                 .dump() +
             "\n";
  };
  add(0, "validation", 2.3, 1.0 / static_cast<double>(run.classes));
  for (Index e = 1; e <= run.epochs; ++e) {
    const double t = 1 - std::exp(-0.28 / run.cost * static_cast<double>(e));
    const double held = std::min(1.0, run.accuracy * t + 0.006 * random.normal());
    add(e, "train", 2.3 * (1 - 0.93 * t) + 0.02 * random.uniform(), std::min(1.0, (run.accuracy + 0.08) * t));
    add(e, "validation", 2.3 * (1 - 0.85 * t) + 0.015 * static_cast<double>(e) + 0.03 * random.uniform(), held);
    if (run.protocol == "paper") add(e, "test", 2.3 * (1 - 0.84 * t), held - 0.004);
  }
  return lines;
}

}  // namespace

void fabricate(const std::filesystem::path& folder, const Fabricated& run) {
  std::filesystem::create_directories(folder);
  Stream random(static_cast<std::uint64_t>(run.seed), run.data + run.attention[0] + run.protocol);
  const std::string written = run.attention[0];
  io::write_atomically(folder / "config.toml",
                       fmt::format("[data]\nname = '{}'\nprotocol = '{}'\n[model]\nname = 'vit'\nattention = '{}'\n"
                                   "[train]\nseed = {}\n",
                                   run.data, run.protocol, written, run.seed));
  io::write_atomically(folder / "env.json",
                       Json{{"schema", "saddle.env/1"},
                            {"version", "0.1.0"},
                            {"revision", "0123abc"},
                            {"cpu", "Example CPU"},
                            {"isa", "avx512"},
                            {"threads", 2},
                            {"torch", "1.13.1"},
                            {"started", "2024-05-01T10:00:00Z"},
                            {"command", fmt::format("saddle train --attention '{}' --seed {}", written, run.seed)},
                            {"data_checksum", "9f86d081884c7d65"}}
                           .dump());
  io::write_atomically(folder / "metrics.jsonl", metrics_of(run, random) + (run.finished ? "" : "{\"epoch\":9,\"sp"));
  if (!run.finished) return;

  const double accuracy = run.accuracy + 0.008 * random.normal();
  const std::vector<std::string> names = class_names(run);
  const Json confusion = confusion_of(run, accuracy, random);
  Json distances = Json::object();
  for (const char* split : {"train", "test"})
    for (Index l = 0; l < run.layers; ++l)
      distances[split].push_back({{"layer", l},
                                  {"mean", 4 + (run.factors.empty() ? 0.0 : 1.5) + 0.8 * static_cast<double>(l) +
                                               (split[1] == 'e' ? 0.2 : 0) + 0.1 * random.normal()},
                                  {"std", 0.6 + 0.1 * random.uniform()}});
  Json result{{"schema", "saddle.result/1"},
              {"data",
               {{"name", run.data},
                {"kind", run.kind},
                {"classes", names},
                {"train", 4800},
                {"validation", 1200},
                {"test", 100 * run.classes},
                {"channels", run.kind == "series" ? 3 : 1},
                {"length", 50}}},
              {"attention", run.attention},
              {"model", run.kind == "image" ? "vit" : "flowformer"},
              {"options", {{"width", 64}, {"layers", run.layers}, {"heads", run.heads}}},
              {"seed", run.seed},
              {"protocol", run.protocol},
              {"epochs", run.epochs},
              {"best_epoch", run.epochs - 2},
              {"stopped", "epochs"},
              {"validation", {{"accuracy", accuracy + 0.004}, {"loss", 0.41}}},
              {"test",
               {{"accuracy", accuracy},
                {"loss", 0.43},
                {"count", 100 * run.classes},
                {"confusion", confusion},
                {"per_class", per_class_of(confusion, names)}}},
              {"last", {{"accuracy", accuracy - 0.01}, {"loss", 0.46}}},
              {"parameters", 121034},
              {"multiply_adds", static_cast<Index>(5.2e6 * run.cost)},
              {"train_seconds", 37.2 * run.cost + random.uniform()},
              {"train_samples_per_second", 1600 / run.cost + 20 * random.uniform()},
              {"inference_samples_per_second", 5200 / run.cost + 60 * random.uniform()},
              {"peak_memory_bytes", static_cast<Index>(3.1e8 * (0.5 + 0.5 * run.cost))},
              {"threads", 2},
              {"precision", "float32"},
              {"head_distance", distances}};
  if (run.protocol == "paper") result.erase("validation");
  io::write_atomically(folder / "inspect.json", inspect_of(run, random).dump());
  io::write_atomically(folder / "result.json", result.dump());
}

void fabricate_comparison(const std::filesystem::path& folder) {
  struct Candidate {
    const char *name, *image, *sequence;
    std::vector<Index> factors;
    double gain, cost;
  };
  const std::vector<Candidate> candidates{
      {"softmax", "softmax", "softmax", {}, 0, 1},
      {"bn", "softmax+bn(beta=0.6)", "softmax+bn(beta=0.6)", {}, 0.012, 1.08},
      {"sh", "softmax+sh(pool=2d,prefix=1)", "softmax+sh(1,1,2,2)", {1, 1, 2, 2}, 0.004, 0.81},
      {"bn_sh",
       "softmax+bn(beta=0.6)+sh(pool=2d,prefix=1)",
       "softmax+bn(beta=0.6)+sh(1,1,2,2)",
       {1, 1, 2, 2},
       0.015,
       0.86}};
  for (const Candidate& candidate : candidates)
    for (Index seed = 0; seed < 3; ++seed) {
      Fabricated run;
      run.seed = seed;
      run.factors = candidate.factors;
      run.cost = candidate.cost;
      const std::string name = fmt::format("{}-{}", candidate.name, seed);
      run.attention.assign(4, candidate.image);
      run.accuracy = 0.87 + candidate.gain;
      fabricate(folder / "images" / name, run);
      run.data = "Vowels", run.kind = "series", run.classes = 5, run.layers = 2, run.epochs = 30;
      run.attention.assign(2, candidate.sequence);
      run.accuracy = 0.93 + candidate.gain;
      fabricate(folder / "series" / name, run);
      run.data = "ListOps", run.kind = "tokens", run.classes = 10, run.samples = 3;
      run.accuracy = 0.37 + candidate.gain;
      fabricate(folder / "tokens" / name, run);
    }
  Fabricated other;
  other.attention.assign(4, "softmax");
  other.protocol = "paper";
  fabricate(folder / "images" / "softmax-paper", other);
  other.protocol = "honest", other.finished = false, other.seed = 3, other.epochs = 7;
  fabricate(folder / "images" / "softmax-3", other);
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "saddle-report-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw IoError("cannot make a scratch folder");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace saddle::report
