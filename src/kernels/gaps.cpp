// See gaps.h. Compiled once per instruction set, with LORANK_GAPS naming the function that hands out the pass.
#include "gaps.h"

#include <cmath>

#include "simd.h"

namespace lorank {
namespace {

constexpr double kLeast = 1e-300;  // of a pivot: matrices are positive definite but for rounding

// Inverse of a positive definite (k, k) matrix in place, rows `stride` apart and padded by zeros: Gauss-Jordan without pivoting, each
// step an update of whole rows. VECTORS is the stride in registers where it is known beforehand, 0 elsewhere.
template <int VECTORS>
void invert(double *A, std::int64_t k, std::int64_t stride) {
  constexpr int lanes = Simd<double>::lanes;
  const int vectors = VECTORS ? VECTORS : static_cast<int>(stride / lanes);
  for (std::int64_t p = 0; p < k; ++p) {
    double *row = A + p * stride;
    const double inverse = 1.0 / (row[p] > kLeast ? row[p] : kLeast);
    row[p] = 1.0;
    for (std::int64_t j = 0; j < stride; ++j) row[j] *= inverse;
    V<double> pivot[VECTORS ? VECTORS : 1];
    if constexpr (VECTORS > 0)
      for (int v = 0; v < VECTORS; ++v) pivot[v] = Load<double, double>::from(row + v * lanes);
    for (std::int64_t i = 0; i < k; ++i) {
      if (i == p) continue;
      double *to = A + i * stride;
      const double c = to[p];
      to[p] = 0.0;
      for (int v = 0; v < vectors; ++v) {
        V<double> x = Load<double, double>::from(to + v * lanes);
        if constexpr (VECTORS > 0)
          x -= c * pivot[v];
        else
          x -= c * Load<double, double>::from(row + v * lanes);
        std::memcpy(to + v * lanes, &x, sizeof x);
      }
    }
  }
}

void invert(double *A, std::int64_t k, std::int64_t stride) {
  constexpr int each = 8 / Simd<double>::lanes;  // registers of eight numbers
  switch (stride / 8) {
    case 1: return invert<each>(A, k, stride);
    case 2: return invert<2 * each>(A, k, stride);
    case 3: return invert<3 * each>(A, k, stride);
    case 4: return invert<4 * each>(A, k, stride);
    default: return invert<0>(A, k, stride);
  }
}

void fill_gaps(const GapsJob &job) {
  const std::int64_t d = job.width;
  for (std::int64_t p = job.first; p < job.last; ++p) {
    const std::int32_t *columns = job.columns + job.column_ptr[p];
    const std::int64_t k = job.column_ptr[p + 1] - job.column_ptr[p], stride = gaps_stride(k);
    double *A = job.scratch, *x = A + k * stride;
    for (std::int64_t a = 0; a < k; ++a) {
      const double *from = job.precision + columns[a] * d;
      double *to = A + a * stride;
      for (std::int64_t b = 0; b < k; ++b) to[b] = from[columns[b]];
      for (std::int64_t b = k; b < stride; ++b) to[b] = 0.0;
    }
    invert(A, k, stride);
    if (job.moments) {
      const double count = static_cast<double>(job.row_ptr[p + 1] - job.row_ptr[p]);
      for (std::int64_t a = 0; a < k; ++a) {
        double *to = job.moments + columns[a] * d;
        for (std::int64_t b = 0; b < k; ++b) to[columns[b]] += count * A[a * stride + b];
      }
    }
    for (std::int64_t t = job.row_ptr[p]; t < job.row_ptr[p + 1]; ++t) {
      const double *g = job.products + job.rows[t] * d;
      double *to = job.values + job.rows[t] * d;
      for (std::int64_t b = 0; b < stride; ++b) x[b] = 0.0;
      for (std::int64_t a = 0; a < k; ++a) {  // the inverse is symmetric: its rows are its columns
        const double c = g[columns[a]];
        const double *row = A + a * stride;
        for (std::int64_t b = 0; b < stride; ++b) x[b] -= c * row[b];
      }
      for (std::int64_t b = 0; b < k; ++b) to[columns[b]] = x[b];
      if (job.deviations) {
        double *sd = job.deviations + job.rows[t] * d;
        for (std::int64_t b = 0; b < k; ++b) {
          const double variance = A[b * stride + b];
          sd[columns[b]] = variance > 0 ? std::sqrt(variance) : 0.0;
        }
      }
    }
  }
}

}  // namespace

FillGaps LORANK_GAPS() { return fill_gaps; }

}  // namespace lorank
