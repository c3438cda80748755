// See gaps.h. Compiled once per instruction set (kernels.h).
#include "gaps.h"

#include <cmath>

#include "simd.h"

namespace lorank {
namespace {

constexpr double kLeast = 1e-300;  // of a pivot: matrices are positive definite but for rounding

constexpr int kMost = 64;  // numbers of a row that stay in registers

// A window into one of these has a 0 (or a 1) at place p and the other elsewhere.
struct Windows {
  double others[2 * kMost], own[2 * kMost];
  constexpr Windows() : others(), own() {
    for (int j = 0; j < 2 * kMost; ++j) {
      others[j] = j == kMost ? 0.0 : 1.0;
      own[j] = j == kMost ? 1.0 : 0.0;
    }
  }
};
constexpr Windows kWindows;

// Inverse of a positive definite (k, k) matrix in place, rows `stride` apart and padded by zeros: Gauss-Jordan without pivoting, each
// step an update of whole rows of VECTORS registers. Column p is cleared by a product with 0 there: a single number written to it
// would hold up the load of the register that it is part of for longer than the update takes.
template <int VECTORS>
void invert(double *A, std::int64_t k, std::int64_t stride) {
  constexpr int lanes = Simd<double>::lanes;
  for (std::int64_t p = 0; p < k; ++p) {
    double *row = A + p * stride;
    const double inverse = 1.0 / (row[p] > kLeast ? row[p] : kLeast);
    V<double> pivot[VECTORS], others[VECTORS];
    for (int v = 0; v < VECTORS; ++v) {
      others[v] = Load<double, double>::from(kWindows.others + kMost - p + v * lanes);
      V<double> x = Load<double, double>::from(row + v * lanes) * others[v];
      x += Load<double, double>::from(kWindows.own + kMost - p + v * lanes);
      pivot[v] = inverse * x;
    }
    for (std::int64_t i = 0; i < k; ++i) {
      double *to = A + i * stride;
      const double c = to[p];
      for (int v = 0; v < VECTORS; ++v) {
        V<double> x = Load<double, double>::from(to + v * lanes) * others[v];
        x -= c * pivot[v];
        std::memcpy(to + v * lanes, &x, sizeof x);
      }
    }
    for (int v = 0; v < VECTORS; ++v) std::memcpy(row + v * lanes, &pivot[v], sizeof pivot[v]);
  }
}

// The same for longer rows.
void invert_wide(double *A, std::int64_t k, std::int64_t stride) {
  for (std::int64_t p = 0; p < k; ++p) {
    double *row = A + p * stride;
    const double inverse = 1.0 / (row[p] > kLeast ? row[p] : kLeast);
    row[p] = 1.0;
    for (std::int64_t j = 0; j < stride; ++j) row[j] *= inverse;
    for (std::int64_t i = 0; i < k; ++i) {
      if (i == p) continue;
      double *to = A + i * stride;
      const double c = to[p];
      to[p] = 0.0;
      for (std::int64_t j = 0; j < stride; ++j) to[j] -= c * row[j];
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
    case 5: return invert<5 * each>(A, k, stride);
    case 6: return invert<6 * each>(A, k, stride);
    case 7: return invert<7 * each>(A, k, stride);
    case 8: return invert<8 * each>(A, k, stride);
    default: return invert_wide(A, k, stride);
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

namespace LORANK_ISA {
FillGaps gaps() { return fill_gaps; }
}  // namespace LORANK_ISA

}  // namespace lorank
