// See kernels.h. Compiled once, for the plainest instruction set.
#include "kernels.h"

#include <stdexcept>

namespace lorank {

// The functions of an instruction set, each in the file of that name, and its table.
#define LORANK_KERNELS(isa)                                                                                               \
  namespace isa {                                                                                                         \
  const Passes *passes();                                                                                                 \
  const NormalTable *normal();                                                                                            \
  const Pairs *pairs();                                                                                                   \
  const TensorPasses *tensor();                                                                                           \
  const PauliPasses *pauli();                                                                                             \
  Nonnegative nonnegative();                                                                                              \
  FillGaps gaps();                                                                                                        \
  }                                                                                                                       \
  const Kernels *kernels_##isa() {                                                                                        \
    static const Kernels table = {#isa,          isa::passes(), isa::normal(),      isa::pairs(),                         \
                                  isa::tensor(), isa::pauli(),  isa::nonnegative(), isa::gaps()};                         \
    return &table;                                                                                                        \
  }

LORANK_KERNELS(baseline)
#ifdef LORANK_X86_LEVELS
LORANK_KERNELS(avx2)
LORANK_KERNELS(avx512)
#endif

namespace {

std::vector<const Kernels *> available() {
  std::vector<const Kernels *> list{kernels_baseline()};
#ifdef LORANK_X86_LEVELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    list.push_back(kernels_avx2());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
      list.push_back(kernels_avx512());
  }
#endif
  return list;
}

const Kernels *&chosen() {
  static const Kernels *kernels = available().back();
  return kernels;
}

}  // namespace

const Kernels *active() { return chosen(); }

const Passes *passes_for(std::int64_t halves) {
#ifdef LORANK_X86_LEVELS
  // Registers half as wide are faster for short rows, where adding up the lanes of a register is most of the work.
  if (halves <= 6 && active() == kernels_avx512()) return kernels_avx2()->passes;
#endif
  (void)halves;
  return active()->passes;
}

const char *instruction_set() { return active()->name; }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Kernels *kernels : available()) names.emplace_back(kernels->name);
  return names;
}

void use_instruction_set(const std::string &name) {
  for (const Kernels *kernels : available())
    if (name == kernels->name) {
      chosen() = kernels;
      return;
    }
  throw std::invalid_argument("instruction set '" + name + "' is not available on this machine");
}

}  // namespace lorank
