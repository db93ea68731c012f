#include "launch.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "command.hpp"
#include "output.hpp"
#include "program.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

std::atomic<int> pending_signal{0};

void remember(int signal) { pending_signal = signal; }

// A port that is free now on the loopback device.
int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      descriptor >= 0 && ::bind(descriptor, general, size) == 0 && ::getsockname(descriptor, general, &size) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!bound) throw IoError(fmt::format("no port for the workers: {}", std::strerror(error)));
  return ntohs(address.sin_port);
}

pid_t start(Index rank, Index workers, int port, std::vector<std::string> words) {
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw IoError(fmt::format("cannot start worker {}: {}", rank, std::strerror(errno)));
  if (process > 0) return process;
  // A launcher that is killed takes its workers with it; they stop with a checkpoint.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(Exit::failed);
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(workers).c_str(), 1);
  ::setenv("LOCAL_WORLD_SIZE", std::to_string(workers).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv("/proc/self/exe", pointers.data());
  ::_exit(Exit::failed);
}

}  // namespace

bool is_worker() { return std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr; }

Index local_workers() {
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  return text == nullptr ? 1 : std::max<Index>(1, std::atoll(text));
}

double worker_timeout() {
  const char* text = std::getenv("SADDLE_WORKER_TIMEOUT");
  const auto value = text == nullptr ? std::optional<double>(60) : parse_number(text);
  if (!value || *value < 1 || *value > 86400)
    throw InvalidArgument(fmt::format("SADDLE_WORKER_TIMEOUT takes 1 to 86400 seconds, found '{}'", text));
  return *value;
}

int launch(Index workers) {
  using Clock = std::chrono::steady_clock;
  const int port = free_port();
  const std::vector<std::string> words = own_words();
  struct sigaction action {};
  action.sa_handler = remember;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::vector<pid_t> running;
  for (Index rank = 0; rank < workers; ++rank) running.push_back(start(rank, workers, port, words));
  int code = Exit::ok;
  Clock::time_point limit = Clock::time_point::max();
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      std::erase(running, ended);
      const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (own != Exit::ok && code == Exit::ok) {
        const bool asked = WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM);
        code = WIFEXITED(status) ? own : asked ? Exit::interrupted : Exit::failed;
        if (WIFSIGNALED(status))
          print_message(fmt::format("saddle: a worker was killed by signal {} ({})\n", WTERMSIG(status),
                                    ::strsignal(WTERMSIG(status))));
        limit = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(worker_timeout() + 10));
      }
      continue;
    }
    // A terminal has sent Ctrl-C to all of them already; a signal to the launcher alone goes on to them.
    if (const int signal = pending_signal.exchange(0);
        signal != 0 && (signal == SIGTERM || ::isatty(STDIN_FILENO) == 0))
      for (const pid_t process : running) ::kill(process, signal);
    if (Clock::now() > limit) {
      for (const pid_t process : running) ::kill(process, SIGKILL);
      limit = Clock::time_point::max();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return code;
}

}  // namespace saddle::cli
