#include "model_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::bench {

namespace {

constexpr double set_up_time = 300;  // seconds for the first steps

// Sums in another order, and in bf16 roundings at other places, through all layers and back.
double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 5e-2 : 1e-4; }

Manners manners_of(Side side) {
  if (side == Side::torch_as_installed) return as_installed_manners;
  Manners manners;
  if (side == Side::torch_spinning) manners.settling = 0.1;
  return manners;
}

const char* name_of(Side side) {
  return side == Side::torch_spinning       ? "torch with spinning threads"
         : side == Side::torch_as_installed ? "torch as installed"
                                            : "torch";
}

Json set_up(Child& child, const ModelRow& row, const SharedFolder& folder) {
  const Json answer = child.ask({{"op", "setup"},
                                 {"shape", {row.B, row.N, row.width, row.heads, row.layers}},
                                 {"dtype", saddle::to_string(row.dtype)},
                                 {"threads", row.threads},
                                 {"folder", folder.path()}},
                                set_up_time);
  if (!answer.value("ok", false)) throw IoError(answer.value("reason", "it refuses"));
  return answer;
}

// A number that is not finite has no place in JSON and comes as null.
double disagreement(const Json& answer) {
  const auto found = answer.find("disagreement");
  return found != answer.end() && found->is_number() ? found->get<double>() : INFINITY;
}

class ModelRun {
 public:
  ModelRun(ModelResult& result, const RunOptions& options, const StartSide& start)
      : result_(result), options_(options), start_(start) {}

  void run() {
    if (!join_own() || !join_torch(Side::torch, result_.torch)) return;
    if (result_.entry.row.dtype == DType::bf16) join_torch(Side::torch_spinning, result_.spinning);
    join_torch(Side::torch_as_installed, result_.as_installed);
    if (result_.red) return;
    options_.progress("timing " + to_string(result_.entry.row));
    interleave(seats_, options_.rounds);
  }

 private:
  void take_seat(Side side, std::shared_ptr<Child> child, SideResult& to) {
    Seat seat;
    seat.contender = std::make_unique<RemoteContender>(std::move(child), manners_of(side));
    seat.done = [&to](const Timing& timing) { to.timing = timing; };
    seat.failed = [this, side, &to](const std::string& reason) {
      to.reason = reason;
      result_.red |= side == Side::own;
    };
    seats_.push_back(std::move(seat));
  }

  // Absent is not measured; present and failing is red.
  bool join_own() {
    const ModelRow& row = result_.entry.row;
    options_.progress("setting up " + to_string(row));
    std::shared_ptr<Child> child;
    try {
      child = start_(Side::own, row);
    } catch (const Error& error) {
      result_.unmeasured = result_.own.reason = error.what();
      return false;
    }
    try {
      result_.own.memory = set_up(*child, row, folder_).value("memory", -1.0);
    } catch (const Error& error) {
      result_.own.reason = error.what();
      result_.red = true;
      return false;
    }
    take_seat(Side::own, std::move(child), result_.own);
    return true;
  }

  // Without torch there is nothing to compare our steps with.
  bool join_torch(Side side, SideResult& to) {
    const ModelRow& row = result_.entry.row;
    options_.progress(fmt::format("setting up {} for {}", name_of(side), to_string(row)));
    try {
      std::shared_ptr<Child> child = start_(side, row);
      const Json answer = set_up(*child, row, folder_);
      to.memory = answer.value("memory", -1.0);
      result_.check.error = std::max(result_.check.error, disagreement(answer));
      result_.check.passed = result_.check.error <= result_.check.tolerance;
      if (!result_.check.passed) {
        result_.own.reason = "its steps differ from those of torch";
        result_.red = true;
      }
      take_seat(side, std::move(child), to);
      return true;
    } catch (const Error& error) {
      to.reason = error.what();
      if (side == Side::torch) result_.unmeasured = "torch: " + to.reason;
      return false;
    }
  }

  ModelResult& result_;
  const RunOptions& options_;
  const StartSide& start_;
  const SharedFolder folder_;
  std::vector<Seat> seats_;
};

BarResult judge(const Bar& bar, const ModelResult& result) {
  BarResult judged{bar, {}, {}, result.unmeasured, Verdict::not_measured};
  if (result.red) {
    judged.reason = "our row is red";
    judged.verdict = Verdict::missed;
    return judged;
  }
  if (bar.kind == Bar::Kind::peer) {
    judged.value = result.ratio(result.torch);
    judged.as_installed = result.ratio(result.as_installed);
    if (!judged.value && judged.reason.empty()) judged.reason = "torch: " + result.torch.reason;
  } else if (result.own.memory >= 0 && result.torch_memory() > 0) {
    judged.value = result.own.memory / result.torch_memory();
  } else if (judged.reason.empty()) {
    judged.reason = "the peak of resident memory is not known here";
  }
  if (judged.value) judged.verdict = bar.reached(*judged.value) ? Verdict::reached : Verdict::missed;
  return judged;
}

}  // namespace

std::optional<double> ModelResult::ratio(const SideResult& peer) const {
  if (!own.timing || !peer.timing) return std::nullopt;
  return peer.timing->best / own.timing->best;
}

double ModelResult::torch_memory() const {
  double least = -1;
  for (const SideResult* side : {&torch, &spinning, &as_installed})
    if (side->memory >= 0 && (least < 0 || side->memory < least)) least = side->memory;
  return least;
}

bool ModelResult::passed() const {
  return !red &&
         std::none_of(bars.begin(), bars.end(), [](const BarResult& bar) { return bar.verdict == Verdict::missed; });
}

ModelResult run_model(const ModelEntry& entry, const RunOptions& options, const StartSide& start) {
  ModelResult result;
  result.entry = entry;
  result.check.tolerance = tolerance_of(entry.row.dtype);
  result.check.what = "gradients of the first step and losses of three, against torch";
  if (std::find(entry.peers.begin(), entry.peers.end(), "torch") == entry.peers.end()) {
    result.unmeasured = "torch was not asked";
  } else {
    ModelRun(result, options, start).run();
  }
  for (const Bar& bar : entry.bars) result.bars.push_back(judge(bar, result));
  return result;
}

}  // namespace saddle::bench
