#include "run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"

namespace saddle::bench {

namespace {

constexpr double set_up_time = 180;  // seconds a peer may take to set up

std::string name_of(const Problem& problem) {
  std::string name(problem.forward()->name());
  if (problem.backward() != nullptr && problem.backward() != problem.forward())
    name += "/" + std::string(problem.backward()->name());
  return name;
}

// Own rows with their tensors, first the entry itself.
struct Own {
  OwnResult result;
  std::unique_ptr<Problem> problem;
};

Own prepare(const Row& row, const RunOptions& options) {
  Own own;
  own.result.row = row;
  options.progress("checking " + to_string(row));
  own.problem = std::make_unique<Problem>(row);
  if (own.problem->forward() == nullptr || (row.pass == Pass::training && own.problem->backward() == nullptr)) {
    own.result.refused = "no implementation accepts it";
    own.result.check.passed = false;
    return own;
  }
  own.result.implementation = name_of(*own.problem);
  own.result.isa = saddle::to_string(own.problem->forward()->isa());
  own.result.reference = own.problem->forward()->is_reference();
  own.result.check = check(*own.problem);
  if (own.result.check.passed) own.result.memory = extra_memory([&] { own.problem->run(); });
  return own;
}

double peer_tolerance(DType dtype) { return dtype == DType::bf16 ? 5e-2 : 1e-3; }

// Sets up a peer for the row; throws IoError with the reason when it cannot take part.
std::unique_ptr<Contender> invite(std::shared_ptr<Child> child, const std::string& name, bool as_installed,
                                  const Problem& problem, const SharedInputs& inputs) {
  Json request = inputs.request();
  request["peer"] = name;
  const Json answer = child->ask(request, set_up_time);
  if (!answer.value("ok", false)) throw IoError(answer.value("reason", "it refuses"));
  if (answer.value("compare", false)) {
    const double error = output_error(problem, inputs.output().data());
    if (!(error <= peer_tolerance(problem.row().dtype)))
      throw IoError(fmt::format("its output differs from ours by {:.1e}", error));
  }
  return std::make_unique<RemoteContender>(std::move(child), as_installed ? as_installed_manners : Manners{});
}

void add_peers(Result& result, const Problem& problem, const RunOptions& options, std::vector<Seat>& seats) {
  const auto add = [&](const std::string& name, bool as_installed) {
    result.peers.push_back({name, as_installed, {}, ""});
  };
  if (!options.base.empty()) add("base", false);
  if (options.peers != nullptr)
    for (const std::string& name : result.entry.peers) {
      add(name, false);
      if (name == "torch") add(name, true);
    }
  if (result.peers.empty()) return;
  const SharedInputs inputs(problem);
  for (PeerResult& peer : result.peers) {
    options.progress(fmt::format("setting up {} for {}", peer.name, to_string(problem.row())));
    Seat seat;
    seat.done = [&peer](const Timing& timing) { peer.timing = timing; };
    seat.failed = [&peer](const std::string& reason) { peer.reason = reason; };
    try {
      auto child = peer.name == "base" ? start_saddle(options.base)
                                       : options.peers->start(peer.name, peer.as_installed, problem.row());
      seat.contender = invite(std::move(child), peer.name, peer.as_installed, problem, inputs);
    } catch (const Error& error) {
      seat.failed(error.what());
    }
    seats.push_back(std::move(seat));
  }
}

const OwnResult* find_other(const Result& result, const Row& row) {
  for (const OwnResult& other : result.others)
    if (other.row == row) return &other;
  return nullptr;
}

void judge(Result& result, const Limits& limits) {
  const auto& own = result.own;
  for (const Bar& bar : result.entry.bars) {
    BarResult judged{bar, {}, {}, own.timing ? "" : "our row is red", Verdict::not_measured};
    bool red = !own.timing;
    const auto seconds = [&] { return own.timing->best; };
    switch (bar.kind) {
      case Bar::Kind::share: {
        const double limit = bar.of == "amx"               ? limits.amx_bf16
                             : own.row.dtype == DType::f64 ? limits.fma_f64
                                                           : limits.fma_f32;
        if (limit == 0)
          judged.reason = "this machine, or the instruction set in use, has no AMX";
        else if (own.timing)
          judged.value = result.gflops / limit;
        break;
      }
      case Bar::Kind::peer:
        for (const PeerResult& peer : result.peers) {
          if (peer.name != bar.of) continue;
          if (!peer.timing) {
            if (!peer.as_installed && judged.reason.empty()) judged.reason = peer.reason;
          } else if (own.timing) {
            (peer.as_installed ? judged.as_installed : judged.value) = peer.timing->best / seconds();
          }
        }
        if (!judged.value && judged.reason.empty()) judged.reason = "peers were not asked";
        break;
      case Bar::Kind::faster:
      case Bar::Kind::slower: {
        const OwnResult* other = find_other(result, bar.other);
        if (other == nullptr || !other->timing) {
          judged.reason = "the row it is compared with is red";
          red = true;
        } else if (own.timing) {
          const double ratio = other->timing->best / seconds();
          judged.value = bar.kind == Bar::Kind::faster ? ratio : 1 / ratio;
        }
        break;
      }
      case Bar::Kind::peer_memory: break;  // of models only
      case Bar::Kind::memory:
        if (own.memory >= 0)
          judged.value = own.memory;
        else if (judged.reason.empty())
          judged.reason = "the peak of resident memory is not known here";
        break;
    }
    if (judged.value)
      judged.verdict = bar.reached(*judged.value) ? Verdict::reached : Verdict::missed;
    else if (red)
      judged.verdict = Verdict::missed;
    result.bars.push_back(std::move(judged));
  }
}

void rate(Result& result, const Limits& limits) {
  const OwnResult& own = result.own;
  if (!own.timing) return;
  result.gflops = flops(own.row) / own.timing->best * 1e-9;
  const bool tiles = own.row.dtype == DType::bf16 && limits.amx_bf16 > 0;
  const double limit = tiles ? limits.amx_bf16 : own.row.dtype == DType::f64 ? limits.fma_f64 : limits.fma_f32;
  if (limit <= 0) return;
  result.limit = tiles ? "AMX ceiling" : "FMA peak";
  result.share = result.gflops / limit;
}

// One run in a process of its own, after a check on a shape that can be checked.
void run_once(Result& result, const RunOptions& options) {
  OwnResult& own = result.own;
  own.row = result.entry.row;
  Row small = own.row;
  small.dims.N = std::min<Index>(small.dims.N, 512);
  small.dims.M = std::min<Index>(small.dims.M, 512);
  own.check = prepare(small, options).result.check;
  own.check.what += fmt::format(" at {}; the long row itself is run once, not compared", shape_text(small.dims));
  if (!own.check.passed) return;
  options.progress("running once: " + to_string(own.row));
  const Dims& d = own.row.dims;
  constexpr double long_enough = 3600;
  const Json answer = start_saddle(options.self)
                          ->ask({{"op", "setup"},
                                 {"attention", own.row.attention},
                                 {"shape", {d.B, d.H, d.N, d.M, d.D, d.E}},
                                 {"dtype", saddle::to_string(own.row.dtype)},
                                 {"pass", to_string(own.row.pass)},
                                 {"layout", to_string(own.row.layout)},
                                 {"threads", own.row.threads}},
                                long_enough);
  if (!answer.value("ok", false)) throw IoError(answer.value("reason", "it does not run"));
  own.implementation = answer.value("implementation", "");
  own.isa = answer.value("isa", "");
  own.memory = answer.value("memory", -1.0);
  const double seconds = answer.value("seconds", 0.0);
  own.timing = Timing{seconds, seconds, 1};
}

}  // namespace

std::string to_string(Verdict verdict) {
  return verdict == Verdict::reached ? "reached" : verdict == Verdict::missed ? "missed" : "not measured";
}

bool Result::passed() const {
  if (!own.check.passed || !own.refused.empty()) return false;
  for (const OwnResult& other : others)
    if (!other.check.passed) return false;
  for (const BarResult& bar : bars)
    if (bar.verdict == Verdict::missed) return false;
  return true;
}

Limits limits_for(const std::vector<Limits>& limits, int threads, int cores) {
  Limits best;
  for (const Limits& candidate : limits)
    if (candidate.threads <= threads && candidate.threads >= best.threads) best = candidate;
  const double factor = std::max(1.0, static_cast<double>(std::min(threads, cores)) / best.threads);
  for (double* value : {&best.fma_f32, &best.fma_f64, &best.fma_avx2, &best.amx_bf16, &best.exp_f32, &best.exp_f64})
    *value *= factor;
  best.threads = threads;
  return best;
}

Result run_entry(const Entry& entry, const RunOptions& options) {
  Result result;
  result.entry = entry;
  if (entry.once) {
    try {
      run_once(result, options);
    } catch (const std::exception& error) {  // its own row is lost, the others are not
      result.own.refused = error.what();
    }
  } else {
    std::vector<Own> own;
    own.push_back(prepare(entry.row, options));
    for (const Bar& bar : entry.bars)
      if (bar.kind == Bar::Kind::faster || bar.kind == Bar::Kind::slower)
        if (std::none_of(own.begin(), own.end(), [&](const Own& o) { return o.result.row == bar.other; }))
          own.push_back(prepare(bar.other, options));
    std::vector<Seat> seats;
    for (Own& one : own) {
      if (!one.result.check.passed) continue;
      Seat seat;
      seat.contender = std::make_unique<OwnContender>(*one.problem);
      seat.done = [&one](const Timing& timing) { one.result.timing = timing; };
      seat.failed = [&one](const std::string& reason) { one.result.refused = reason; };
      seats.push_back(std::move(seat));
    }
    result.own = own.front().result;
    if (result.own.check.passed) {
      add_peers(result, *own.front().problem, options, seats);
      options.progress("timing " + to_string(entry.row));
      interleave(seats, options.rounds);
    }
    result.own = own.front().result;
    for (std::size_t i = 1; i < own.size(); ++i) result.others.push_back(own[i].result);
  }
  return result;
}

void conclude(Result& result, const std::vector<Limits>& limits) {
  const Limits here = limits_for(limits, result.entry.row.threads, cpu().cores);
  result.bars.clear();
  rate(result, here);
  judge(result, here);
}

}  // namespace saddle::bench
