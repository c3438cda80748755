// The sums of one row's (column's) normal equations over its observations. For the files that are compiled once per instruction
// set. The order of every sum is that of the observations: results are the same on one thread and on many.
#pragma once
#include "gram.h"

namespace lorank {
namespace {

// Where the sums of one major index are added up: stride rows of stride, and stride numbers.
template <class R>
struct Sums {
  R *A;
  double *b;
};

// The sums over the observations of major index i: A (GRAM), and with values b and what is returned, sum w r^2.
template <bool GRAM, class R>
inline double add_up(const Gathered<R> &from, std::int64_t i, const double *values, const Sums<R> &s) {
  const std::int64_t stride = from.stride, ahead = look_ahead(stride * sizeof(R)), end = from.indptr[i + 1];
  const std::int64_t most = ahead < kBatch ? ahead : kBatch;
  double total = 0;
  if (GRAM && !values && short_gram(from, from.indptr[i], end, s.A)) return total;
  if (GRAM) std::memset(s.A, 0, stride * stride * sizeof(R));
  if (values) std::memset(s.b, 0, stride * sizeof(double));
  Batch<R> batch;
  double c[kBatch];
  for (std::int64_t t = from.indptr[i]; t < end; t += most) {
    batch.count = static_cast<int>(end - t < most ? end - t : most);
    for (int j = 0; j < batch.count; ++j) {
      const std::int64_t k = t + j;
      batch.y[j] = from.other + from.index[k] * stride;
      batch.w[j] = from.weights ? static_cast<R>(from.weights[k]) : R(1);
      fetch(from.other + from.index[k + ahead] * stride, stride);  // indices are padded beyond the last one
      if (values) {
        c[j] = (from.weights ? from.weights[k] : 1.0) * values[k];
        total += c[j] * values[k];
      }
    }
    if (GRAM) add_gram(s.A, from.width, stride, batch);
    if constexpr (sizeof(R) == sizeof(double))
      if (values) add_rows(s.b, stride, batch.y, c, batch.count);
  }
  return total;
}

}  // namespace
}  // namespace lorank
