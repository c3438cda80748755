// Products of tall arrays with small ones, and Gram products of tall arrays, in chunks of rows that threads share.
//
// The products themselves are left to a BLAS that the caller brings (SciPy's), limited to one thread a call: its own
// threads would compete with those of the passes. Chunks have a fixed size: results do not depend on the number of threads.
#pragma once
#include <cstdint>

namespace lorank {

template <class R>
using Gemm = void (*)(char *transa, char *transb, int *m, int *n, int *k, R *alpha, R *a, int *lda, R *b, int *ldb, R *beta,
                      R *c, int *ldc);  // column-major, as in Fortran

// A tall array with rows `stride` numbers apart, such as some columns of a wider one.
template <class R>
struct Tall {
  const R *data;
  int width, stride;
};

// out (p, q) = a^T b for a (n, p) and b (n, q)
template <class R>
void gram(Gemm<R> gemm, std::int64_t n, Tall<R> a, Tall<R> b, R *out);

// out (n, q) = base + sign (u1 a1 + u2 a2) for u (n, p) and a (p, q); base may be null, u2 may have no columns
template <class R>
void combine(Gemm<R> gemm, std::int64_t n, int q, const R *base, R sign, Tall<R> u1, const R *a1, Tall<R> u2, const R *a2,
             R *out);

}  // namespace lorank
