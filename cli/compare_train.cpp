#include "compare_train.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "argument.hpp"
#include "command.hpp"
#include "compare_progress.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/run/layers.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The signals of a comparison are taken one by one from a queue, never in the middle of something.
class SignalQueue {
 public:
  SignalQueue() {
    sigemptyset(&wanted_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&wanted_, signal);
    pthread_sigmask(SIG_BLOCK, &wanted_, &before_);
  }
  ~SignalQueue() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  // The next signal, or 0 after half a second.
  int wait() const {
    const timespec most{0, 500'000'000};
    return std::max(0, sigtimedwait(&wanted_, nullptr, &most));
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t wanted_{}, before_{};
};

struct Running {
  std::size_t cell;
  pid_t process;
  bool resumed;
  std::streamoff log_start;  // what this try adds begins here
  Clock::time_point start;
};

std::vector<std::string> command_of(const Cell& cell, const Plan& plan, const TrainOptions& options) {
  std::vector<std::string> words{options.trainer, "train", "--data", cell.data};
  for (const std::string& layer : run::layers_of(cell.attention)) {
    words.emplace_back("--attention");
    words.push_back(layer);
  }
  words.insert(words.end(), {"--seed", std::to_string(cell.seed), "--out", cell.folder.string(), "--threads",
                             std::to_string(options.threads)});
  if (cell.resumable()) {
    words.emplace_back("--resume");
  } else if (fs::exists(cell.folder)) {
    words.emplace_back("--force");  // begun, but stopped before there was anything to keep
  }
  words.insert(words.end(), plan.options.begin(), plan.options.end());
  return words;
}

// Between fork and exec. Only calls that are safe there.
[[noreturn]] void become(char* const* words, int log, pid_t parent, const sigset_t& mask) {
  // A signal from the terminal reaches the comparison alone, which passes it on, once; without it the trainers end too.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGINT);
  if (getppid() != parent) _exit(128 + SIGINT);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv(words[0], words);
  const char* reason = strerrordesc_np(errno);
  for (const char* part : {"saddle: cannot start ", static_cast<const char*>(words[0]), ": ", reason, "\n"})
    static_cast<void>(!write(STDERR_FILENO, part, std::strlen(part)));
  _exit(127);
}

Running start(std::size_t index, const Plan& plan, const TrainOptions& options, const SignalQueue& signals) {
  const Cell& cell = plan.cells[index];
  std::vector<std::string> words = command_of(cell, plan, options);
  const bool resumed = cell.resumable();
  fs::create_directories(cell.folder.parent_path());
  const int log = open(cell.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) throw IoError(fmt::format("cannot write {}: {}", cell.log().string(), std::strerror(errno)));
  const std::string header = "$ " + join(words, " ") + "\n";
  static_cast<void>(!write(log, header.data(), header.size()));
  const auto end = static_cast<std::streamoff>(lseek(log, 0, SEEK_END));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) become(pointers.data(), log, parent, signals.before());
  const int problem = errno;
  close(log);
  if (process < 0) throw IoError(fmt::format("cannot start a process: {}", std::strerror(problem)));
  return {index, process, resumed, end, Clock::now()};
}

// The message of the trainer in the part of the log that it wrote, or its last line.
std::string last_words(const fs::path& log, std::streamoff from) {
  std::ifstream in(log, std::ios::binary);
  in.seekg(from);
  std::string message, last;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("hint: ")) continue;
    last = line.substr(line.find_last_of('\r') + 1);  // npos + 1 is 0
    if (last.starts_with("saddle: ")) message = last.substr(std::strlen("saddle: "));
  }
  return message.empty() ? last : message;
}

CellOutcome outcome_of(const Running& run, const Cell& cell, int status) {
  CellOutcome outcome;
  outcome.seconds = std::chrono::duration<double>(Clock::now() - run.start).count();
  const bool exited = WIFEXITED(status);
  if (exited && WEXITSTATUS(status) == 0 && cell.finished()) {
    outcome.state = run.resumed ? CellState::resumed : CellState::trained;
    return outcome;
  }
  if ((exited && WEXITSTATUS(status) == Exit::interrupted) || (!exited && WTERMSIG(status) == SIGINT)) return outcome;
  outcome.state = CellState::failed;
  const std::string said = last_words(cell.log(), run.log_start);
  const std::string how = !exited                    ? fmt::format("ended by signal {}", WTERMSIG(status))
                          : WEXITSTATUS(status) == 0 ? "ended without a result"
                                                     : fmt::format("exit code {}", WEXITSTATUS(status));
  outcome.problem = said.empty() ? how : fmt::format("{}: {}", how, said);
  return outcome;
}

}  // namespace

const char* to_string(CellState state) {
  switch (state) {
    case CellState::skipped: return "skipped";
    case CellState::trained: return "trained";
    case CellState::resumed: return "resumed";
    case CellState::failed: return "failed";
    case CellState::stopped: break;
  }
  return "stopped";
}

std::string trainer() {
  const char* other = std::getenv("SADDLE_TRAINER");
  if (other != nullptr && *other != '\0') return other;
  // Read once: when a new program is installed while this one runs, its place is no longer found that way.
  static const std::string own = fs::read_symlink("/proc/self/exe").string();
  return own;
}

TrainResult train_cells(const Plan& plan, const TrainOptions& options) {
  TrainResult result;
  result.outcomes.resize(plan.cells.size());
  CompareProgress progress(plan.cells.size(), options.quiet);
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (plan.cells[i].finished()) {
      result.outcomes[i].state = CellState::skipped;
      progress.end(plan.cells[i], result.outcomes[i]);
    } else {
      waiting.push_back(i);
    }
  }
  const SignalQueue signals;
  std::vector<Running> running;
  std::size_t next = 0;
  const Clock::time_point begin = Clock::now();
  const auto conclude = [&](std::size_t cell, CellOutcome outcome) {
    result.outcomes[cell] = std::move(outcome);
    progress.end(plan.cells[cell], result.outcomes[cell]);
  };
  const auto going_on = [&] { return next < waiting.size() && result.signal == 0 && !result.late; };
  while (!running.empty() || going_on()) {
    while (going_on() && running.size() < static_cast<std::size_t>(options.jobs)) {
      const std::size_t cell = waiting[next++];
      try {
        running.push_back(start(cell, plan, options, signals));
        progress.begin(plan.cells[cell], running.back().resumed);
      } catch (const std::exception& error) {
        conclude(cell, {CellState::failed, 0, error.what()});
      }
    }
    progress.draw(running.size());
    if (const int signal = signals.wait(); signal == SIGINT || signal == SIGTERM) {
      if (result.signal == 0) progress.say("stopping: waiting for the trainers to write their checkpoints");
      result.signal = signal;
      for (const Running& run : running) kill(run.process, SIGINT);
    }
    if (options.seconds > 0 && !result.late && Clock::now() - begin > std::chrono::duration<double>(options.seconds)) {
      progress.say("the time is over: waiting for the trainers to write their checkpoints");
      result.late = true;
      for (const Running& run : running) kill(run.process, SIGINT);
    }
    std::erase_if(running, [&](const Running& run) {
      int status = 0;
      if (waitpid(run.process, &status, WNOHANG) == 0) return false;
      conclude(run.cell, outcome_of(run, plan.cells[run.cell], status));
      return true;
    });
  }
  return result;
}

}  // namespace saddle::cli
