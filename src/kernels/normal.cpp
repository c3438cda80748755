// See normal.h. Compiled once per instruction set, with LORANK_NORMAL naming the function; loops run over whole cache lines
// and are left to the compiler's vectoriser, for which no sum is reordered: results are the same on one thread and on many.
#include "normal.h"

#include <cmath>
#include <cstring>

#include "passes.h"

namespace lorank {
namespace {

constexpr std::int64_t kLanes = kLineBytes / sizeof(double);
constexpr int kBatch = 4;  // observations added to the matrix at a time: each of its entries is loaded once for all of them

inline std::int64_t line_start(std::int64_t k) { return k / kLanes * kLanes; }

#if defined(__GNUC__) || defined(__clang__)
inline void fetch(const double *p, std::int64_t count) {
  for (std::int64_t d = 0; d < count; d += kLanes) __builtin_prefetch(p + d, 0, 3);
}
#else
inline void fetch(const double *, std::int64_t) {}
#endif

struct Scratch {
  double *A, *U, *inverse, *b, *x, *y, *triangle;
};

// A += sum of w y y^T (upper triangle, whole cache lines)
inline void add_outer(double *A, std::int64_t width, std::int64_t stride, const double *const *y, const double *w) {
  for (std::int64_t a = 0; a < width; ++a) {
    const double c0 = w[0] * y[0][a], c1 = w[1] * y[1][a], c2 = w[2] * y[2][a], c3 = w[3] * y[3][a];
    double *row = A + a * stride;
    const double *y0 = y[0], *y1 = y[1], *y2 = y[2], *y3 = y[3];
    for (std::int64_t d = line_start(a); d < stride; ++d) row[d] += (c0 * y0[d] + c1 * y1[d]) + (c2 * y2[d] + c3 * y3[d]);
  }
}

// A = U^T U in place; entries below the diagonal are not touched. A matrix that is not positive definite leaves nan.
inline void cholesky(double *A, std::int64_t width, std::int64_t stride) {
  for (std::int64_t k = 0; k < width; ++k) {
    double *pivot = A + k * stride;
    const double root = std::sqrt(pivot[k]), inverse = 1 / root;
    for (std::int64_t d = k; d < width; ++d) pivot[d] *= inverse;
    for (std::int64_t i = k + 1; i < width; ++i) {
      const double c = pivot[i];
      double *row = A + i * stride;
      for (std::int64_t d = line_start(i); d < stride; ++d) row[d] -= c * pivot[d];
    }
  }
}

// x = (U^T U)^-1 b; b is used up
inline void solve(const double *U, std::int64_t width, std::int64_t stride, double *b, double *x) {
  for (std::int64_t k = 0; k < width; ++k) {
    const double *row = U + k * stride;
    b[k] /= row[k];
    for (std::int64_t d = k + 1; d < width; ++d) b[d] -= b[k] * row[d];
  }
  for (std::int64_t k = width - 1; k >= 0; --k) {
    const double *row = U + k * stride;
    double sum = b[k];
    for (std::int64_t d = k + 1; d < width; ++d) sum -= row[d] * x[d];
    x[k] = sum / row[k];
  }
}

// The inverse of U^T U, upper triangle: with W = U^-1 it is W W^T. Rows of W^T are kept, so that loops run along memory.
inline void invert(const double *U, std::int64_t width, std::int64_t stride, double *W, double *packed) {
  std::memset(W, 0, width * stride * sizeof(double));
  for (std::int64_t k = 0; k < width; ++k) {  // W^T[k, :k+1] solves (row k of W^T) U^T = e_k, from the top of U
    double *row = W + k * stride;
    row[k] = 1 / U[k * stride + k];
    for (std::int64_t i = k - 1; i >= 0; --i) {
      double sum = 0;
      for (std::int64_t d = i + 1; d <= k; ++d) sum += U[i * stride + d] * row[d];
      row[i] = -sum / U[i * stride + i];
    }
  }
  std::int64_t at = 0;
  for (std::int64_t a = 0; a < width; ++a) {
    double *out = packed + at;
    const std::int64_t count = width - a;
    for (std::int64_t d = 0; d < count; ++d) out[d] = 0;
    for (std::int64_t k = a; k < width; ++k) {  // entries (a, d) with d <= k
      const double *row = W + k * stride;
      const double c = row[a];
      for (std::int64_t d = a; d <= k; ++d) out[d - a] += c * row[d];
    }
    at += count;
  }
}

void one(const NormalJob &job, std::int64_t i, const Scratch &s) {
  const std::int64_t width = job.width, stride = job.stride, size = width * (width + 1) / 2;
  std::memset(s.A, 0, width * stride * sizeof(double));
  std::memset(s.b, 0, stride * sizeof(double));
  if (job.moments) std::memset(s.triangle, 0, size * sizeof(double));
  double total = 0;
  const std::int64_t end = job.indptr[i + 1];
  for (std::int64_t t = job.indptr[i]; t < end; t += kBatch) {
    const double *y[kBatch];
    double w[kBatch];
    for (int j = 0; j < kBatch; ++j) {
      const bool inside = t + j < end;
      const std::int64_t k = inside ? t + j : t;
      y[j] = job.other + job.index[k] * stride;
      w[j] = inside ? (job.weights ? job.weights[k] : 1.0) : 0.0;
      const double c = w[j] * job.values[k];
      total += c * job.values[k];
      for (std::int64_t d = 0; d < stride; ++d) s.b[d] += c * y[j][d];
    }
    for (int j = 0; j < kBatch; ++j) {  // the batch after the next: rows of the other side lie anywhere
      const std::int64_t ahead = job.index[t + 2 * kBatch + j];  // indices are padded beyond the last one
      fetch(job.other + ahead * stride, stride);
      if (job.moments) fetch(job.moments + ahead * size, size);
    }
    add_outer(s.A, width, stride, y, w);
    if (job.moments) {
      const double *m[kBatch];
      for (int j = 0; j < kBatch; ++j) m[j] = job.moments + static_cast<std::int64_t>(job.index[t + j < end ? t + j : t]) * size;
      for (std::int64_t d = 0; d < size; ++d) s.triangle[d] += (w[0] * m[0][d] + w[1] * m[1][d]) + (w[2] * m[2][d] + w[3] * m[3][d]);
    }
  }
  if (job.moments) {
    const double *from = s.triangle;
    for (std::int64_t a = 0; a < width; ++a)
      for (std::int64_t d = a; d < width; ++d) s.A[a * stride + d] += *from++;
  }

  const double scale = job.scale ? job.scale[i] : 1.0;
  for (std::int64_t a = 0; a < width; ++a) {
    double *row = s.U + a * stride;
    std::memset(row, 0, stride * sizeof(double));
    for (std::int64_t d = a; d < width; ++d) row[d] = job.noise * s.A[a * stride + d] + scale * job.prior[a * width + d];
    s.y[a] = job.noise * s.b[a] + scale * job.shift[a];
  }
  const std::int64_t f = job.fixed;
  if (f >= 0) {  // move its terms to the right-hand side, and leave the equation x_f = 1
    for (std::int64_t a = 0; a < f; ++a) {
      s.y[a] -= s.U[a * stride + f];
      s.U[a * stride + f] = 0;
    }
    for (std::int64_t d = f + 1; d < width; ++d) {
      s.y[d] -= s.U[f * stride + d];
      s.U[f * stride + d] = 0;
    }
    s.U[f * stride + f] = s.y[f] = 1;
  }
  cholesky(s.U, width, stride);
  solve(s.U, width, stride, s.y, s.x);
  std::memcpy(job.mean + i * width, s.x, width * sizeof(double));

  // E |r - x y|^2 = |r|^2 - 2 x b + <A, x x^T + cov x>
  for (std::int64_t a = 0; a < width; ++a) {
    const double *row = s.A + a * stride;
    double sum = 0;
    for (std::int64_t d = a + 1; d < width; ++d) sum += row[d] * s.x[d];
    total += s.x[a] * (row[a] * s.x[a] + 2 * sum - 2 * s.b[a]);
  }
  if (job.covariance) {
    double *cov = job.covariance + i * size;
    invert(s.U, width, stride, s.inverse, cov);
    if (f >= 0) cov[f * width - f * (f - 1) / 2] = 0;
    std::int64_t at = 0;
    for (std::int64_t a = 0; a < width; ++a) {
      const double *row = s.A + a * stride;
      total += row[a] * cov[at];
      double sum = 0;
      for (std::int64_t d = a + 1; d < width; ++d) sum += row[d] * cov[at + d - a];
      total += 2 * sum;
      at += width - a;
    }
  }
  job.squares[i] = total;
}

}  // namespace

void LORANK_NORMAL(const NormalJob &job) {
  double *at = job.scratch;
  const std::int64_t square = job.stride * job.stride;
  Scratch s;
  s.A = at;
  s.U = s.A + square;
  s.inverse = s.U + square;
  s.b = s.inverse + square;
  s.x = s.b + job.stride;
  s.y = s.x + job.stride;
  s.triangle = s.y + job.stride;
  for (std::int64_t i = job.first; i < job.last; ++i) one(job, i, s);
}

}  // namespace lorank
