// Where peers come from and how they are started.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "contender.hpp"
#include "graph.hpp"
#include "model_run.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "texts.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace saddle::bench {

namespace {

namespace fs = std::filesystem;

using Environment = std::map<std::string, std::string>;

bool present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Both thread pools of torch by number, and what the environment of this process says about OpenMP taken back.
Environment threads_only(int threads) {
  const std::string count = std::to_string(threads);
  return {{"OMP_NUM_THREADS", count},
          {"OPENBLAS_NUM_THREADS", count},
          {"GOMP_SPINCOUNT", ""},
          {"KMP_BLOCKTIME", ""},
          {"OMP_WAIT_POLICY", ""}};
}

// Ours: threads that wait sleep soon, as in this program.
Environment sleeping(int threads) {
  Environment environment = threads_only(threads);
  environment["GOMP_SPINCOUNT"] = "10000";
  return environment;
}

// Large blocks stay on the heap, so that no operation pays page faults for its N x N temporaries; the two pools sleep
// instead of spinning against each other; ATen's AVX-512 kernels.
Environment tuned(int threads) {
  Environment environment = threads_only(threads);
  if (cpu().avx512) environment["ATEN_CPU_CAPABILITY"] = "avx512";
  // OpenBLAS takes the slowest kernels for a processor that it does not recognise, as inside some virtual machines.
  if (cpu().avx2) environment["OPENBLAS_CORETYPE"] = cpu().avx512 ? "SkylakeX" : "Haswell";
  environment["GOMP_SPINCOUNT"] = "0";
  environment["OPENBLAS_THREAD_TIMEOUT"] = "4";
  environment["GLIBC_TUNABLES"] =
      "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184:glibc.malloc.mmap_max=0";
  return environment;
}

// Some hypervisors have AMX but hide CPUID leaf 1DH, by which oneDNN sizes its tiles; see peers/tile_palette.cpp.
bool palette_hidden() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return cpu().amx_bf16 && (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) == 0 || a == 0);
#else
  return false;
#endif
}

// Debian's torch belongs to Debian's Python.
std::string python() { return present("/usr/bin/python3") ? "/usr/bin/python3" : "python3"; }

void preload_palette(Environment& environment) {
  if (const fs::path module = own_folder() / "saddle-tile-palette.so"; palette_hidden() && present(module))
    environment["LD_PRELOAD"] = module.string();
}

}  // namespace

std::shared_ptr<Child> Peers::start(const std::string& peer, bool as_installed, const Row& row) {
  const int threads = row.threads;
  // Only where tiles may be used: everybody else runs untouched.
  const bool palette = row.dtype == DType::bf16 && !peer.starts_with("onnxruntime") && palette_hidden();
  const bool torch = peer.starts_with("torch"), onnx = peer.starts_with("onnxruntime");
  const std::string key = fmt::format("{} {} {} {}", peer, as_installed, threads, palette);
  if (const auto found = running_.find(key); found != running_.end() && found->second->usable()) return found->second;
  if (const auto found = failed_.find(key); found != failed_.end()) throw IoError(found->second);
  try {
    std::vector<std::string> command;
    Environment environment = as_installed ? threads_only(threads) : tuned(threads);
    if (torch) {
      command = {python(), "-c", std::string(torch_peer_text())};
    } else if (onnx) {
      if (folder_.empty() || !present(fs::path(folder_) / "node_modules" / "onnxruntime-node"))
        throw IoError("onnxruntime-node was not found; './dev bench' installs it, SADDLE_PEERS names its folder");
      command = {"node", "--input-type=module", "-e", std::string(onnx_peer_text())};
      environment["SADDLE_PEERS"] = fs::absolute(folder_).string();
    } else {
      const fs::path program = own_folder() / "saddle-onednn-peer";
      if (!present(program)) throw IoError("it was not built: oneDNN (libdnnl-dev) was not found");
      command = {program.string()};
    }
    if (palette) preload_palette(environment);
    auto child = std::make_shared<Child>(command, environment);
    const Json hello = child->ask({{"op", "hello"}}, 60);
    if (!hello.value("ok", false)) throw IoError(hello.value("reason", "it does not start"));
    return running_[key] = child;
  } catch (const IoError& error) {
    failed_[key] = error.what();
    throw;
  }
}

std::shared_ptr<Child> start_graph_peer(const GraphRow& row) {
  return std::make_shared<Child>(std::vector<std::string>{python(), "-c", std::string(graph_peer_text()), "--serve"},
                                 tuned(row.threads));
}

std::shared_ptr<Child> start_side(Side side, const ModelRow& row) {
  const bool bf16 = row.dtype == DType::bf16;
  if (side == Side::own) {
    const fs::path program = own_folder() / "saddle-training-contender";
    if (!present(program))
      throw IoError("saddle-training-contender was not built: it needs the torch layer (SADDLE_TORCH=ON)");
    return std::make_shared<Child>(std::vector<std::string>{program.string()}, sleeping(row.threads));
  }
  Environment environment = side == Side::torch_as_installed ? threads_only(row.threads) : tuned(row.threads);
  if (bf16) preload_palette(environment);
  // In f32 OpenBLAS has a pool of its own, which must not wait for threads of the other that spin long; in bf16 all
  // work is in one pool, which is faster, and keeps a core from everybody else, when it never sleeps.
  if (side == Side::torch && !bf16) environment["GOMP_SPINCOUNT"] = "10000";
  if (side == Side::torch_spinning) environment["GOMP_SPINCOUNT"] = "1000000";
  return std::make_shared<Child>(std::vector<std::string>{python(), "-c", std::string(training_peer_text())},
                                 environment);
}

}  // namespace saddle::bench
