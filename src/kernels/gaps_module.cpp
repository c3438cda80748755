// Python bindings of gaps.h: shapes, indices and layouts are checked before memory is touched.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "array_arguments.h"
#include "gaps.h"
#include "packed.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

constexpr std::int64_t kChunk = 512;  // patterns that one thread takes at a time: fixed, so that bits do not depend on threads

// Pointers that begin at 0, never fall and end at `end`; indices below `limit`.
template <class I>
bool sound(const Vector<const std::int64_t> &ptr, const Vector<const I> &index, std::int64_t limit) {
  const std::int64_t count = static_cast<std::int64_t>(ptr.shape(0)) - 1, end = index.shape(0);
  if (!aligned(ptr) || !aligned(index) || count < 0 || ptr.data()[0] != 0 || ptr.data()[count] != end) return false;
  for (std::int64_t p = 0; p < count; ++p)
    if (ptr.data()[p + 1] < ptr.data()[p]) return false;
  for (std::int64_t e = 0; e < end; ++e)
    if (index.data()[e] < 0 || index.data()[e] >= limit) return false;
  return true;
}

void fill(Matrix<const double> precision, Vector<const std::int64_t> column_ptr, Vector<const std::int32_t> columns,
          Vector<const std::int64_t> row_ptr, Vector<const std::int64_t> rows, Matrix<const double> products,
          Matrix<double> values, std::optional<Matrix<double>> deviations, std::optional<Matrix<double>> moments) {
  const std::int64_t d = precision.shape(0), n = products.shape(0);
  require(shaped(precision, d, d), "precision must be square");
  require(shaped(products, n, d) && shaped(values, n, d), "products and values must be (n, d)");
  require(!deviations || shaped(*deviations, n, d), "deviations must be (n, d)");
  require(!moments || shaped(*moments, d, d), "moments must be (d, d)");
  require(column_ptr.shape(0) == row_ptr.shape(0), "patterns have columns and rows");
  require(sound(column_ptr, columns, d) && sound(row_ptr, rows, n), "patterns must lie within the table");
  const std::int64_t count = static_cast<std::int64_t>(row_ptr.shape(0)) - 1, chunks = (count + kChunk - 1) / kChunk;
  std::int64_t most = 0;
  for (std::int64_t p = 0; p < count; ++p) most = std::max(most, column_ptr.data()[p + 1] - column_ptr.data()[p]);
  if (!most) return;
  GapsJob whole{};
  whole.width = d;
  whole.precision = precision.data();
  whole.column_ptr = column_ptr.data();
  whole.columns = columns.data();
  whole.row_ptr = row_ptr.data();
  whole.rows = rows.data();
  whole.products = products.data();
  whole.values = values.data();
  whole.deviations = deviations ? deviations->data() : nullptr;
  std::vector<double> sums(moments ? chunks * d * d : 0);
  double *total = moments ? moments->data() : nullptr;
  const FillGaps pass = active()->fill_gaps;
  nb::gil_scoped_release nogil;
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), chunks));
#pragma omp parallel num_threads(team) if (team > 1)
  {
    Packed<double> scratch;
    scratch.reserve(gaps_scratch(most));
#pragma omp for schedule(dynamic)
    for (std::int64_t c = 0; c < chunks; ++c) {
      GapsJob job = whole;
      job.first = c * kChunk;
      job.last = std::min(count, job.first + kChunk);
      job.moments = total ? sums.data() + c * d * d : nullptr;
      job.scratch = scratch.data;
      pass(job);
    }
  }
  if (total)
    for (std::int64_t c = 0; c < chunks; ++c)
      for (std::int64_t e = 0; e < d * d; ++e) total[e] += sums[c * d * d + e];
}

}  // namespace

void bind_gaps(nb::module_ &m) {
  m.def("fill_gaps", &fill, "precision"_a.noconvert(), "column_ptr"_a.noconvert(), "columns"_a.noconvert(),
        "row_ptr"_a.noconvert(), "rows"_a.noconvert(), "products"_a.noconvert(), "values"_a.noconvert(),
        "deviations"_a.noconvert() = nb::none(), "moments"_a.noconvert() = nb::none(),
        "Conditional means in the gaps of rows under a Gaussian, their deviations, and the sum of their covariances.");
}

}  // namespace lorank
