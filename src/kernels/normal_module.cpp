// Python bindings of normal equations, a system for each row or column: shapes and layouts are checked before memory is touched.
#include <nanobind/stl/optional.h>

#include <optional>

#include "array_arguments.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

void bind_solved(nb::class_<Pattern> &cls) {
  cls.def(
      "normal",
      [](const Pattern &p, bool columns, Matrix<const double> other, Matrix<const double> moments, Vector<const double> values,
         Vector<const double> weights, Matrix<const double> prior, Vector<const double> shift, Vector<const double> scale,
         std::int64_t fixed, double noise, Matrix<double> mean, Matrix<double> covariance, Vector<double> squares,
         std::optional<Vector<const double>> own_side, std::optional<Vector<const double>> other_side) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
        const std::int64_t size = width * (width + 1) / 2;
        require(width > 0, "other: columns", width, 1);
        require(fixed >= -1 && fixed < width, "fixed: below", fixed, width);
        require_shape(other, "other", minors, width);
        const bool moment = moments.shape(0) != 0, weighted = weights.shape(0) != 0, scaled = scale.shape(0) != 0,
                   wanted = covariance.shape(0) != 0;
        if (moment) require_shape(moments, "moments", minors, size);
        if (weighted) require_size(weights, "weights", p.m);
        if (scaled) require_size(scale, "scale", majors);
        if (wanted) require_shape(covariance, "covariance", majors, size);
        require_size(values, "values", p.m);
        require_shape(prior, "prior", width, width);
        require_size(shift, "shift", width);
        require_shape(mean, "mean", majors, width);
        require_size(squares, "squares", majors);
        require(own_side.has_value() == other_side.has_value(), "own_side and other_side, both or none: arrays", 1, 2);
        Pattern::Sides sides{};
        if (own_side) {
          require_size(*own_side, "own_side", majors);
          require_size(*other_side, "other_side", minors);
          sides = {own_side->data(), other_side->data()};
        }
        NormalJob job{};
        job.values = values.data();
        job.prior = prior.data();
        job.shift = shift.data();
        job.scale = scaled ? scale.data() : nullptr;
        job.fixed = fixed;
        job.noise = noise;
        job.mean = mean.data();
        job.covariance = wanted ? covariance.data() : nullptr;
        job.squares = squares.data();
        nb::gil_scoped_release nogil;
        p.normal(columns, Factor<double>{other.data(), minors, width}, moment ? moments.data() : nullptr,
                 weighted ? weights.data() : nullptr, own_side ? &sides : nullptr, job);
      },
      "columns"_a, "other"_a.noconvert(), "moments"_a.noconvert(), "values"_a.noconvert(), "weights"_a.noconvert(),
      "prior"_a.noconvert(), "shift"_a.noconvert(), "scale"_a.noconvert(), "fixed"_a, "noise"_a, "mean"_a.noconvert(),
      "covariance"_a.noconvert(), "squares"_a.noconvert(), "own_side"_a.noconvert() = nb::none(),
      "other_side"_a.noconvert() = nb::none());
}

template <class R>
void bind_systems(nb::class_<Pattern> &cls, nb::module_ &m) {
  cls.def(
      "blocks",
      [](const Pattern &p, bool columns, Matrix<const R> other, Cube<R> out, std::optional<Vector<const double>> weights) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
        require(width > 0, "other: columns", width, 1);
        require_shape(other, "other", minors, width);
        require_shape(out, "out", majors, width, width);
        if (weights) require_size(*weights, "weights", p.m);
        nb::gil_scoped_release nogil;
        p.blocks<R>(columns, Factor<R>{other.data(), minors, width}, weights ? weights->data() : nullptr, out.data());
      },
      "columns"_a, "other"_a.noconvert(), "out"_a.noconvert(), "weights"_a.noconvert() = nb::none());
  cls.def(
      "solve_blocks",
      [](const Pattern &p, bool columns, Matrix<const R> other, double shift, Matrix<const R> right, Matrix<R> solutions,
         std::optional<Vector<const double>> weights) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
        require(width > 0, "other: columns", width, 1);
        require_shape(other, "other", minors, width);
        require_shape(right, "right", majors, width);
        require_shape(solutions, "solutions", majors, width);
        if (weights) require_size(*weights, "weights", p.m);
        nb::gil_scoped_release nogil;
        p.solve_blocks<R>(columns, Factor<R>{other.data(), minors, width}, weights ? weights->data() : nullptr, shift, right.data(),
                          solutions.data());
      },
      "columns"_a, "other"_a.noconvert(), "shift"_a, "right"_a.noconvert(), "solutions"_a.noconvert(),
      "weights"_a.noconvert() = nb::none());
  cls.def(
      "steps",
      [](const Pattern &p, bool columns, Matrix<const R> other, Vector<const R> values, Vector<const R> prior,
         Vector<const R> ridge, Matrix<const R> start, std::int64_t count, Matrix<R> out, std::optional<Vector<const R>> weights) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
        require(width > 0, "other: columns", width, 1);
        require(count >= 0, "steps", count, 0);
        require_shape(other, "other", minors, width);
        require_size(values, "values", p.m);
        require_size(prior, "prior", width);
        require_size(ridge, "ridge", majors);
        require_shape(start, "start", majors, width);
        require_shape(out, "out", majors, width);
        if (weights) require_size(*weights, "weights", p.m);
        StepsJob<R> job{};
        job.values = values.data();
        job.weights = weights ? weights->data() : nullptr;
        job.prior = prior.data();
        job.ridge = ridge.data();
        job.start = start.data();
        job.out = out.data();
        job.steps = count;
        nb::gil_scoped_release nogil;
        p.steps<R>(columns, Factor<R>{other.data(), minors, width}, job);
      },
      "columns"_a, "other"_a.noconvert(), "values"_a.noconvert(), "prior"_a.noconvert(), "ridge"_a.noconvert(),
      "start"_a.noconvert(), "steps"_a, "out"_a.noconvert(), "weights"_a.noconvert() = nb::none());
  m.def(
      "factor_systems",
      [](Cube<const R> matrices, Cube<R> factors) {
        const std::int64_t n = matrices.shape(0), width = matrices.shape(1);
        require(n > 0 && width > 0, "matrices: rows and columns", width, 1);
        require_shape(matrices, "matrices", n, width, width);
        require_shape(factors, "factors", (n + kTogether - 1) / kTogether, triangle(width),
                      kTogether);
        nb::gil_scoped_release nogil;
        factor_systems<R>(n, width, matrices.data(), factors.data());
      },
      "matrices"_a.noconvert(), "factors"_a.noconvert());
  m.def(
      "solve_systems",
      [](Cube<const R> factors, Matrix<const R> right, Matrix<R> solutions) {
        const std::int64_t n = right.shape(0), width = right.shape(1);
        require(n > 0 && width > 0, "right: rows and columns", width, 1);
        require_shape(factors, "factors", (n + kTogether - 1) / kTogether, triangle(width),
                      kTogether);
        require_shape(right, "right", n, width);
        require_shape(solutions, "solutions", n, width);
        nb::gil_scoped_release nogil;
        solve_systems<R>(n, width, factors.data(), right.data(), solutions.data());
      },
      "factors"_a.noconvert(), "right"_a.noconvert(), "solutions"_a.noconvert());
}

}  // namespace

void bind_normal(nb::class_<Pattern> &cls, nb::module_ &m) {
  bind_solved(cls);
  bind_systems<float>(cls, m);
  bind_systems<double>(cls, m);
}

}  // namespace lorank
