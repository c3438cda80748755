// Passes over Pauli matrices, sorted by bit flips (lorank/backends/pauli_sums.py). As in passes.h, only plain data crosses this
// interface. Complex arrays are planes: the real parts of a column, then its imaginary parts.
#pragma once
#include <cstdint>

namespace lorank {

constexpr std::int64_t kPauliLanes = 8;  // rows of a group: flips permute the rows of a group, and the groups

struct PauliJob {
  std::int64_t first, last;     // range of distinct flips
  std::int64_t d, r;            // rows and columns of the thin arrays
  const std::int64_t *flips;    // distinct
  const std::int64_t *indptr;   // matrices of each
  const std::int64_t *signs;    // of each matrix
  const std::int8_t *phases;    // of each matrix: the power of -i
  const double *left;           // expectations: planes of the left array
  const double *right;          // planes of the other array, a copy for each permutation of a group
  const double *p;              // times: coefficient of each matrix
  double *out;                  // expectations: one for each matrix; times: planes, added to
  double *scratch;              // 2 d numbers
};

struct PauliPasses {
  void (*expectations)(const PauliJob &);  // Re trace(P_k left right^H)
  void (*times)(const PauliJob &);         // sum_k p_k P_k right
};

}  // namespace lorank
