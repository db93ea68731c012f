#include "saddle/train/group.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "saddle/base/error.hpp"

namespace saddle::train {

struct Group::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

namespace {

// What gloo throws says little to people; which worker it was, nobody knows.
template <class Work>
auto guarded(Index rank, Index size, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    throw WorkerLost(fmt::format("worker {} of {} lost another one: {}", rank, size,
                                 std::string(error.what()).substr(0, std::string_view(error.what()).find('\n'))));
  }
}

class Transfer : public Group::Pending {
 public:
  Transfer(c10::intrusive_ptr<c10d::Work> work, std::vector<torch::Tensor> tensors, Index rank, Index size)
      : work_(std::move(work)), tensors_(std::move(tensors)), rank_(rank), size_(size) {}
  void wait() override {
    guarded(rank_, size_, [&] { return work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<torch::Tensor> tensors_;  // live until the end
  Index rank_, size_;
};

class Nothing : public Group::Pending {
 public:
  void wait() override {}
};

// The own address on the way to a host: gloo would otherwise take that of the own name, which is often the loopback's.
std::string address_towards(const std::string& host, Index port) {
  addrinfo* found = nullptr;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0 || found == nullptr) return "";
  char text[NI_MAXHOST] = "";
  const int descriptor = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const general = reinterpret_cast<sockaddr*>(&own);
  if (descriptor >= 0 && ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(descriptor, general, &size) == 0)
    ::getnameinfo(general, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (descriptor >= 0) ::close(descriptor);
  ::freeaddrinfo(found);
  return text;
}

Index number(const char* variable, Index low, Index high) {
  const char* text = std::getenv(variable);
  Index value = -1;
  if (text != nullptr) {
    const std::string_view view(text);
    if (const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
        error != std::errc() || end != view.data() + view.size())
      value = -1;
  }
  if (value < low || value > high)
    throw InvalidArgument(
        fmt::format("{} must be a number from {} to {}, found '{}'", variable, low, high, text == nullptr ? "" : text),
        "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are needed together");
  return value;
}

}  // namespace

Group::Pending::~Pending() = default;

Group::Group() = default;
Group::~Group() = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;

Group Group::of_environment(double timeout) {
  Group group;
  if (std::getenv("WORLD_SIZE") == nullptr && std::getenv("RANK") == nullptr) return group;
  group.size_ = number("WORLD_SIZE", 1, 4096);
  group.rank_ = number("RANK", 0, group.size_ - 1);
  if (group.size_ == 1) return group;
  const Index port = number("MASTER_PORT", 1, 65535);
  const char* address = std::getenv("MASTER_ADDR");
  const std::string host = address == nullptr || *address == '\0' ? "127.0.0.1" : address;
  const auto milliseconds = std::chrono::milliseconds(static_cast<long>(timeout * 1000));
  try {
    group.state_ = std::make_unique<State>();
    c10d::TCPStoreOptions store;
    store.port = static_cast<uint16_t>(port);
    store.isServer = group.leads();
    store.numWorkers = group.size_;
    store.waitWorkers = true;
    store.timeout = milliseconds;
    group.state_->store = c10::make_intrusive<c10d::TCPStore>(host, store);
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->timeout = milliseconds;
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    const std::string own = address_towards(host, port);
    options->devices.push_back(interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                               : !own.empty()       ? c10d::ProcessGroupGloo::createDeviceForHostname(own)
                                                    : c10d::ProcessGroupGloo::createDefaultDevice());
    group.state_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        group.state_->store, static_cast<int>(group.rank_), static_cast<int>(group.size_), options);
  } catch (const std::exception& error) {
    throw IoError(fmt::format("worker {} of {} could not join at {}:{}: {}", group.rank_, group.size_, host, port,
                              std::string(error.what()).substr(0, std::string_view(error.what()).find('\n'))),
                  "do all workers run, with the same MASTER_ADDR and MASTER_PORT, and is the port free?");
  }
  return group;
}

std::unique_ptr<Group::Pending> Group::start_sum(torch::Tensor tensor) {
  if (!state_) return std::make_unique<Nothing>();
  return guarded(rank_, size_, [&] {
    std::vector<torch::Tensor> tensors{tensor};
    auto work = state_->group->allreduce(tensors);
    return std::make_unique<Transfer>(std::move(work), std::move(tensors), rank_, size_);
  });
}

void Group::sum(torch::Tensor& tensor) { start_sum(tensor)->wait(); }

void Group::broadcast(torch::Tensor& tensor) {
  if (!state_) return;
  guarded(rank_, size_, [&] {
    std::vector<torch::Tensor> tensors{tensor};
    return state_->group->broadcast(tensors)->wait();
  });
}

bool Group::any(bool here) {
  if (!state_) return here;
  torch::Tensor flag = torch::full({1}, here ? 1 : 0, torch::kInt64);
  sum(flag);
  return flag.item<int64_t>() > 0;
}

void Group::wait_for_all() {
  if (state_) any(false);
}

}  // namespace saddle::train
