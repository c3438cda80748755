// Cholesky factors, solutions and inverses of kTogether small symmetric systems side by side: entry (a, d) of all of them is one
// cache line, so every operation is one on whole registers, and no system's result depends on its neighbours.
// For the files that are compiled once per instruction set.
#pragma once
#include <cmath>

#include "normal.h"
#include "simd.h"

namespace lorank {
namespace {

static_assert(kTogether * sizeof(double) == kLineBytes, "one cache line for each entry");
constexpr int kColumns = Line::parts == 1 ? 8 : Line::parts == 2 ? 4 : 2;  // computed at a time, their sums in registers

// So that row_of(G, width, a) + kTogether * d is entry (a, d), d >= a, of the upper triangles.
template <class S>
inline S *row_of(S *G, std::int64_t width, std::int64_t a) {
  return G + kTogether * (a * width - a * (a + 1) / 2);
}

// 1 / sqrt of the numbers in a line, and what to scale the rest of a row with: the same, but 0 for numbers that are below `least`,
// which are raised to it. Such a row is rounding, and would else be blown up from pivot to pivot.
inline Line invert_roots(double *line, const double *least) {
  double scale[kTogether];
  for (int i = 0; i < kTogether; ++i) {
    const bool small = least && line[i] < least[i];
    line[i] = 1 / std::sqrt(small ? least[i] : line[i]);
    scale[i] = small ? 0.0 : line[i];
  }
  return Line::from(scale);
}

// G[i, d ..] -= sum_{p < i} U[p, i] U[p, d ..] for COLUMNS columns
template <int COLUMNS>
inline void reduce(double *G, std::int64_t width, std::int64_t i, std::int64_t d) {
  Line sum[COLUMNS];
  double *own = row_of(G, width, i) + kTogether * d;
  for (int j = 0; j < COLUMNS; ++j) sum[j] = Line::from(own + kTogether * j);
  for (std::int64_t p = 0; p < i; ++p) {
    const double *row = row_of(G, width, p);
    const Line c = Line::from(row + kTogether * i);
    for (int j = 0; j < COLUMNS; ++j) sum[j].subtract(c, Line::from(row + kTogether * (d + j)));
  }
  for (int j = 0; j < COLUMNS; ++j) sum[j].put(own + kTogether * j);
}

// G = U^T U in place, with the inverses of the pivots on the diagonal. A matrix that is not positive definite leaves nan, unless
// `least` gives a line for each pivot's square below which it may not fall.
inline void cholesky(double *G, std::int64_t width, const double *least = nullptr) {
  for (std::int64_t i = 0; i < width; ++i) {
    std::int64_t d = i;
    for (; d + kColumns <= width; d += kColumns) reduce<kColumns>(G, width, i, d);
    for (; d + 2 <= width; d += 2) reduce<2>(G, width, i, d);
    if (d < width) reduce<1>(G, width, i, d);
    double *row = row_of(G, width, i);
    const Line scale = invert_roots(row + kTogether * i, least ? least + kTogether * i : nullptr);
    for (d = i + 1; d < width; ++d) (scale * Line::from(row + kTogether * d)).put(row + kTogether * d);
  }
}

// x = (U^T U)^-1 x
template <class S>
inline void solve(const S *U, std::int64_t width, double *x) {
  for (std::int64_t i = 0; i < width; ++i) {
    const S *row = row_of(U, width, i);
    const Line c = Line::from(row + kTogether * i) * Line::from(x + kTogether * i);
    c.put(x + kTogether * i);
    for (std::int64_t d = i + 1; d < width; ++d) {
      Line rest = Line::from(x + kTogether * d);
      rest.subtract(c, Line::from(row + kTogether * d));
      rest.put(x + kTogether * d);
    }
  }
  for (std::int64_t i = width - 1; i >= 0; --i) {
    const Line c = Line::from(row_of(U, width, i) + kTogether * i) * Line::from(x + kTogether * i);
    c.put(x + kTogether * i);
    for (std::int64_t p = 0; p < i; ++p) {
      Line rest = Line::from(x + kTogether * p);
      rest.subtract(c, Line::from(row_of(U, width, p) + kTogether * i));
      rest.put(x + kTogether * p);
    }
  }
}

// W[i, j ..] = -(1 / U[i, i]) sum_{i < d <= j} U[i, d] W[d, j ..], for W = U^-1
template <int COLUMNS>
inline void invert_row(const double *U, double *W, std::int64_t width, std::int64_t i, std::int64_t j) {
  Line sum[COLUMNS];
  for (int e = 0; e < COLUMNS; ++e) sum[e] = Line::zero();
  const double *row = row_of(U, width, i);
  for (std::int64_t d = i + 1; d <= j; ++d) {
    const Line c = Line::from(row + kTogether * d);
    const double *from = row_of(W, width, d) + kTogether * j;
    for (int e = 0; e < COLUMNS; ++e) sum[e].add(c, Line::from(from + kTogether * e));
  }
  for (int f = 1; f < COLUMNS; ++f) {
    const Line c = Line::from(row + kTogether * (j + f));
    const double *from = row_of(W, width, j + f) + kTogether * j;
    for (int e = f; e < COLUMNS; ++e) sum[e].add(c, Line::from(from + kTogether * e));
  }
  const Line scale = -1.0 * Line::from(row + kTogether * i);
  for (int e = 0; e < COLUMNS; ++e) (scale * sum[e]).put(row_of(W, width, i) + kTogether * (j + e));
}

// W[a, d ..] = sum_{j >= d} W[a, j] W[d .., j], in place: what is overwritten is not needed for what follows
template <int COLUMNS>
inline void multiply_row(double *W, std::int64_t width, std::int64_t a, std::int64_t d) {
  Line sum[COLUMNS];
  double *own = row_of(W, width, a);
  for (int e = 0; e < COLUMNS; ++e) sum[e] = Line::zero();
  for (int f = 0; f < COLUMNS - 1; ++f) {
    const Line c = Line::from(own + kTogether * (d + f));
    for (int e = 0; e <= f; ++e) sum[e].add(c, Line::from(row_of(W, width, d + e) + kTogether * (d + f)));
  }
  for (std::int64_t j = d + COLUMNS - 1; j < width; ++j) {
    const Line c = Line::from(own + kTogether * j);
    for (int e = 0; e < COLUMNS; ++e) sum[e].add(c, Line::from(row_of(W, width, d + e) + kTogether * j));
  }
  for (int e = 0; e < COLUMNS; ++e) sum[e].put(own + kTogether * (d + e));
}

// W = (U^T U)^-1, upper triangles
inline void invert(const double *U, std::int64_t width, double *W) {
  for (std::int64_t i = width - 1; i >= 0; --i) {
    Line::from(row_of(U, width, i) + kTogether * i).put(row_of(W, width, i) + kTogether * i);
    std::int64_t j = i + 1;
    for (; j + kColumns <= width; j += kColumns) invert_row<kColumns>(U, W, width, i, j);
    for (; j + 2 <= width; j += 2) invert_row<2>(U, W, width, i, j);
    if (j < width) invert_row<1>(U, W, width, i, j);
  }
  for (std::int64_t a = 0; a < width; ++a) {
    std::int64_t d = a;
    for (; d + kColumns <= width; d += kColumns) multiply_row<kColumns>(W, width, a, d);
    for (; d + 2 <= width; d += 2) multiply_row<2>(W, width, a, d);
    if (d < width) multiply_row<1>(W, width, a, d);
  }
}

}  // namespace
}  // namespace lorank
