// Missing values under a Gaussian: with precision K, a row that lacks the columns m has the conditional mean -inv(K_mm) g_m
// (g the row's known cells times K) and the conditional covariance inv(K_mm). Rows that lack the same columns share the inverse.
// As in passes.h, only plain data crosses this interface.
#pragma once
#include <cstdint>

namespace lorank {

struct GapsJob {
  std::int64_t width;               // columns of the table
  std::int64_t first, last;         // range of patterns
  const double *precision;          // K, (width, width)
  const std::int64_t *column_ptr;   // where a pattern's columns begin
  const std::int32_t *columns;      // those it lacks
  const std::int64_t *row_ptr;      // where a pattern's rows begin
  const std::int64_t *rows;
  const double *products;           // g, (n, width)
  double *values;                   // out, in the gaps: (n, width)
  double *deviations;               // out, in the gaps: (n, width), or null
  double *moments;                  // inverses are added up here, once for each row: (width, width), or null
  double *scratch;                  // gaps_scratch(most columns that a pattern lacks) doubles, aligned to a line
};

inline std::int64_t gaps_stride(std::int64_t count) { return (count + 7) / 8 * 8; }
inline std::int64_t gaps_scratch(std::int64_t count) { return gaps_stride(count) * (count + 1); }

using FillGaps = void (*)(const GapsJob &);

}  // namespace lorank
