// Numbers for index pairs in any order, from arrays of one row for each index: entries of a product, and the variances of
// entries whose factors are uncertain. As in passes.h, only plain data crosses this interface.
#pragma once
#include <cstdint>

namespace lorank {

template <class R>
struct PairsJob {
  std::int64_t width;             // of left and right
  std::int64_t first, last;       // range of pairs
  const R *left, *right;          // (n1, width) and (n2, width)
  const R *left_cov, *right_cov;  // upper triangles, row by row: (n1, width (width + 1) / 2) and (n2, ...); variances only
  const std::int64_t *rows, *cols;
  R *out;  // one for each pair
};

struct Pairs {
  void (*entries32)(const PairsJob<float> &);     // x . y
  void (*entries64)(const PairsJob<double> &);
  void (*variances64)(const PairsJob<double> &);  // y^T S y + x^T T x + trace(S T)
};

}  // namespace lorank
