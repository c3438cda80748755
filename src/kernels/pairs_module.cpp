// Python bindings of pairs.h: shapes, indices and layouts are checked before memory is touched.
#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "array_arguments.h"
#include "packed.h"
#include "pairs.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

constexpr std::int64_t kChunk = 4096;    // pairs that one thread takes at a time
constexpr std::int64_t kShared = 65536;  // numbers to be gathered from which more threads are worth waking

using Index = Vector<const std::int64_t>;

template <class R>
PairsJob<R> make_job(const Matrix<const R> &left, const Matrix<const R> &right, const Index &rows, const Index &cols,
                     const Vector<R> &out) {
  require(aligned(left) && aligned(right) && aligned(rows) && aligned(cols) && aligned(out), "arrays must be aligned");
  require(left.shape(1) == right.shape(1), "left and right must be alike in width");
  require(rows.shape(0) == out.shape(0) && cols.shape(0) == out.shape(0), "rows, cols and out must be alike in length");
  PairsJob<R> job{};
  job.width = left.shape(1);
  job.left = left.data();
  job.right = right.data();
  job.rows = rows.data();
  job.cols = cols.data();
  job.out = out.data();
  return job;
}

// In chunks of pairs; false, and nothing useful in out, where an index lies outside.
template <class R>
bool share(const PairsJob<R> &whole, std::int64_t n1, std::int64_t n2, std::int64_t m, std::int64_t numbers,
           void (*pass)(const PairsJob<R> &)) {
  const std::int64_t chunks = (m + kChunk - 1) / kChunk;
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), m * numbers >= kShared ? chunks : 1));
  bool sound = true;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1) reduction(&& : sound)
  for (std::int64_t c = 0; c < chunks; ++c) {
    PairsJob<R> job = whole;
    job.first = c * kChunk;
    job.last = std::min(m, job.first + kChunk);
    bool inside = true;
    for (std::int64_t k = job.first; k < job.last; ++k)
      inside &= job.rows[k] >= 0 && job.rows[k] < n1 && job.cols[k] >= 0 && job.cols[k] < n2;
    if (inside) pass(job);
    sound = sound && inside;
  }
  return sound;
}

template <class R>
bool entries(Matrix<const R> left, Matrix<const R> right, Index rows, Index cols, Vector<R> out) {
  const PairsJob<R> job = make_job<R>(left, right, rows, cols, out);
  const std::int64_t n1 = left.shape(0), n2 = right.shape(0), m = out.shape(0);
  nb::gil_scoped_release nogil;
  if constexpr (std::is_same_v<R, float>)
    return share(job, n1, n2, m, job.width, active()->pairs->entries32);
  else
    return share(job, n1, n2, m, job.width, active()->pairs->entries64);
}

bool variances(Matrix<const double> left, Matrix<const double> left_cov, Matrix<const double> right,
               Matrix<const double> right_cov, Index rows, Index cols, Vector<double> out) {
  PairsJob<double> job = make_job<double>(left, right, rows, cols, out);
  const std::int64_t n1 = left.shape(0), n2 = right.shape(0), m = out.shape(0), size = job.width * (job.width + 1) / 2;
  require(shaped(left_cov, n1, size) && shaped(right_cov, n2, size),
          "covariances must be one upper triangle for each row of left and right");
  job.left_cov = left_cov.data();
  job.right_cov = right_cov.data();
  nb::gil_scoped_release nogil;
  return share(job, n1, n2, m, size, active()->pairs->variances64);
}

}  // namespace

void bind_pairs(nb::module_ &m) {
  m.def("entries", &entries<double>, "left"_a.noconvert(), "right"_a.noconvert(), "rows"_a.noconvert(), "cols"_a.noconvert(),
        "out"_a.noconvert(), "Entries of left right^T at index pairs; False where an index lies outside.");
  m.def("entries", &entries<float>, "left"_a.noconvert(), "right"_a.noconvert(), "rows"_a.noconvert(), "cols"_a.noconvert(),
        "out"_a.noconvert());
  m.def("variances", &variances, "left"_a.noconvert(), "left_cov"_a.noconvert(), "right"_a.noconvert(),
        "right_cov"_a.noconvert(), "rows"_a.noconvert(), "cols"_a.noconvert(), "out"_a.noconvert(),
        "Variances of these entries where rows have covariances; False where an index lies outside.");
}

}  // namespace lorank
