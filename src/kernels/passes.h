// Passes over the observed entries, and the table of passes of an instruction set.
//
// A pass processes the observations of each major index (a row in CSR order, a column in CSC order). `own` is the factor that
// belongs to the major index and stays in registers; `other` is the factor whose rows are gathered. Both are packed: each row
// has as many numbers as `halves` halves of a cache line of type R, zero-padded; complex factors hold the real plane first,
// then the imaginary plane, each of that length. Only plain data crosses this interface, so that nothing compiled for a newer
// instruction set can be used by code for an older one.
#pragma once
#include <cstdint>

namespace lorank {

constexpr int kLineBytes = 64;
constexpr int kHalfBytes = kLineBytes / 2;
constexpr int kPrefetch = 24;  // observations ahead; index arrays carry this much padding at their end

template <class R>
struct Job {
  const std::int64_t *indptr;  // major pointers
  const std::int32_t *index;   // minor indices, padded by kPrefetch entries
  std::int64_t first, last;    // range of major indices
  std::int64_t width;          // columns of the factors, unpadded
  std::int64_t halves;         // half cache lines a plane
  const R *own;                // packed, one row a major index (gradient, sample)
  const void *other;           // packed, gathered: numbers of type R, or float for a mixed pass
  const R *values;             // one a observation, complex interleaved: data (gradient), entries (times), p (sample, or null)
  const R *weights;            // one a observation, real: weighted passes
  R *sampled;                  // sample: one a observation, or null
  R *sums;                     // gradient, times: (majors, width), unpadded, complex interleaved
  std::int64_t sums_stride;    // numbers of type R from one row of them to the next
  R *row;                      // scratch, aligned: the accumulators of one row, both planes
  double *squares;             // gradient, sample: one a major index, or null
  double *misfit;              // weighted gradient: one a major index, or null
  double *inner;               // sample: Re <p, sampled> a major index, or null
};

template <class R>
struct Table {
  // d = own . conj(other) - values, g = w d;  sums = sum_k g_k other_k;  squares = sum_k |g_k|^2;  misfit = sum_k w_k |d_k|^2
  void (*gradient[2][2])(const Job<R> &);
  // sums = sum_k values_k other_k
  void (*times[2])(const Job<R> &);
  // z = own . conj(other);  squares = sum_k w_k |z_k|^2;  inner = sum_k Re(conj(values_k) z_k)
  void (*sample[2][2])(const Job<R> &);
};  // first index 0: real, 1: complex; second 0: w = 1, 1: weighted

struct Passes {
  int vector_bytes;  // rows are whole registers: with wider ones than half a line, `halves` must be even
  Table<float> f32;
  Table<double> f64;
  Table<double> mixed;  // `other` is held in float, everything else in double: half the bytes to gather
};

}  // namespace lorank
