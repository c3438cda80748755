// The pass of alternating least squares: for each row (column) the normal equations of its factor, solved.
//
// With y_t the other side's factors (and S_t their covariances, where there are any), r_t the values and w_t the weights,
//
//     A = sum_t w_t (y_t y_t^T + S_t),   b = sum_t w_t r_t y_t,   (noise A + scale P) x = noise b + scale h,
//
// P and h the prior's precision and precision times mean. One coordinate may be held at 1, so that offsets are factors like
// any other. Real numbers in double precision. As in passes.h, only plain data crosses this border.
#pragma once
#include <cstdint>

namespace lorank {

struct NormalJob {
  const std::int64_t *indptr;  // major pointers
  const std::int32_t *index;   // minor indices, padded by kPrefetch entries
  std::int64_t first, last;    // range of major indices
  std::int64_t width;          // coordinates of a factor
  std::int64_t stride;         // the same, rounded up to a cache line
  const double *other;         // packed to `stride`, gathered
  const double *moments;       // S_t: upper triangles, width (width + 1) / 2 each; or null
  const double *values;        // one a observation
  const double *weights;       // one a observation, or null
  const double *prior;         // P, (width, width)
  const double *shift;         // h, (width)
  const double *scale;         // one a major index, or null
  std::int64_t fixed;          // the coordinate held at 1, or -1
  double noise;
  double *mean;                // out: (majors, width)
  double *covariance;          // out: upper triangles, or null
  double *squares;             // out: expected sum_t w_t (r_t - x y_t)^2, one a major index
  double *scratch;             // normal_scratch(width, stride) doubles, aligned
};

inline std::int64_t normal_scratch(std::int64_t width, std::int64_t stride) {
  return 3 * stride * stride + 3 * stride + (width * (width + 1) / 2 + 7) / 8 * 8;
}

using NormalPass = void (*)(const NormalJob &);

void normal_baseline(const NormalJob &);
#ifdef LORANK_X86_LEVELS
void normal_avx2(const NormalJob &);
void normal_avx512(const NormalJob &);
#endif

}  // namespace lorank
