// Nonnegative normal equations of each row (column): with y_t the other side's factors, r_t the values and
// w_t the weights, the least value over x >= 0 of
//
//     x^T M x / 2 - h^T x,   M = sum_t w_t y_t y_t^T + P + ridge I,   h = sum_t w_t r_t y_t + ridge centre.
//
// Cycles of coordinate descent from x: each is monotone, and a coordinate that stays at zero costs no update.
// Real numbers in double precision. As in passes.h, only plain data crosses this interface.
#pragma once
#include "normal.h"

namespace lorank {

struct NonnegativeJob {
  Gathered<double> from;
  std::int64_t first, last;  // range of major indices
  const double *values;      // one a observation
  const double *prior;       // P, (width, width), or null
  const double *centre;      // (width)
  const double *ridge;       // one a major index
  std::int64_t cycles;       // at the most
  double tolerance;          // a cycle that moves x by less than this share of it is the last; both measured by M's diagonal
  double *x;                 // in: the nonnegative start; out: (majors, width)
  double *squares;           // out: sum_t w_t (r_t - x y_t)^2, one a major index
  double *scratch;           // nonnegative_scratch(stride) doubles, aligned
};

inline std::int64_t nonnegative_scratch(std::int64_t stride) { return stride * (stride + 3); }

using Nonnegative = void (*)(const NonnegativeJob &);

}  // namespace lorank
