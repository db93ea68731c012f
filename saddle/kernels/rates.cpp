#include "saddle/kernels/rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::kernels {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* schema = "saddle.rates/1";
constexpr double cautious = 0.6;

// The numbers of a calibration by name.
constexpr std::array<std::pair<const char*, double Rates::*>, 7> fields{{{"fma_f32", &Rates::fma_f32},
                                                                         {"fma_f64", &Rates::fma_f64},
                                                                         {"amx_bf16", &Rates::amx_bf16},
                                                                         {"exp_f32", &Rates::exp_f32},
                                                                         {"exp_f64", &Rates::exp_f64},
                                                                         {"bandwidth", &Rates::bandwidth},
                                                                         {"bandwidth_all", &Rates::bandwidth_all}}};

double positive(const Json& value, const std::string& name, bool or_zero) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!std::isfinite(number) || number < 0 || (number == 0 && !or_zero))
    throw InvalidArgument(fmt::format("'{}' must be a positive number", name));
  return number;
}

// FNV-1a: the same in every build.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string folder = variable("SADDLE_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder + "/saddle";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/saddle";
  return "";
}

Rates load(Isa isa) {
  const std::string file = rates_file(isa);
  std::ifstream in(file, std::ios::binary);
  if (file.empty() || !in) return default_rates(isa);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    return parse_rates(text);
  } catch (const InvalidArgument& error) {
    log_once("rates " + file, LogLevel::warn,
             fmt::format("the calibration {} is not used: {}; renew it with 'saddle bench --calibrate'", file,
                         error.what()));
    return default_rates(isa);
  }
}

}  // namespace

double Rates::seconds(const Work& work) const {
  const double threads = work.threads > 0 ? work.threads : saddle::threads();
  const bool wide = work.dtype == DType::f64, tiles = work.implementation == "amx" && amx_bf16 > 0;
  const double products = work.multiply_adds / (wide ? fma_f64 : tiles ? amx_bf16 : fma_f32);
  const double exponentials = work.exps / (wide ? exp_f64 : exp_f32);
  const double arithmetic =
      (products + exponentials) / (threads * efficiency_of(work.implementation, work.dtype, work.backward));
  return std::max(arithmetic, work.bytes / std::min(threads * bandwidth, std::max(bandwidth, bandwidth_all)));
}

double Rates::efficiency_of(std::string_view implementation, DType dtype, bool backward) const {
  for (const std::string& key :
       {efficiency_key(implementation, dtype, backward), efficiency_key(implementation, dtype, false),
        efficiency_key(implementation, DType::f32, false)})
    if (const auto found = efficiency.find(key); found != efficiency.end()) return found->second;
  return cautious;
}

std::string efficiency_key(std::string_view implementation, DType dtype, bool backward) {
  return fmt::format("{} {} {}", implementation, to_string(dtype), backward ? "backward" : "forward");
}

const Rates& rates() {
  // One per instruction set: tests change SADDLE_MAX_ISA within a process.
  static std::array<Rates, 4> known;
  static std::array<std::once_flag, 4> loaded;
  const Isa isa = best_isa();
  const auto i = static_cast<std::size_t>(isa);
  std::call_once(loaded[i], [&] { known[i] = load(isa); });
  return known[i];
}

Rates default_rates(Isa isa) {
  Rates r;
  r.bandwidth = 12e9;
  r.bandwidth_all = 24e9;
  switch (isa) {
    case Isa::scalar: r.fma_f32 = r.fma_f64 = 3e9, r.exp_f32 = r.exp_f64 = 2e8; break;
    case Isa::avx2: r.fma_f32 = 45e9, r.fma_f64 = 22e9, r.exp_f32 = 2.5e9, r.exp_f64 = 0.6e9; break;
    case Isa::amx: r.amx_bf16 = 1100e9; [[fallthrough]];
    case Isa::avx512: r.fma_f32 = 75e9, r.fma_f64 = 37e9, r.exp_f32 = 5e9, r.exp_f64 = 1.2e9; break;
  }
  return r;
}

std::string rates_file(Isa isa) {
  const std::string folder = cache_folder();
  if (folder.empty()) return "";
  return fmt::format("{}/rates-{:016x}-{}.json", folder, hash(cpu().vendor + cpu().brand), to_string(isa));
}

std::string to_json(const Rates& rates) {
  Json document{{"schema", schema}};
  for (const auto& [name, member] : fields) document[name] = rates.*member;
  document["efficiency"] = Json::object();
  for (const auto& [name, share] : rates.efficiency) document["efficiency"][name] = share;
  return document.dump(2) + "\n";
}

Rates parse_rates(std::string_view text) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) throw InvalidArgument("it is not a JSON object");
  if (document.value("schema", Json()) != schema) throw InvalidArgument(fmt::format("its schema is not {}", schema));
  Rates rates;
  for (const auto& [name, member] : fields)
    rates.*member = positive(document.value(name, Json()), name, member == &Rates::amx_bf16);
  const Json shares = document.value("efficiency", Json::object());
  if (!shares.is_object()) throw InvalidArgument("'efficiency' must be an object");
  for (const auto& [name, share] : shares.items()) rates.efficiency[name] = positive(share, name, false);
  rates.calibrated = true;
  return rates;
}

}  // namespace saddle::kernels
