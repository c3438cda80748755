// Sums of small symmetric matrices over the observations of each row (column), and systems with such matrices, many at a time.
//
// The pass of alternating least squares: with y_t the other side's factors (and S_t their covariances, where there are any),
// r_t the values and w_t the weights,
//
//     A = sum_t w_t (y_t y_t^T + S_t),   b = sum_t w_t r_t y_t,   (noise A + scale P) x = noise b + scale h,
//
// P and h the prior's precision and precision times mean. Where there are covariances, A is the product of a sparse matrix (w)
// and a dense one (upper triangles of y_t y_t^T + S_t), and made by the pass for that (Pattern::normal). One coordinate may be
// held at 1, so that offsets are factors like any other. Real numbers, added up in double precision, but for blocks in single
// precision, which are added up in that. As in passes.h, only plain data crosses this interface.
#pragma once
#include <cstdint>

namespace lorank {

// Which rows of the other side's factor are added up.
template <class R>
struct Gathered {
  const std::int64_t *indptr;  // major pointers
  const std::int32_t *index;   // minor indices, padded by kPrefetch entries
  std::int64_t width;          // coordinates of a factor
  std::int64_t stride;         // the same, rounded up to a cache line
  const R *other;              // packed to `stride`
  const double *weights;       // one a observation, or null
};

struct NormalJob {
  Gathered<double> from;
  std::int64_t first, last;  // range of major indices
  const double *sums;        // A, where it is known already: upper triangles; or null
  const double *values;      // one a observation
  const double *prior;       // P, (width, width)
  const double *shift;       // h, (width)
  const double *scale;       // one a major index, or null
  std::int64_t fixed;        // the coordinate held at 1, or -1
  double noise;
  double *mean;        // out: (majors, width)
  double *covariance;  // out: upper triangles, or null; may be where the sums are
  double *squares;     // out: expected sum_t w_t (r_t - x y_t)^2, one a major index
  double *scratch;     // normal_scratch(width, stride) doubles, aligned
};

// sum_t w_t y_t y_t^T for each major index: (majors, width, width)
template <class R>
struct BlocksJob {
  Gathered<R> from;
  std::int64_t first, last;
  R *out;
  R *scratch;  // stride^2 numbers, aligned
};

// x with x (sum_t w_t y_t y_t^T + shift I) = right for each major index, without storing the blocks
template <class R>
struct SolveBlocksJob {
  Gathered<R> from;
  std::int64_t first, last;
  double shift;
  const R *right;   // (majors, width)
  R *solutions;     // out, (majors, width)
  double *scratch;  // solve_blocks_scratch(width, stride) doubles, aligned
};

// Steps of conjugate gradients towards x with (sum_t w_t y_t y_t^T + diag(P) + ridge I) x = sum_t w_t r_t y_t, for each major index
// from its start. The rows of factors that a system needs stay in the nearest caches from one step to the next.
template <class R>
struct StepsJob {
  const std::int64_t *indptr;  // major pointers
  const std::int32_t *index;   // minor indices, padded by kPrefetch entries
  std::int64_t first, last;    // range of major indices
  std::int64_t width, stride;  // of a factor; the same in whole cache lines
  const R *other;              // packed to `stride`
  const R *values;             // one a observation
  const R *weights;            // one a observation, or null
  const R *prior;              // P, (width)
  const R *ridge;              // one a major index
  const R *start;              // (majors, width)
  R *out;                      // (majors, width); may be the start
  std::int64_t steps;
  R *scratch;                  // steps_scratch(stride) numbers, aligned
};

inline std::int64_t steps_scratch(std::int64_t stride) { return 6 * stride; }

constexpr int kTogether = 8;  // systems that are solved side by side: entry (a, d) of all of them is one cache line

// Systems with symmetric positive definite matrices: their Cholesky factors, upper triangles of kTogether systems side by
// side with the inverses of the pivots on the diagonal, and solutions with them. Pivots are kept above the rounding of R.
template <class R>
struct SystemsJob {
  std::int64_t n, width;      // systems, and their size
  std::int64_t first, last;   // range of groups
  const R *matrices;          // factor: (n, width, width), the upper triangles are read
  R *factors;                 // factor: out; solve: in. (groups, width (width + 1) / 2, kTogether)
  const R *right;             // solve: (n, width)
  R *solutions;               // solve: out, (n, width)
  double *scratch;            // systems_scratch(width) doubles, aligned
};

inline std::int64_t triangle(std::int64_t width) { return width * (width + 1) / 2; }
inline std::int64_t normal_scratch(std::int64_t width, std::int64_t stride) {
  return stride * (stride + 1) + kTogether * (3 * triangle(width) + 2 * width + 2);
}
inline std::int64_t systems_scratch(std::int64_t width) { return kTogether * (triangle(width) + width); }
inline std::int64_t solve_blocks_scratch(std::int64_t width, std::int64_t stride) {
  return kTogether * (triangle(width) + 2 * width) + stride * stride;
}

struct NormalTable {
  void (*normal)(const NormalJob &);
  void (*blocks_f32)(const BlocksJob<float> &);
  void (*blocks_f64)(const BlocksJob<double> &);
  void (*factor_f32)(const SystemsJob<float> &);
  void (*factor_f64)(const SystemsJob<double> &);
  void (*solve_f32)(const SystemsJob<float> &);
  void (*solve_f64)(const SystemsJob<double> &);
  void (*steps_f32)(const StepsJob<float> &);
  void (*steps_f64)(const StepsJob<double> &);
  void (*solve_blocks_f32)(const SolveBlocksJob<float> &);
  void (*solve_blocks_f64)(const SolveBlocksJob<double> &);
};

}  // namespace lorank
