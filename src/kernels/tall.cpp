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
void gram(Gemm<R> gemm, std::int64_t n, Tall<R> a, Tall<R> b, R *out) {
  const std::int64_t count = chunks(n), size = static_cast<std::int64_t>(a.width) * b.width;
  std::vector<R> parts(count * size);
  const int team = share(n, std::max(a.width, b.width));
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int64_t first = c * kChunk;
    int rows = static_cast<int>(std::min(kChunk, n - first)), m = b.width, k = a.width, lda = a.stride, ldb = b.stride;
    char keep = 'N', turn = 'T';
    R one = 1, zero = 0;
    gemm(&keep, &turn, &m, &k, &rows, &one, const_cast<R *>(b.data + first * ldb), &ldb, const_cast<R *>(a.data + first * lda),
         &lda, &zero, parts.data() + c * size, &m);
  }
  std::fill(out, out + size, R(0));
  for (std::int64_t c = 0; c < count; ++c)
    for (std::int64_t i = 0; i < size; ++i) out[i] += parts[c * size + i];
}

template <class R>
void combine(Gemm<R> gemm, std::int64_t n, int q, const R *base, R sign, Tall<R> u1, const R *a1, Tall<R> u2, const R *a2,
             R *out) {
  const int team = share(n, q);
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
  for (std::int64_t c = 0; c < chunks(n); ++c) {
    const std::int64_t first = c * kChunk;
    int rows = static_cast<int>(std::min(kChunk, n - first)), m = q;
    R *to = out + first * q;
    if (base) std::memcpy(to, base + first * q, sizeof(R) * rows * q);
    auto add = [&](Tall<R> u, const R *a, R keeping) {
      char keep = 'N';
      R scale = sign;
      gemm(&keep, &keep, &m, &rows, &u.width, &scale, const_cast<R *>(a), &m, const_cast<R *>(u.data + first * u.stride),
           &u.stride, &keeping, to, &m);
    };
    add(u1, a1, base ? R(1) : R(0));
    if (u2.width) add(u2, a2, R(1));
  }
}

#define LORANK_INSTANTIATE(R)                                               \
  template void gram<R>(Gemm<R>, std::int64_t, Tall<R>, Tall<R>, R *);      \
  template void combine<R>(Gemm<R>, std::int64_t, int, const R *, R, Tall<R>, const R *, Tall<R>, const R *, R *);
LORANK_INSTANTIATE(float)
LORANK_INSTANTIATE(double)

}  // namespace lorank
