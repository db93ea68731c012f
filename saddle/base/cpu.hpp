// What this processor can do, and the instruction set that kernels should use.
#pragma once

#include <string>
#include <string_view>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle {

// Instruction sets that kernels are written for, each including those before it.
enum class Isa { scalar, avx2, avx512, amx };

SADDLE_API const char* to_string(Isa isa);
// Throws InvalidArgument that names the choices.
SADDLE_API Isa parse_isa(std::string_view name);

// A feature counts only if the operating system saves its registers too.
struct Cpu {
  std::string vendor;   // "GenuineIntel"
  std::string brand;    // "Intel(R) Xeon(R) Processor"
  bool sse4 = false;    // 4.1 and 4.2
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx_tile = false;
  bool amx_bf16 = false;
  int cores = 1;                 // that this process may run on
  Index l1 = 0, l2 = 0, l3 = 0;  // bytes of data cache; 0: unknown
};

SADDLE_API const Cpu& cpu();

// Linux grants the AMX tile registers on request; asks once per process and remembers the answer.
SADDLE_API bool amx_permitted();

// The best instruction set of this machine, lowered to the environment variable SADDLE_MAX_ISA if that is set.
SADDLE_API Isa best_isa();

}  // namespace saddle
