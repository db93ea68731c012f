// Those who are timed against each other on a row: our own implementation, peers, another revision.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "child.hpp"
#include "folder.hpp"
#include "problem.hpp"

namespace saddle::bench {

class Contender {
 public:
  virtual ~Contender() = default;
  // The best time of one call, over as many calls as fit into `seconds`, at least one.
  virtual double round(double seconds) = 0;
  // How long its threads may still spin after a round.
  virtual double settling() const { return 0.002; }
  virtual bool expensive() const { return false; }  // a few rounds are enough
};

class OwnContender final : public Contender {
 public:
  explicit OwnContender(const Problem& problem) : problem_(problem) {}
  double round(double seconds) override;

 private:
  const Problem& problem_;
};

// What a peer can be asked for, without our words for it.
struct PeerTask {
  std::string kind;  // "softmax" or "linear"; empty: no peer has it
  bool causal = false;
  Index window = 0;  // radius, 0: none
  double beta = 0;   // keys and queries are recentred by beta times the mean key
};
PeerTask peer_task(const Row& row);

// The inputs of a row for peers, and a place for their output.
class SharedInputs {
 public:
  explicit SharedInputs(const Problem& problem);
  // The request that sets up this row.
  Json request() const;
  // What the peer wrote, dense [B,H,N,E].
  std::vector<float> output() const;

 private:
  const Problem& problem_;
  SharedFolder folder_;
};

// How a process is treated between and over its rounds.
struct Manners {
  double settling = 0.002;
  bool expensive = false;
};
constexpr Manners as_installed_manners{0.03, true};

class RemoteContender final : public Contender {
 public:
  RemoteContender(std::shared_ptr<Child> child, const Manners& manners) : child_(std::move(child)), manners_(manners) {}
  double round(double seconds) override;
  double settling() const override { return manners_.settling; }
  bool expensive() const override { return manners_.expensive; }

 private:
  std::shared_ptr<Child> child_;
  Manners manners_;
};

// Starts peers when they are first asked for, one process per peer, tuning, number of threads and use of tiles.
class Peers {
 public:
  // Folder that may hold node_modules with onnxruntime-node; empty: none.
  explicit Peers(std::string folder) : folder_(std::move(folder)) {}

  // Throws IoError with the reason when it cannot take part.
  std::shared_ptr<Child> start(const std::string& peer, bool as_installed, const Row& row);
  // Ends all of them, so that their memory is free again.
  void stop() { running_.clear(); }

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<Child>> running_;
  std::map<std::string, std::string> failed_;
};

// Another build of saddle, or this one, as a process that answers the same requests.
std::shared_ptr<Child> start_saddle(const std::string& program);
// Answers requests from stdin until it ends: the other side of start_saddle.
int serve();

}  // namespace saddle::bench
