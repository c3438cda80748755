#include "tall.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pattern.h"

namespace lorank {
namespace {

constexpr std::int64_t kChunk = 1024;    // rows
constexpr std::int64_t kShared = 65536;  // numbers of a tall array from which more threads are worth waking

inline std::int64_t chunks(std::int64_t n) { return (n + kChunk - 1) / kChunk; }

inline int share(std::int64_t n, std::int64_t width) {
  return static_cast<int>(std::min<std::int64_t>(threads(), n * width >= kShared ? chunks(n) : 1));
}

}  // namespace

template <class R>
void gram(Gemm<R> gemm, std::int64_t n, int p, const R *a, int q, const R *b, R *out) {
  const std::int64_t count = chunks(n), size = static_cast<std::int64_t>(p) * q;
  std::vector<R> parts(count * size);
  const int team = share(n, std::max(p, q));
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int64_t first = c * kChunk;
    int rows = static_cast<int>(std::min(kChunk, n - first)), m = q, k = p;
    char keep = 'N', turn = 'T';
    R one = 1, zero = 0;
    gemm(&keep, &turn, &m, &k, &rows, &one, const_cast<R *>(b + first * q), &m, const_cast<R *>(a + first * p), &k, &zero,
         parts.data() + c * size, &m);
  }
  std::fill(out, out + size, R(0));
  for (std::int64_t c = 0; c < count; ++c)
    for (std::int64_t i = 0; i < size; ++i) out[i] += parts[c * size + i];
}

template <class R>
void combine(Gemm<R> gemm, std::int64_t n, int q, const R *base, R sign, int p1, const R *u1, const R *a1, int p2, const R *u2,
             const R *a2, R *out) {
  const int team = share(n, q);
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
  for (std::int64_t c = 0; c < chunks(n); ++c) {
    const std::int64_t first = c * kChunk;
    int rows = static_cast<int>(std::min(kChunk, n - first)), m = q, k1 = p1, k2 = p2;
    char keep = 'N';
    R scale = sign, one = 1, beta = base ? R(1) : R(0);
    R *to = out + first * q;
    if (base) std::memcpy(to, base + first * q, sizeof(R) * rows * q);
    gemm(&keep, &keep, &m, &rows, &k1, &scale, const_cast<R *>(a1), &m, const_cast<R *>(u1 + first * p1), &k1, &beta, to, &m);
    if (p2)
      gemm(&keep, &keep, &m, &rows, &k2, &scale, const_cast<R *>(a2), &m, const_cast<R *>(u2 + first * p2), &k2, &one, to, &m);
  }
}

#define LORANK_INSTANTIATE(R)                                                              \
  template void gram<R>(Gemm<R>, std::int64_t, int, const R *, int, const R *, R *);       \
  template void combine<R>(Gemm<R>, std::int64_t, int, const R *, R, int, const R *, const R *, int, const R *, const R *, R *);
LORANK_INSTANTIATE(float)
LORANK_INSTANTIATE(double)

}  // namespace lorank
