// Python bindings of the passes that solvers make over a pattern: shapes and layouts are checked before memory is touched.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <complex>
#include <optional>
#include <utility>

#include "array_arguments.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

template <class T>
struct Scalar {
  using real = T;
  static constexpr bool complex = false;
};
template <class T>
struct Scalar<std::complex<T>> {
  using real = T;
  static constexpr bool complex = true;
};

template <class T>
void bind_scalar(nb::class_<Pattern> &cls) {
  using R = typename Scalar<T>::real;
  constexpr bool C = Scalar<T>::complex;
  auto factor = [](const Matrix<const T> &a) {
    return Factor<R>{reinterpret_cast<const R *>(a.data()), static_cast<std::int64_t>(a.shape(0)),
                     static_cast<std::int64_t>(a.shape(1))};
  };
  auto in = [](const Vector<const T> &a) { return reinterpret_cast<const R *>(a.data()); };

  cls.def(
      "gradient",
      [factor, in](const Pattern &p, bool columns, Matrix<const T> own, Vector<const R> scale, Matrix<const T> other,
                   Vector<const T> values, Matrix<T> sums, Vector<double> squares, bool mixed,
                   std::optional<Vector<const R>> weights, std::optional<Vector<double>> misfit) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = own.shape(1);
        require(width > 0, "own: columns", width, 1);
        require_shape(own, "own", majors, width);
        require_shape(other, "other", minors, width);
        require_size(scale, "scale", width);
        require_size(values, "values", p.m);
        require_shape(sums, "sums", majors, width);
        require_size(squares, "squares", majors);
        if (weights) require_size(*weights, "weights", p.m);
        if (misfit) require_size(*misfit, "misfit", majors);
        require(!misfit || weights, "misfit, which only a weighted pass gives: arrays", 1, 0);
        nb::gil_scoped_release nogil;
        p.gradient<R, C>(columns, factor(own), scale.data(), factor(other), in(values), weights ? weights->data() : nullptr,
                         reinterpret_cast<R *>(sums.data()), squares.data(), misfit ? misfit->data() : nullptr, mixed);
      },
      "columns"_a, "own"_a.noconvert(), "scale"_a.noconvert(), "other"_a.noconvert(), "values"_a.noconvert(),
      "sums"_a.noconvert(), "squares"_a.noconvert(), "mixed"_a = false, "weights"_a.noconvert() = nb::none(),
      "misfit"_a.noconvert() = nb::none());

  cls.def(
      "sample",
      [factor, in](const Pattern &p, Matrix<const T> left1, Matrix<const T> right1, Matrix<const T> left2,
                   Matrix<const T> right2, Vector<const T> entries, Vector<T> sampled, bool mixed,
                   std::optional<Vector<const R>> weights) {
        const std::int64_t w1 = left1.shape(1), w2 = left2.shape(1);
        require(w1 > 0, "left1: columns", w1, 1);
        require_shape(left1, "left1", p.n1, w1);
        require_shape(right1, "right1", p.n2, w1);
        require_shape(left2, "left2", p.n1, w2);
        require_shape(right2, "right2", p.n2, w2);
        const bool given = entries.shape(0) != 0, stored = sampled.shape(0) != 0;
        if (given) require_size(entries, "p", p.m);
        if (weights) require_size(*weights, "weights", p.m);
        if (stored) require_size(sampled, "sampled", p.m);
        double inner = 0, squares = 0;
        nb::gil_scoped_release nogil;
        p.sample<R, C>(factor(left1), factor(right1), factor(left2), factor(right2), given ? in(entries) : nullptr,
                       weights ? weights->data() : nullptr, stored ? reinterpret_cast<R *>(sampled.data()) : nullptr, inner, squares, mixed);
        return std::pair<double, double>(inner, squares);
      },
      "left1"_a.noconvert(), "right1"_a.noconvert(), "left2"_a.noconvert(), "right2"_a.noconvert(), "p"_a.noconvert(),
      "sampled"_a.noconvert(), "mixed"_a = false, "weights"_a.noconvert() = nb::none());

  cls.def(
      "times",
      [factor, in](const Pattern &p, bool columns, Vector<const T> values, Matrix<const T> other, Matrix<T> sums) {
        const std::int64_t majors = columns ? p.n2 : p.n1, minors = columns ? p.n1 : p.n2, width = other.shape(1);
        require(width > 0, "other: columns", width, 1);
        require_size(values, "values", p.m);
        require_shape(other, "other", minors, width);
        require_shape(sums, "sums", majors, width);
        nb::gil_scoped_release nogil;
        p.times<R, C>(columns, in(values), factor(other), reinterpret_cast<R *>(sums.data()));
      },
      "columns"_a, "values"_a.noconvert(), "other"_a.noconvert(), "sums"_a.noconvert());

  cls.def(
      "to_columns",
      [in](const Pattern &p, Vector<const T> values, Vector<T> out) {
        require_size(values, "values", p.m);
        require_size(out, "out", p.m);
        nb::gil_scoped_release nogil;
        p.to_columns<R, C>(in(values), reinterpret_cast<R *>(out.data()));
      },
      "values"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace

void bind_passes(nb::class_<Pattern> &cls) {
  bind_scalar<double>(cls);
  bind_scalar<float>(cls);
  bind_scalar<std::complex<double>>(cls);
  bind_scalar<std::complex<float>>(cls);
}

}  // namespace lorank
