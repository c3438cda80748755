// A += sum_t w_t y_t y_t^T over a few observations at a time, the sums in registers. For the files compiled per instruction set.
#pragma once
#include "normal.h"
#include "simd.h"

namespace lorank {
namespace {

template <class R>
constexpr std::int64_t kLanes = kLineBytes / sizeof(R);
constexpr int kBatch = 24;  // observations added up before sums go back to memory

// A batch of observations of one major index.
template <class R>
struct Batch {
  int count;
  const R *y[kBatch];
  R w[kBatch];
};

// How many observations ahead rows are fetched: some kilobytes, so that they are still there when they are needed.
inline std::int64_t look_ahead(std::int64_t row_bytes) {
  const std::int64_t ahead = (12 << 10) / row_bytes;
  return ahead < 2 ? 2 : ahead > kPrefetch ? kPrefetch : ahead;
}

template <class R>
inline void fetch(const R *p, std::int64_t count) {
  for (std::int64_t d = 0; d < count; d += kLanes<R>) prefetch(p + d);
}

// Rows a .. a + ROWS of the columns of one cache line, d .. d + kLanes.
template <int ROWS, class R>
inline void add_tile(R *A, std::int64_t stride, std::int64_t a, std::int64_t d, const Batch<R> &batch) {
  LineOf<R> sum[ROWS];
  R *at = A + a * stride + d;
  for (int i = 0; i < ROWS; ++i) sum[i] = LineOf<R>::from(at + i * stride);
  for (int t = 0; t < batch.count; ++t) {
    const R *left = batch.y[t] + a;
    opaque(left);
    const LineOf<R> right = batch.w[t] * LineOf<R>::from(batch.y[t] + d);
    for (int i = 0; i < ROWS; ++i) sum[i].add(left[i], right);
  }
  for (int i = 0; i < ROWS; ++i) sum[i].put(at + i * stride);
}

// The upper triangle, in whole cache lines and a few rows too many: A has `stride` rows.
template <class R>
inline void add_gram(R *A, std::int64_t width, std::int64_t stride, const Batch<R> &batch) {
  constexpr std::int64_t unit = Line::parts > 2 ? 2 : 4;
  for (std::int64_t d = 0; d < stride; d += kLanes<R>) {
    std::int64_t rows = d + kLanes<R> < width ? d + kLanes<R> : (width + unit - 1) / unit * unit, a = 0;
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

// A = sum_t w_t y_t y_t^T over the observations first .. last, for y_t of one cache line: all sums stay in registers.
template <int ROWS, class R>
inline void gram_of_lines(const Gathered<R> &from, std::int64_t first, std::int64_t last, R *A) {
  LineOf<R> sum[ROWS];
  for (int i = 0; i < ROWS; ++i) sum[i] = LineOf<R>::zero();
  for (std::int64_t k = first; k < last; ++k) {
    const R *y = from.other + from.index[k] * kLanes<R>;
    prefetch(from.other + from.index[k + kPrefetch] * kLanes<R>);  // indices are padded beyond the last one
    opaque(y);
    LineOf<R> right = LineOf<R>::from(y);
    if (from.weights) right = static_cast<R>(from.weights[k]) * right;
    for (int i = 0; i < ROWS; ++i) sum[i].add(y[i], right);
  }
  for (int i = 0; i < ROWS; ++i) sum[i].put(A + i * kLanes<R>);
}

// The same for any width up to that; false where there are too few registers.
template <class R>
inline bool short_gram(const Gathered<R> &from, std::int64_t first, std::int64_t last, R *A) {
  if (Line::parts > 1 || from.stride != kLanes<R>) return false;
  if constexpr (Line::parts == 1) {
    switch ((from.width + 1) / 2) {
      case 1: gram_of_lines<2>(from, first, last, A); break;
      case 2: gram_of_lines<4>(from, first, last, A); break;
      case 3: gram_of_lines<6>(from, first, last, A); break;
      case 4: gram_of_lines<8>(from, first, last, A); break;
      case 5: gram_of_lines<kLanes<R> < 16 ? 8 : 10>(from, first, last, A); break;
      case 6: gram_of_lines<kLanes<R> < 16 ? 8 : 12>(from, first, last, A); break;
      case 7: gram_of_lines<kLanes<R> < 16 ? 8 : 14>(from, first, last, A); break;
      default: gram_of_lines<kLanes<R> < 16 ? 8 : 16>(from, first, last, A); break;
    }
  }
  return true;
}

// sums += sum_t c_t x_t over some cache lines of each x_t
template <int LINES>
inline void add_lines(double *sums, const double *const *x, std::int64_t offset, const double *c, int count) {
  Line sum[LINES];
  for (int i = 0; i < LINES; ++i) sum[i] = Line::from(sums + i * kLanes<double>);
  for (int t = 0; t < count; ++t)
    for (int i = 0; i < LINES; ++i) sum[i].add(c[t], Line::from(x[t] + offset + i * kLanes<double>));
  for (int i = 0; i < LINES; ++i) sum[i].put(sums + i * kLanes<double>);
}

// The same over `size` numbers, whole lines.
inline void add_rows(double *sums, std::int64_t size, const double *const *x, const double *c, int count) {
  constexpr int most = Line::parts == 1 ? 8 : Line::parts == 2 ? 4 : 2;
  std::int64_t d = 0;
  for (; d + most * kLanes<double> <= size; d += most * kLanes<double>) add_lines<most>(sums + d, x, d, c, count);
  for (; d < size; d += kLanes<double>) add_lines<1>(sums + d, x, d, c, count);
}

}  // namespace
}  // namespace lorank
