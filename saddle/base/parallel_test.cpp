#include "saddle/base/parallel.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle {
namespace {

RC_GTEST_PROP(ParallelFor, CoversEachIndexOnce, ()) {
  const auto n = *rc::gen::inRange<Index>(0, 300);
  const auto grain = *rc::gen::inRange<Index>(-1, 400);
  const LoopOptions options{*rc::gen::element(Schedule::even, Schedule::dynamic), *rc::gen::inRange(0, 6)};
  std::vector<int> seen(static_cast<std::size_t>(n));
  parallel_for(
      n, grain, [&](Index i) { ++seen[static_cast<std::size_t>(i)]; }, options);
  RC_ASSERT(seen == std::vector<int>(static_cast<std::size_t>(n), 1));
}

// Results that are summed per chunk keep their bits for any number of threads.
TEST(ParallelFor, ChunksDependOnGrainOnly) {
  for (int count : {1, 2, 5}) {
    std::mutex mutex;
    std::set<std::pair<Index, Index>> chunks;
    const auto body = [&](Index begin, Index end) {
      const std::lock_guard lock(mutex);
      chunks.emplace(begin, end);
    };
    parallel_for(10, 4, body, {.threads = count});
    EXPECT_EQ(chunks, (std::set<std::pair<Index, Index>>{{0, 4}, {4, 8}, {8, 10}})) << count;
  }
}

TEST(ParallelFor, LoopOverHugeRangeDoesNotOverflow) {
  std::atomic<int> calls{0};
  parallel_for(INT64_MAX, INT64_MAX / 2, [&](Index, Index) { ++calls; });
  EXPECT_EQ(calls, 3);
}

TEST(ParallelFor, RethrowsTheErrorOfTheLowestChunk) {
  for (Schedule schedule : {Schedule::even, Schedule::dynamic}) {
    for (int count : {1, 2, 4}) {
      const auto body = [](Index i) {
        if (i >= 3) throw std::runtime_error(std::to_string(i));
      };
      try {
        parallel_for(100, 1, body, {schedule, count});
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "3");
      }
    }
  }
}

TEST(ParallelFor, NestedLoopRunsInTheSameThread) {
  std::atomic<int> strangers{0};
  const auto outer = [&](Index) {
    const auto self = std::this_thread::get_id();
    parallel_for(8, 1, [&](Index) { strangers += std::this_thread::get_id() != self; }, {.threads = 4});
  };
  parallel_for(4, 1, outer, {.threads = 2});
  EXPECT_EQ(strangers, 0);
}

TEST(ParallelFor, UsesTheThreadsAskedFor) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  const auto body = [&](Index) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  };
  parallel_for(64, 1, body, {.threads = 3});
  EXPECT_EQ(ids.size(), 3u);
  ids.clear();
  parallel_for(64, 1, body, {.threads = 1});
  EXPECT_EQ(ids, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(Threads, CanBeSetAndReset) {
  const int before = threads();
  EXPECT_GE(before, 1);
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  set_threads(0);
  EXPECT_EQ(threads(), before);
  EXPECT_THROW(set_threads(-1), InvalidArgument);
}

}  // namespace
}  // namespace saddle
