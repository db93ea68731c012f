// Preloaded into peers on machines that have AMX but hide its description, CPUID leaves 1DH and 1EH, as some
// hypervisors do: oneDNN sizes its tiles by it and would stop at the first tile instruction. CPUID is made to fault,
// and answered here with what every processor with AMX says there.
#include <cpuid.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

constexpr long set_cpuid = 0x1012;  // ARCH_SET_CPUID

using Registers = std::array<unsigned, 4>;  // a, b, c, d

Registers cpuid(unsigned leaf, unsigned subleaf) {
  if (leaf == 0x1d) return subleaf == 1 ? Registers{0x04002000, 0x00080040, 16, 0} : Registers{subleaf == 0, 0, 0, 0};
  if (leaf == 0x1e) return {0, subleaf == 0 ? 0x4010u : 0u, 0, 0};
  Registers r{};
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return r;
}

void answer(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  constexpr unsigned char instruction[] = {0x0f, 0xa2};
  if (std::memcmp(reinterpret_cast<const void*>(registers[REG_RIP]), instruction, sizeof instruction) != 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a fault of the program itself: let it happen again
    return;
  }
  syscall(SYS_arch_prctl, set_cpuid, 1L);
  const Registers r = cpuid(static_cast<unsigned>(registers[REG_RAX]), static_cast<unsigned>(registers[REG_RCX]));
  syscall(SYS_arch_prctl, set_cpuid, 0L);
  registers[REG_RAX] = r[0];
  registers[REG_RBX] = r[1];
  registers[REG_RCX] = r[2];
  registers[REG_RDX] = r[3];
  registers[REG_RIP] += static_cast<long>(sizeof instruction);
}

__attribute__((constructor)) void install() {
  unsetenv("LD_PRELOAD");
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, nullptr) == 0) syscall(SYS_arch_prctl, set_cpuid, 0L);
}

}  // namespace
