#include "saddle/run/folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "saddle/base/error.hpp"
#include "saddle/run/progress.hpp"

namespace saddle::run {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
 protected:
  FolderTest() { fs::remove_all(path_); }
  ~FolderTest() override { fs::remove_all(path_); }
  const fs::path path_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FolderTest, IsNeverOverwritten) {
  { Folder(path_, Folder::Open::fresh).write("config.toml", "a"); }
  EXPECT_TRUE(has_run(path_));
  EXPECT_FALSE(is_finished(path_));
  EXPECT_THROW(Folder(path_, Folder::Open::fresh), InvalidArgument);
  { EXPECT_EQ(Folder(path_, Folder::Open::resume).read("config.toml"), "a"); }
  std::ofstream(path_ / "notes.txt") << "mine";
  { EXPECT_EQ(Folder(path_, Folder::Open::replace).read("config.toml"), ""); }
  EXPECT_TRUE(fs::exists(path_ / "notes.txt")) << "only files of a run are removed";
}

TEST_F(FolderTest, NothingToResume) { EXPECT_THROW(Folder(path_, Folder::Open::resume), InvalidArgument); }

TEST_F(FolderTest, IsHeldByOneProcess) {
  const Folder folder(path_, Folder::Open::fresh);
  EXPECT_THROW(Folder(path_, Folder::Open::fresh), IoError);
}

TEST_F(FolderTest, IsWaitedForWithPatience) {
  auto held = std::make_unique<Folder>(path_, Folder::Open::fresh);
  EXPECT_THROW(Folder(path_, Folder::Open::fresh, 0.05), IoError);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.reset();
  });
  EXPECT_NO_THROW(Folder(path_, Folder::Open::fresh, 60));
  other.join();
}

TEST_F(FolderTest, MetricsAreCutToWhatACheckpointKnows) {
  Folder folder(path_, Folder::Open::fresh);
  folder.append_metrics("{\"epoch\":1}");
  const Index size = folder.metrics_size();
  folder.append_metrics("{\"epoch\":2}");
  folder.cut_metrics(size);
  folder.append_metrics("{\"epoch\":3}");
  EXPECT_EQ(folder.read("metrics.jsonl"), "{\"epoch\":1}\n{\"epoch\":3}\n");
  EXPECT_THROW(folder.cut_metrics(1000), DataError);
}

TEST_F(FolderTest, AFileInItsPlaceIsAnError) {
  std::ofstream(path_) << "a file";
  EXPECT_THROW(Folder(path_, Folder::Open::fresh), IoError);
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(7.4), "7 s");
  EXPECT_EQ(duration_text(245), "4:05");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

}  // namespace
}  // namespace saddle::run
