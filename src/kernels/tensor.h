// Passes over the observed entries of a tensor, sorted by slice (lorank/backends/tensor_observations.py). As in passes.h, only
// plain data crosses this interface.
#pragma once
#include <cstdint>

namespace lorank {

constexpr int kTensorLines = 4;  // cache lines of a packed row: up to 32 doubles

template <class R>
struct TensorJob {
  std::int64_t first, last;     // range of slices
  std::int64_t a, b;            // columns of the inner factors, unpadded
  std::int64_t lines_a, lines_b;  // of their packed rows
  const std::int64_t *indptr;   // observations of each slice
  const std::int32_t *i, *j;    // inner indices
  const R *U, *V;               // packed, zero-padded
  const R *M;                   // a x b for each slice, unpadded
  const R *p;                   // adjoint: one for each observation
  R *out;                       // values: one for each observation
  R *of_i, *of_j;               // adjoint: packed sums, added to
  R *of_slices;                 // adjoint: a x b for each slice, unpadded
};

struct TensorPasses {
  void (*values32)(const TensorJob<float> &);  // U[i] M_s V[j]^T
  void (*values64)(const TensorJob<double> &);
  void (*adjoint32)(const TensorJob<float> &);  // sums of p V[j] M_s^T, of p U[i] M_s and of p U[i]^T V[j]
  void (*adjoint64)(const TensorJob<double> &);
};

}  // namespace lorank
