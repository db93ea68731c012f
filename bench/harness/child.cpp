#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "statistics.hpp"

extern char** environ;

namespace saddle::bench {

namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// The environment of this process with some variables replaced.
std::vector<std::string> merged(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

// The last line that is not empty, where programs put the reason.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment) {
  std::array<int, 2> in{-1, -1}, out{-1, -1};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
    throw IoError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  errors_ = memfd_create("errors", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  if (errors_ >= 0) posix_spawn_file_actions_adddup2(&actions, errors_, STDERR_FILENO);
  std::vector<std::string> words = command, variables = merged(environment);
  const int problem = posix_spawnp(&process_, command.front().c_str(), &actions, nullptr, pointers(words).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (problem != 0) {
    process_ = -1;
    fail(fmt::format("cannot start {}: {}", command.front(), std::strerror(problem)));
  }
}

Child::~Child() {
  for (int descriptor : {to_, from_, errors_})
    if (descriptor >= 0) close(descriptor);
  if (process_ < 0) return;
  // A closed stdin asks it to go; it may be in the middle of something.
  for (int wait = 0; wait < 20; ++wait) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) return;
    usleep(5000);
  }
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Child::fail(const std::string& what) {
  usable_ = false;
  std::string said;
  int status = 0;
  if (process_ > 0 && waitpid(process_, &status, WNOHANG) == process_) {
    process_ = -1;
    if (WIFSIGNALED(status)) said = strsignal(WTERMSIG(status));
  }
  if (said.empty() && errors_ >= 0) {
    std::array<char, 4096> tail{};
    const off_t end = lseek(errors_, 0, SEEK_END);
    const off_t start = std::max<off_t>(0, end - static_cast<off_t>(tail.size()));
    const ssize_t count = pread(errors_, tail.data(), tail.size(), start);
    if (count > 0) said = last_line(std::string(tail.data(), static_cast<std::size_t>(count)));
  }
  throw IoError(said.empty() ? what : fmt::format("{}: {}", what, said));
}

// Its end of the pipe closes a moment before it can be asked why.
void Child::ended() {
  usleep(100000);
  fail("it ended");
}

std::string Child::read_line(double seconds) {
  const double end = now() + seconds;
  while (pending_.find('\n') == std::string::npos) {
    pollfd wait{from_, POLLIN, 0};
    const double left = end - now();
    if (left <= 0) fail(fmt::format("it did not answer within {:.0f} s", seconds));
    if (poll(&wait, 1, static_cast<int>(left * 1e3) + 1) <= 0) continue;
    std::array<char, 4096> block{};
    const ssize_t count = read(from_, block.data(), block.size());
    if (count == 0) ended();
    if (count > 0) pending_.append(block.data(), static_cast<std::size_t>(count));
  }
  const std::size_t stop = pending_.find('\n');
  std::string line = pending_.substr(0, stop);
  pending_.erase(0, stop + 1);
  return line;
}

Json Child::ask(const Json& request, double seconds) {
  const std::string line = request.dump() + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = write(to_, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR) ended();
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  const Json answer = Json::parse(read_line(seconds), nullptr, false);
  if (!answer.is_object()) fail("it answered something that is no JSON object");
  return answer;
}

}  // namespace saddle::bench
