// Runs the entries of a suite: correctness first, then interleaved rounds of everybody who takes part.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "interleave.hpp"
#include "limits.hpp"
#include "suite.hpp"

namespace saddle::bench {

struct OwnResult {
  Row row;
  std::string implementation, isa;  // of the forward pass, and of the backward one where it differs
  bool reference = false;
  std::string refused;  // why nothing ran
  Check check;
  std::optional<Timing> timing;  // none when the check is red
  double memory = -1;            // bytes beyond inputs, outputs and gradients; -1: not known
};

struct PeerResult {
  std::string name;
  bool as_installed = false;
  std::optional<Timing> timing;
  std::string reason;  // why there is none
};

// not_measured: somebody or something it needs is absent here, which is no miss; a red row is one.
enum class Verdict { reached, missed, not_measured };
std::string to_string(Verdict verdict);

struct BarResult {
  Bar bar;
  std::optional<double> value;
  std::optional<double> as_installed;  // the same against the peer without our tuning
  std::string reason;                  // why there is no value
  Verdict verdict = Verdict::not_measured;
};

struct Result {
  Entry entry;
  OwnResult own;
  std::vector<OwnResult> others;  // rows that bars compare with
  std::vector<PeerResult> peers;  // and the other revision, named "base"
  std::vector<BarResult> bars;
  double gflops = 0;  // 1e9 operations per second by the usual count
  std::string limit;  // "FMA peak" or "AMX ceiling"; empty: unknown
  double share = 0;   // of that limit

  // No red check and no missed bar.
  bool passed() const;
};

struct RunOptions {
  Rounds rounds;           // for one entry
  Peers* peers = nullptr;  // null: nobody is asked
  std::string base;        // program of another revision; empty: none
  std::string self;        // this program, for rows in a process of their own
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Checks and times; conclude() turns that into rates and verdicts.
Result run_entry(const Entry& entry, const RunOptions& options);
void conclude(Result& result, const std::vector<Limits>& limits);

// The limits for this many threads; the nearest below, scaled, when that was not measured. More threads than cores
// compute no faster.
Limits limits_for(const std::vector<Limits>& limits, int threads, int cores);

}  // namespace saddle::bench
