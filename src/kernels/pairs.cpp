// See pairs.h. Compiled once per instruction set (kernels.h).
#include "pairs.h"

#include "simd.h"

namespace lorank {
namespace {

constexpr std::int64_t kAhead = 4;  // pairs: their rows are fetched that early

template <class R>
inline void fetch(const PairsJob<R> &job, std::int64_t k) {
  if (k >= job.last) return;
  const std::int64_t bytes = job.width * sizeof(R), limit = bytes < 512 ? bytes : 512;
  const char *x = reinterpret_cast<const char *>(job.left + job.rows[k] * job.width);
  const char *y = reinterpret_cast<const char *>(job.right + job.cols[k] * job.width);
  for (std::int64_t b = 0; b < limit; b += kLineBytes) {
    prefetch(x + b);
    prefetch(y + b);
  }
}

template <class R>
void entries(const PairsJob<R> &job) {
  constexpr int lanes = Simd<R>::lanes;
  const std::int64_t width = job.width;
  for (std::int64_t k = job.first; k < job.last; ++k) {
    fetch(job, k + kAhead);
    const R *x = job.left + job.rows[k] * width, *y = job.right + job.cols[k] * width;
    V<R> sums{};
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) sums += Load<R, R>::from(x + i) * Load<R, R>::from(y + i);
    R sum = sum_lanes<R>(sums);
    for (; i < width; ++i) sum += x[i] * y[i];
    job.out[k] = sum;
  }
}

// Row a of the triangles has the columns a to width - 1; what is off the diagonal counts twice.
void variances(const PairsJob<double> &job) {
  constexpr int lanes = Simd<double>::lanes;
  const std::int64_t width = job.width, size = width * (width + 1) / 2;
  for (std::int64_t k = job.first; k < job.last; ++k) {
    fetch(job, k + kAhead);
    const double *x = job.left + job.rows[k] * width, *y = job.right + job.cols[k] * width;
    const double *S = job.left_cov + job.rows[k] * size, *T = job.right_cov + job.cols[k] * size;
    V<double> sums{};
    double sum = 0, diagonal = 0;
    for (std::int64_t a = 0; a < width; ++a) {
      const double xa = x[a], ya = y[a];
      diagonal += S[0] * (T[0] + ya * ya) + T[0] * xa * xa;
      const std::int64_t count = width - a;
      std::int64_t i = 0;
      for (; i + lanes <= count; i += lanes) {
        const V<double> s = Load<double, double>::from(S + i), t = Load<double, double>::from(T + i);
        V<double> u = t;
        u += ya * Load<double, double>::from(y + a + i);
        sums += s * u;
        sums += t * (xa * Load<double, double>::from(x + a + i));
      }
      for (; i < count; ++i) sum += S[i] * (T[i] + ya * y[a + i]) + T[i] * (xa * x[a + i]);
      S += count;
      T += count;
    }
    job.out[k] = 2 * (sum + sum_lanes<double>(sums)) - diagonal;
  }
}

const Pairs kPairs = {entries<float>, entries<double>, variances};

}  // namespace

namespace LORANK_ISA {
const Pairs *pairs() { return &kPairs; }
}  // namespace LORANK_ISA

}  // namespace lorank
