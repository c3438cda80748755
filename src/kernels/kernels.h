// The kernels of each instruction set, and the choice among them.
//
// Files with kernels are compiled once per instruction set (CMakeLists.txt), with LORANK_ISA its name and LORANK_VECTOR_BYTES the
// width of its registers. Each hands its kernels out by one function in the namespace of that name (kernels.cpp). Other files
// take them from the table in use, active().
#pragma once
#include <string>
#include <vector>

#include "gaps.h"
#include "nonnegative.h"
#include "normal.h"
#include "pairs.h"
#include "passes.h"
#include "pauli.h"
#include "tensor.h"

namespace lorank {

struct Kernels {
  const char *name;  // of the instruction set
  const Passes *passes;
  const NormalTable *normal;
  const Pairs *pairs;
  const TensorPasses *tensor;
  const PauliPasses *pauli;
  Nonnegative nonnegative;
  FillGaps fill_gaps;
};

const Kernels *active();                      // the table in use; by default that of the newest instruction set
const Passes *passes_for(std::int64_t halves);  // those that are fastest for rows of so many half cache lines

const char *instruction_set();                // the one in use
std::vector<std::string> instruction_sets();  // those that this machine supports, plainest first
void use_instruction_set(const std::string &name);

}  // namespace lorank
