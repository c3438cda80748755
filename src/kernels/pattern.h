// The pattern of observed entries in both orders, checked once when it is built, and the passes over it.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "nonnegative.h"
#include "normal.h"
#include "passes.h"

namespace lorank {

// A dense C-contiguous factor as it comes from Python: complex numbers interleaved.
template <class R>
struct Factor {
  const R *data;
  std::int64_t rows, width;
};

template <class R>
struct Packed;  // a factor in padded rows (packed.h)

class Pattern {
 public:
  // indptr: (n1 + 1), indices: (m), strictly increasing within each row. Throws std::invalid_argument.
  Pattern(const std::int64_t *indptr, std::int64_t n1, const std::int32_t *indices, std::int64_t m, std::int64_t n2);

  // The same from arrays in both orders that outlive the pattern (such as mapped files), without a copy. Both
  // arrays of indices are padded by kPrefetch entries that are valid indices; order32 or order64 is null.
  Pattern(const std::int64_t *indptr, std::int64_t n1, const std::int32_t *indices, std::int64_t m, std::int64_t n2,
          const std::int64_t *colptr, const std::int32_t *rows, const std::int32_t *order32, const std::int64_t *order64);
  Pattern(const Pattern &) = delete;
  Pattern &operator=(const Pattern &) = delete;

  std::int64_t n1, n2, m;

  // Rows: d = (own diag(s)) other^H on the pattern - values, sums = D other. The columns' twin expects conj(values) in
  // column order, and computes D^H other from the same product. Mixed: `other` is rounded to float, the rest is as in R.
  // Weights, in the order of the values, or null: they multiply d in sums and squares, and |d|^2 in the misfit (or null).
  template <class R, bool COMPLEX>
  void gradient(bool columns, Factor<R> own, const R *scale, Factor<R> other, const R *values, const R *weights, R *sums,
                double *squares, double *misfit, bool mixed) const;

  // sampled = (left1 right1^H + left2 right2^H) on the pattern, in row order; returns through squares/inner the two sums of
  // a line search, Re <p, sampled> and sum w |sampled|^2. sampled, p and weights may be null.
  template <class R, bool COMPLEX>
  void sample(Factor<R> left1, Factor<R> right1, Factor<R> left2, Factor<R> right2, const R *p, const R *weights, R *sampled,
              double &inner, double &squares, bool mixed) const;

  // sums = P other, with P the sparse matrix of `values` in the order asked for.
  template <class R, bool COMPLEX>
  void times(bool columns, const R *values, Factor<R> other, R *sums) const;

  // The normal equations of each row (column), solved: see normal.h. `other` is unpadded; the job's other fields that belong
  // to the pattern or to memory are filled in here. Sides, or null: factors on the weights, one for each row (column) and one
  // for each of the other side.
  struct Sides {
    const double *own, *other;
  };
  void normal(bool columns, Factor<double> other, const double *moments, const double *weights, const Sides *sides,
              NormalJob job) const;

  // The same with solutions that are not negative: see nonnegative.h.
  void nonnegative(bool columns, Factor<double> other, const double *weights, NonnegativeJob job) const;

  // sum_k w_k other_k^T other_k over each row's (column's) observations: out (majors, width, width). Real; weights, in the order
  // asked for, or null.
  template <class R>
  void blocks(bool columns, Factor<R> other, const double *weights, R *out) const;

  // solutions_i (sum_k w_k other_k^T other_k + shift I) = right_i over each row's (column's) observations k: (majors, width).
  template <class R>
  void solve_blocks(bool columns, Factor<R> other, const double *weights, double shift, const R *right, R *solutions) const;

  // Steps of conjugate gradients on the normal equations of each row (column): see normal.h. `other` is unpadded; the job's other
  // fields that belong to the pattern or to memory are filled in here.
  template <class R>
  void steps(bool columns, Factor<R> other, StepsJob<R> job) const;

  // Sums over each row (column) of the numbers that `other` has for its observations, one for each index of the other side.
  template <class R>
  void side_sums(bool columns, const R *other, R *sums) const;

  // Observations in each column: (n2).
  void column_counts(std::int64_t *out) const;

  // Values from row order to column order, conjugated.
  template <class R, bool COMPLEX>
  void to_columns(const R *values, R *out) const;

 private:
  const std::int64_t *row_ptr_, *col_ptr_;
  const std::int32_t *col_index_, *row_index_;  // padded by kPrefetch
  const std::int32_t *order32_ = nullptr;       // column order -> row order, where m fits
  const std::int64_t *order64_ = nullptr;
  std::vector<std::int64_t> own_row_ptr_, own_col_ptr_, own_order64_;  // the memory they point to, unless the caller owns it
  std::vector<std::int32_t> own_col_index_, own_row_index_, own_order32_;

  template <class R>
  void run(bool columns, void (*pass)(const Job<R> &), Job<R> job) const;
  // pass(first, last, thread) over ranges of majors; `load` is the work of a major index in units of an observation
  template <class F>
  void split(bool columns, std::int64_t load, int count, const F &pass) const;
  int share(bool columns, std::int64_t load) const;  // threads that are worth waking
  // pass(job) over ranges of majors, each thread with room for `size` numbers of its own
  template <class J, class F>
  void split_job(bool columns, std::int64_t load, std::int64_t size, const J &job, const F &pass) const;
  // own_i other_j times the given weights (or null) for all observations, in the order asked for, as those are
  void multiply(bool columns, const Sides &sides, const double *given, double *out) const;
  // sum_t w_t (y_t y_t^T + S_t) for each major index, as upper triangles
  void add_moments(bool columns, Factor<double> other, const double *moments, const double *weights, double *sums) const;
  // The factor packed, where the normal equations and the blocks gather it from.
  template <class R>
  Gathered<R> gather_rows(bool columns, Factor<R> other, const double *weights) const;
};

// Cholesky factors of n symmetric systems, (groups, width (width + 1) / 2, kTogether), and solutions: see normal.h.
template <class R>
void factor_systems(std::int64_t n, std::int64_t width, const R *matrices, R *factors);
template <class R>
void solve_systems(std::int64_t n, std::int64_t width, const R *factors, const R *right, R *solutions);

// Stable counting sort of (row, col) pairs into row-major order. Throws std::invalid_argument on an index out of range.
template <class I>
void row_major_order(const I *rows, const I *cols, std::int64_t m, std::int64_t n1, std::int64_t n2, std::int64_t *order);

int threads();
void release_scratch();                          // the calling thread's

}  // namespace lorank
