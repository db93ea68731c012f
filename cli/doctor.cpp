// saddle doctor: what this installation is, what it runs on, and whether it computes correctly.
#include <fmt/core.h>
#include <fmt/format.h>
#include <toml++/impl/version.h>
#include <CLI/Version.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/kernels/rates.hpp"
#include "saddle/version.hpp"
#include "self_check.hpp"

namespace saddle::cli {

namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

struct Isas {
  Isa machine = Isa::scalar, used = Isa::scalar;
  std::string limit;    // SADDLE_MAX_ISA
  std::string problem;  // it cannot be read
};

Isas isas() {
  Isas result;
  const Cpu& c = cpu();
  if (c.avx2) result.machine = Isa::avx2;
  if (c.avx512) result.machine = Isa::avx512;
  if (c.avx512 && c.amx_bf16 && amx_permitted()) result.machine = Isa::amx;
  if (const char* limit = std::getenv("SADDLE_MAX_ISA")) result.limit = limit;
  try {
    result.used = best_isa();
  } catch (const InvalidArgument& error) {
    result.problem = error.what();
  }
  return result;
}

std::string amx_text() {
  if (!cpu().amx_bf16) return "not present";
  return amx_permitted() ? "permitted" : "present, but the kernel does not permit it";
}

// Where predicted times come from.
std::string rates_text(const Isas& isa) {
  if (!isa.problem.empty()) return "unknown";
  const std::string file = kernels::rates_file(isa.used);
  if (kernels::rates().calibrated) return "calibrated on this machine, " + file;
  std::error_code ignored;
  const bool there = !file.empty() && std::filesystem::exists(file, ignored);
  return fmt::format("typical values of the ISA{}; 'saddle bench --calibrate' measures them",
                     there ? ", for " + file + " cannot be used" : "");
}

Json dependencies() {
  return {{"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"toml++", fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH)},
          {"CLI11", CLI11_VERSION}};
}

std::vector<std::string> hints(const Isas& isa, const std::vector<SelfCheck>& tests) {
  std::vector<std::string> list;
  if (!isa.problem.empty()) list.push_back(isa.problem);
  if (isa.problem.empty() && isa.used < isa.machine)
    list.push_back(fmt::format("SADDLE_MAX_ISA={} lowers the instruction set; unset it for full speed", isa.limit));
  if (threads() < cpu().cores)
    list.push_back(fmt::format("{} of {} cores are used; see OMP_NUM_THREADS and --threads", threads(), cpu().cores));
  if (cpu().amx_bf16 && !amx_permitted())
    list.emplace_back("AMX needs Linux 5.16 or newer, and a container that allows it");
#ifndef NDEBUG
  list.emplace_back("this is not an optimised build; configure with CMAKE_BUILD_TYPE=Release for speed");
#endif
  for (const SelfCheck& test : tests)
    if (!test.passed) list.push_back(fmt::format("{}: {}", test.name, test.hint));
  return list;
}

void print_text(const Isas& isa, const std::vector<SelfCheck>& tests, const std::vector<std::string>& advice) {
  const Cpu& c = cpu();
  const auto cache = [](Index bytes) {
    return bytes > 0 ? fmt::format("{} kB", bytes / 1024) : std::string("unknown");
  };
  std::string text;
  const auto fact = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<14}{}\n", name, value);
  };
  text += bold("saddle") + "\n";
  fact("version", version());
  fact("compiler", compiler());
  std::string used;
  const Json parts = dependencies();
  for (const auto& [name, number] : parts.items())
    used += (used.empty() ? "" : ", ") + name + " " + number.get<std::string>();
  fact("built with", used);
  text += bold("machine") + "\n";
  fact("CPU", c.brand.empty() ? "unknown" : c.brand);
  fact("cores", fmt::format("{}, {} threads in use", c.cores, threads()));
  fact("caches", fmt::format("L1 {}, L2 {}, L3 {}", cache(c.l1), cache(c.l2), cache(c.l3)));
  fact("ISA", fmt::format("{} available, {} in use{}", to_string(isa.machine), to_string(isa.used),
                          isa.limit.empty() ? "" : fmt::format(" (SADDLE_MAX_ISA={})", isa.limit)));
  fact("AMX", amx_text());
  fact("rates", rates_text(isa));
  text += bold("self test") + "\n";
  for (const SelfCheck& test : tests)
    text += fmt::format("  {}  {}{}\n", test.passed ? green("ok  ") : red("fail"), test.name,
                        test.detail.empty() ? "" : fmt::format(" ({})", test.detail));
  if (!advice.empty()) text += bold("hints") + "\n";
  for (const std::string& hint : advice) text += wrap(hint, 2);
  print(text);
}

int doctor(const Context& context) {
  const Isas isa = isas();
  // Which implementation runs is not the question here.
  if (!context.verbose) set_log_level(LogLevel::error);
  const std::vector<SelfCheck> tests = self_checks();
  const std::vector<std::string> advice = hints(isa, tests);
  bool sound = isa.problem.empty();
  for (const SelfCheck& test : tests) sound &= test.passed;
  if (context.json) {
    const Cpu& c = cpu();
    Json results = Json::array();
    for (const SelfCheck& test : tests)
      results.push_back({{"name", test.name}, {"passed", test.passed}, {"detail", test.detail}});
    print_json(
        "saddle.doctor/1",
        {{"version", version()},
         {"compiler", compiler()},
         {"dependencies", dependencies()},
         {"cpu",
          {{"vendor", c.vendor}, {"brand", c.brand}, {"cores", c.cores}, {"l1", c.l1}, {"l2", c.l2}, {"l3", c.l3}}},
         {"threads", threads()},
         {"isa", {{"available", to_string(isa.machine)}, {"used", to_string(isa.used)}, {"limit", isa.limit}}},
         {"amx", amx_text()},
         {"calibrated", isa.problem.empty() && kernels::rates().calibrated},
         {"self_tests", results},
         {"hints", advice},
         {"ok", sound}});
  } else {
    print_text(isa, tests, advice);
  }
  return sound ? Exit::ok : Exit::failed;
}

}  // namespace

Command doctor_command() {
  return {"doctor",
          "Show version, machine and instruction sets, and check that this installation computes correctly.",
          {{"look at this installation", "saddle doctor"},
           {"the same without AVX-512", "SADDLE_MAX_ISA=avx2 saddle doctor"},
           {"for a bug report", "saddle doctor --json"}},
          {},
          [](const Context& context) { return doctor(context); }};
}

}  // namespace saddle::cli
