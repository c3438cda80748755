// Products of tall arrays with small ones, and Gram products of tall arrays, in chunks of rows that threads share.
//
// The products themselves are left to a BLAS that the caller brings (SciPy's), limited to one thread a call: its own threads
// and those of the passes would fight over the cores. Chunks have a fixed size, so that bits do not depend on the threads.
#pragma once
#include <cstdint>

namespace lorank {

template <class R>
using Gemm = void (*)(char *transa, char *transb, int *m, int *n, int *k, R *alpha, R *a, int *lda, R *b, int *ldb, R *beta,
                      R *c, int *ldc);  // column-major, as in Fortran

// out (p, q) = a^T b for a (n, p) and b (n, q), all C-contiguous
template <class R>
void gram(Gemm<R> gemm, std::int64_t n, int p, const R *a, int q, const R *b, R *out);

// out (n, q) = base + sign (u1 a1 + u2 a2) for u (n, p) and a (p, q); base may be null, p2 may be 0
template <class R>
void combine(Gemm<R> gemm, std::int64_t n, int q, const R *base, R sign, int p1, const R *u1, const R *a1, int p2, const R *u2,
             const R *a2, R *out);

}  // namespace lorank
