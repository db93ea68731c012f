#include "saddle/base/cpu.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "saddle/base/error.hpp"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace saddle {

namespace {

constexpr std::array<const char*, 4> isa_names{"scalar", "avx2", "avx512", "amx"};

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool bit(unsigned value, int i) { return (value >> i & 1u) != 0; }

// XCR0: which register files the operating system saves.
std::uint64_t saved_registers() {
  std::uint32_t lower = 0, upper = 0;
  __asm__ volatile("xgetbv" : "=a"(lower), "=d"(upper) : "c"(0));
  return std::uint64_t{upper} << 32 | lower;
}

std::string text(std::initializer_list<unsigned> words) {
  std::string bytes;
  for (unsigned word : words) bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  const auto first = bytes.find_first_not_of(' ');
  const auto last = bytes.find_last_not_of(std::string(" \0", 2));
  return first == std::string::npos || last == std::string::npos ? "" : bytes.substr(first, last + 1 - first);
}

void read_features(Cpu& cpu) {
  const Registers vendor = cpuid(0);
  cpu.vendor = text({vendor.b, vendor.d, vendor.c});
  if (cpuid(0x80000000u).a >= 0x80000004u) {
    const Registers x = cpuid(0x80000002u), y = cpuid(0x80000003u), z = cpuid(0x80000004u);
    cpu.brand = text({x.a, x.b, x.c, x.d, y.a, y.b, y.c, y.d, z.a, z.b, z.c, z.d});
  }
  const Registers basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1);
  cpu.sse4 = bit(basic.c, 19) && bit(basic.c, 20);
  if (!bit(basic.c, 27)) return;  // no xgetbv

  const std::uint64_t saved = saved_registers();
  const auto saves = [&](std::uint64_t mask) { return (saved & mask) == mask; };
  cpu.avx2 = saves(0x6) && bit(basic.c, 28) && bit(basic.c, 12) && bit(extended.b, 5);
  cpu.avx512 = cpu.avx2 && saves(0xe6) && bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) &&
               bit(extended.b, 31);
  cpu.avx512_bf16 = cpu.avx512 && bit(more.a, 5);
  cpu.amx_tile = saves(0x60000) && bit(extended.d, 24);
  cpu.amx_bf16 = cpu.amx_tile && bit(extended.d, 22);
}

#else
void read_features(Cpu&) {}
#endif

int usable_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void read_caches(Cpu& cpu) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const auto size = [](int name) { return std::max<Index>(0, sysconf(name)); };
  cpu.l1 = size(_SC_LEVEL1_DCACHE_SIZE);
  cpu.l2 = size(_SC_LEVEL2_CACHE_SIZE);
  cpu.l3 = size(_SC_LEVEL3_CACHE_SIZE);
#else
  static_cast<void>(cpu);
#endif
}

Isa machine_isa() {
  if (cpu().avx512_bf16 && cpu().amx_bf16 && amx_permitted()) return Isa::amx;
  if (cpu().avx512) return Isa::avx512;
  return cpu().avx2 ? Isa::avx2 : Isa::scalar;
}

}  // namespace

const char* to_string(Isa isa) { return isa_names[static_cast<std::size_t>(isa)]; }

Isa parse_isa(std::string_view name) {
  const auto found = std::find(isa_names.begin(), isa_names.end(), name);
  if (found == isa_names.end()) {
    throw InvalidArgument("unknown instruction set '" + std::string(name) + "'", "choose scalar, avx2, avx512 or amx");
  }
  return static_cast<Isa>(found - isa_names.begin());
}

const Cpu& cpu() {
  static const Cpu found = [] {
    Cpu cpu;
    read_features(cpu);
    read_caches(cpu);
    cpu.cores = usable_cores();
    return cpu;
  }();
  return found;
}

bool amx_permitted() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;               // XFEATURE_XTILEDATA
  static const bool granted = cpu().amx_tile && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return granted;
#else
  return false;
#endif
}

Isa best_isa() {
  static const Isa machine = machine_isa();
  // Read on each call: tests run every instruction set in one process.
  const char* limit = std::getenv("SADDLE_MAX_ISA");
  if (limit == nullptr || *limit == '\0') return machine;
  try {
    return std::min(machine, parse_isa(limit));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("SADDLE_MAX_ISA=" + std::string(limit) + " is not an instruction set: " + error.hint(),
                          error.hint());
  }
}

}  // namespace saddle
