#include "saddle/io/atomic_file.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle::io {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the error says, or "no error".
template <class Action>
std::string io_error(Action&& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

struct Folder {
  Folder() {
    std::string name = (fs::path(::testing::TempDir()) / "saddle-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  auto count() const { return std::distance(fs::directory_iterator(path), {}); }
  fs::path path;
};

class AtomicFileTest : public ::testing::Test {
 protected:
  Folder folder;
  fs::path path = folder.path / "file";
};

TEST_F(AtomicFileTest, WritesAndReplaces) {
  write_atomically(path, "first and longer");
  EXPECT_EQ(contents(path), "first and longer");
  write_atomically(path, "second");
  EXPECT_EQ(contents(path), "second");
  write_atomically(path, "");
  EXPECT_EQ(contents(path), "");
  EXPECT_EQ(folder.count(), 1);
}

RC_GTEST_PROP(AtomicFile, KeepsEveryByteOfEveryPiece, (const std::vector<std::string>& pieces)) {
  const Folder folder;
  std::string whole;
  AtomicFile file(folder.path / "file");
  for (const auto& piece : pieces) {
    file.write(std::as_bytes(std::span(piece)));
    whole += piece;
  }
  file.commit();
  RC_ASSERT(contents(folder.path / "file") == whole);
}

TEST_F(AtomicFileTest, WithoutCommitNothingChanges) {
  write_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span("new")));
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(folder.count(), 2);  // the temporary file lies in the same folder
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.count(), 1);
}

// A limit on the size of files stands in for a full disk: write() fails in the same place.
TEST_F(AtomicFileTest, FailedWriteKeepsTheOldFile) {
  write_atomically(path, "old");
  const std::string large(1 << 20, 'x');
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string message = io_error([&] { write_atomically(path, large); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(message, "cannot write " + path.string() + ": File too large");
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(AtomicFileTest, MissingFolder) {
  const fs::path missing = folder.path / "sub" / "file";
  const std::string message = io_error([&] { write_atomically(missing, "x"); });
  EXPECT_EQ(message, "cannot write " + missing.string() + ": No such file or directory");
  write_atomically(path, "x");
  EXPECT_NE(io_error([&] { write_atomically(path / "below", "x"); }).find("Not a directory"), std::string::npos);
}

TEST_F(AtomicFileTest, UnwritableFolder) {
  write_atomically(path, "old");
  ASSERT_EQ(::chmod(folder.path.c_str(), 0555), 0);
  const bool root = ::geteuid() == 0;  // for whom every folder is writable
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "cannot give up the rights of root";
  const std::string message = io_error([&] { write_atomically(path, "new"); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ::chmod(folder.path.c_str(), 0755);
  EXPECT_EQ(message, "cannot write " + path.string() + ": Permission denied");
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(AtomicFileTest, FoldersAndDevicesAreRefused) {
  EXPECT_NE(io_error([&] { write_atomically(folder.path, "x"); }).find("a folder"), std::string::npos);
  EXPECT_NE(io_error([&] { write_atomically("/dev/null", "x"); }).find("a device"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(folder.count(), 0);
}

TEST_F(AtomicFileTest, FollowsLinksAndKeepsPermissions) {
  fs::create_directory(folder.path / "real");
  const fs::path real = folder.path / "real" / "file";
  write_atomically(real, "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(real, path);
  write_atomically(path, "new");
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_EQ(contents(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFileTest, LongNamesWork) {
  const fs::path longest = folder.path / std::string(255, 'n');
  write_atomically(longest, "x");
  EXPECT_EQ(contents(longest), "x");
}

TEST_F(AtomicFileTest, RelativeNamesWork) {
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  write_atomically("plain", "x");
  fs::current_path(before);
  EXPECT_EQ(contents(folder.path / "plain"), "x");
}

// Readers see one version or the other while several threads write.
TEST_F(AtomicFileTest, ReadersNeverSeeAMixture) {
  const auto version = [](char letter) { return std::string(20000, letter); };
  write_atomically(path, version('a'));
  std::atomic<int> running{2};
  const auto writer = [&](char letter) {
    for (int i = 0; i < 20; ++i) write_atomically(path, version(letter));
    --running;
  };
  std::thread first(writer, 'a'), second(writer, 'b');
  int mixtures = 0;
  while (running > 0) {
    const std::string seen = contents(path);
    mixtures += seen != version('a') && seen != version('b');
  }
  first.join();
  second.join();
  EXPECT_EQ(mixtures, 0);
  EXPECT_EQ(folder.count(), 1);
}

}  // namespace
}  // namespace saddle::io
