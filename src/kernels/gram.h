// A += sum_t w_t y_t y_t^T over a few observations at a time, the sums in registers. For the files compiled per instruction set.
#pragma once
#include "normal.h"
#include "simd.h"

namespace lorank {
namespace {

constexpr std::int64_t kLanes = kLineBytes / sizeof(double);
constexpr int kBatch = 16;  // observations added up before sums go back to memory

// A batch of observations of one major index.
struct Batch {
  int count;
  const double *y[kBatch];
  double w[kBatch];
};

// How many observations ahead rows are fetched: some kilobytes, so that they are still there when they are needed.
inline std::int64_t look_ahead(std::int64_t row_bytes) {
  const std::int64_t ahead = (12 << 10) / row_bytes;
  return ahead < 2 ? 2 : ahead > kPrefetch ? kPrefetch : ahead;
}

inline void fetch(const double *p, std::int64_t count) {
  for (std::int64_t d = 0; d < count; d += kLanes) prefetch(p + d);
}

// Rows a .. a + ROWS of the columns of one cache line, d .. d + 8.
template <int ROWS>
inline void add_tile(double *A, std::int64_t stride, std::int64_t a, std::int64_t d, const Batch &batch) {
  Line sum[ROWS];
  double *at = A + a * stride + d;
  for (int i = 0; i < ROWS; ++i) sum[i] = Line::from(at + i * stride);
  for (int t = 0; t < batch.count; ++t) {
    const double *left = batch.y[t] + a;
    opaque(left);
    const Line right = batch.w[t] * Line::from(batch.y[t] + d);
    for (int i = 0; i < ROWS; ++i) sum[i].add(left[i], right);
  }
  for (int i = 0; i < ROWS; ++i) sum[i].put(at + i * stride);
}

// The upper triangle, in whole cache lines and a few rows too many: A has `stride` rows.
inline void add_gram(double *A, std::int64_t width, std::int64_t stride, const Batch &batch) {
  constexpr std::int64_t unit = Line::parts > 2 ? 2 : 4;
  for (std::int64_t d = 0; d < stride; d += kLanes) {
    std::int64_t rows = d + kLanes < width ? d + kLanes : (width + unit - 1) / unit * unit, a = 0;
    if (Line::parts == 1) {  // as many sums as there are registers for
      for (; rows - a >= 24; a += 24) add_tile<24>(A, stride, a, d, batch);
      switch (rows - a) {
        case 20: add_tile<20>(A, stride, a, d, batch); break;
        case 16: add_tile<16>(A, stride, a, d, batch); break;
        case 12: add_tile<12>(A, stride, a, d, batch); break;
        case 8: add_tile<8>(A, stride, a, d, batch); break;
        case 4: add_tile<4>(A, stride, a, d, batch); break;
        default: break;
      }
    } else {
      for (; a < rows; a += unit) add_tile<unit>(A, stride, a, d, batch);
    }
  }
}

// sums += sum_t c_t x_t over some cache lines of each x_t
template <int LINES>
inline void add_lines(double *sums, const double *const *x, std::int64_t offset, const double *c, int count) {
  Line sum[LINES];
  for (int i = 0; i < LINES; ++i) sum[i] = Line::from(sums + i * kLanes);
  for (int t = 0; t < count; ++t)
    for (int i = 0; i < LINES; ++i) sum[i].add(c[t], Line::from(x[t] + offset + i * kLanes));
  for (int i = 0; i < LINES; ++i) sum[i].put(sums + i * kLanes);
}

// The same over `size` numbers, whole lines.
inline void add_rows(double *sums, std::int64_t size, const double *const *x, const double *c, int count) {
  constexpr int most = Line::parts == 1 ? 8 : Line::parts == 2 ? 4 : 2;
  std::int64_t d = 0;
  for (; d + most * kLanes <= size; d += most * kLanes) add_lines<most>(sums + d, x, d, c, count);
  for (; d < size; d += kLanes) add_lines<1>(sums + d, x, d, c, count);
}

}  // namespace
}  // namespace lorank
