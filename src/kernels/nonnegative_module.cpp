// The pass of nonnegative.h over a pattern, and its Python face: shapes and layouts are checked before memory is touched.
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "array_arguments.h"
#include "packed.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

void solve(const Pattern &p, bool columns, Matrix<const double> other, Vector<const double> values, Vector<const double> centre,
           Vector<const double> ridge, std::int64_t cycles, double tolerance, Matrix<double> x, Vector<double> squares,
           std::optional<Matrix<const double>> prior, std::optional<Vector<const double>> weights) {
  const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
  require(width > 0 && shaped(other, minors, width), "other: one row for each of the other side, and a column at least");
  require(sized(values, p.m), "values: one for each observation");
  require(sized(centre, width), "centre: one for each column of other");
  require(sized(ridge, majors), "ridge: one for each row that is solved for");
  require(shaped(x, majors, width), "x: a row for each that is solved for");
  require(sized(squares, majors), "squares: one for each row that is solved for");
  require(!prior || shaped(*prior, width, width), "prior: as many rows and columns as other has columns");
  require(!weights || sized(*weights, p.m), "weights: one for each observation");
  NonnegativeJob job{};
  job.values = values.data();
  job.prior = prior ? prior->data() : nullptr;
  job.centre = centre.data();
  job.ridge = ridge.data();
  job.cycles = cycles;
  job.tolerance = tolerance;
  job.x = x.data();
  job.squares = squares.data();
  nb::gil_scoped_release nogil;
  p.nonnegative(columns, Factor<double>{other.data(), minors, width}, weights ? weights->data() : nullptr, job);
}

}  // namespace

void Pattern::nonnegative(bool columns, Factor<double> other, const double *weights, NonnegativeJob job) const {
  job.from = gather_rows(columns, other, weights);
  const std::int64_t load = 1 + other.width;  // descending takes about as long as adding that many observations
  split_job(columns, load, nonnegative_scratch(job.from.stride), job, active()->nonnegative);
}

void bind_nonnegative(nb::class_<Pattern> &cls) {
  cls.def("nonnegative", &solve, "columns"_a, "other"_a.noconvert(), "values"_a.noconvert(), "centre"_a.noconvert(),
          "ridge"_a.noconvert(), "cycles"_a, "tolerance"_a, "x"_a.noconvert(), "squares"_a.noconvert(),
          "prior"_a.noconvert() = nb::none(), "weights"_a.noconvert() = nb::none());
}

}  // namespace lorank
