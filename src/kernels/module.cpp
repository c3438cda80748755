// The Python face of the kernels. Every entry point checks shape, dtype and layout before it touches memory; index ranges
// were checked when the Pattern was built, and a Pattern cannot be changed afterwards.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <complex>
#include <optional>

#include "array_arguments.h"
#include "pattern.h"
#include "tall.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
void bind_gaps(nb::module_ &m);                   // gaps_module.cpp
void bind_nonnegative(nb::class_<Pattern> &cls);  // nonnegative_module.cpp
void bind_pairs(nb::module_ &m);                  // pairs_module.cpp
void bind_sides(nb::class_<Pattern> &cls);        // sides_module.cpp
}

using lorank::aligned;
using lorank::Factor;
using lorank::Matrix;
using lorank::Pattern;
using lorank::Vector;

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

void require(bool ok, const char *what, std::int64_t got, std::int64_t expected) {
  if (!ok)
    throw std::invalid_argument(std::string(what) + ": got " + std::to_string(got) + ", expected " + std::to_string(expected));
}

template <class A>
void require_aligned(const A &a, const char *name) {
  if (!aligned(a)) throw std::invalid_argument(std::string(name) + ": the array is not aligned");
}

template <class A>
void require_size(const A &a, const char *name, std::int64_t expected) {
  require_aligned(a, name);
  require(static_cast<std::int64_t>(a.shape(0)) == expected, name, a.shape(0), expected);
}

template <class A>
void require_shape(const A &a, const char *name, std::int64_t rows, std::int64_t width) {
  require_aligned(a, name);
  require(static_cast<std::int64_t>(a.shape(0)) == rows, name, a.shape(0), rows);
  require(static_cast<std::int64_t>(a.shape(1)) == width, name, a.shape(1), width);
}

template <class T>
void bind(nb::class_<Pattern> &cls) {
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

void bind_normal(nb::class_<Pattern> &cls) {
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
        lorank::NormalJob job{};
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

template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class A>
void require_shape(const A &a, const char *name, std::int64_t n, std::int64_t rows, std::int64_t width) {
  require_shape(a, name, n, rows);
  require(static_cast<std::int64_t>(a.shape(2)) == width, name, a.shape(2), width);
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
        lorank::StepsJob<R> job{};
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
        require_shape(factors, "factors", (n + lorank::kTogether - 1) / lorank::kTogether, lorank::triangle(width),
                      lorank::kTogether);
        nb::gil_scoped_release nogil;
        lorank::factor_systems<R>(n, width, matrices.data(), factors.data());
      },
      "matrices"_a.noconvert(), "factors"_a.noconvert());
  m.def(
      "solve_systems",
      [](Cube<const R> factors, Matrix<const R> right, Matrix<R> solutions) {
        const std::int64_t n = right.shape(0), width = right.shape(1);
        require(n > 0 && width > 0, "right: rows and columns", width, 1);
        require_shape(factors, "factors", (n + lorank::kTogether - 1) / lorank::kTogether, lorank::triangle(width),
                      lorank::kTogether);
        require_shape(right, "right", n, width);
        require_shape(solutions, "solutions", n, width);
        nb::gil_scoped_release nogil;
        lorank::solve_systems<R>(n, width, factors.data(), right.data(), solutions.data());
      },
      "factors"_a.noconvert(), "right"_a.noconvert(), "solutions"_a.noconvert());
}

// A BLAS routine as SciPy hands it to Cython: a capsule that holds its address.
template <class R>
lorank::Gemm<R> gemm_in(const nb::object &capsule) {
  void *address = PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())) : nullptr;
  if (!address) throw nb::type_error("gemm: expected a capsule from scipy.linalg.cython_blas");
  return reinterpret_cast<lorank::Gemm<R>>(address);
}

template <class R>
using Rows = nb::ndarray<const R, nb::ndim<2>, nb::device::cpu>;  // C-contiguous, or columns of a wider array that is

template <class R>
lorank::Tall<R> tall(const Rows<R> &a, const char *name, std::int64_t rows, std::int64_t width) {
  require_shape(a, name, rows, width);
  const std::int64_t stride = rows > 1 ? a.stride(0) : width;
  if ((width > 1 && a.stride(1) != 1) || stride < width || stride > INT32_MAX)
    throw std::invalid_argument(std::string(name) + ": the numbers of a row must lie side by side, and its rows one after the other");
  return {a.data(), static_cast<int>(width), static_cast<int>(std::max<std::int64_t>(stride, 1))};
}

template <class R>
void bind_tall(nb::module_ &m) {
  m.def(
      "gram",
      [](nb::object gemm, Rows<R> a, Rows<R> b, Matrix<R> out) {
        require(a.shape(1) > 0 && b.shape(1) > 0, "a, b: columns", 0, 1);
        const lorank::Tall<R> left = tall<R>(a, "a", a.shape(0), a.shape(1)), right = tall<R>(b, "b", a.shape(0), b.shape(1));
        require_shape(out, "out", a.shape(1), b.shape(1));
        const lorank::Gemm<R> product = gemm_in<R>(gemm);
        nb::gil_scoped_release nogil;
        lorank::gram<R>(product, a.shape(0), left, right, out.data());
      },
      "gemm"_a, "a"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert());
  m.def(
      "combine",
      [](nb::object gemm, Matrix<const R> base, double sign, Rows<R> u1, Matrix<const R> a1, Rows<R> u2, Matrix<const R> a2,
         Matrix<R> out) {
        const std::int64_t n = out.shape(0), q = out.shape(1), p1 = u1.shape(1), p2 = u2.shape(1);
        const bool based = base.shape(0) != 0;
        require(q > 0 && p1 > 0, "u1, out: columns", 0, 1);
        require_shape(out, "out", n, q);
        if (based) require_shape(base, "base", n, q);
        const lorank::Tall<R> first = tall<R>(u1, "u1", n, p1), second = tall<R>(u2, "u2", n, p2);
        require_shape(a1, "a1", p1, q);
        require_shape(a2, "a2", p2, q);
        const lorank::Gemm<R> product = gemm_in<R>(gemm);
        nb::gil_scoped_release nogil;
        lorank::combine<R>(product, n, static_cast<int>(q), based ? base.data() : nullptr, static_cast<R>(sign), first, a1.data(),
                           second, a2.data(), out.data());
      },
      "gemm"_a, "base"_a.noconvert(), "sign"_a, "u1"_a.noconvert(), "a1"_a.noconvert(), "u2"_a.noconvert(), "a2"_a.noconvert(),
      "out"_a.noconvert());
}

template <class I>
void bind_order(nb::module_ &m) {
  m.def(
      "row_major_order",
      [](Vector<const I> rows, Vector<const I> cols, std::int64_t n1, std::int64_t n2, Vector<std::int64_t> order) {
        require_aligned(rows, "rows");
        require_size(cols, "cols", rows.shape(0));
        require_size(order, "order", rows.shape(0));
        require(n1 >= 0 && n1 <= INT32_MAX, "n1: at most", n1, INT32_MAX);
        require(n2 >= 0 && n2 <= INT32_MAX, "n2: at most", n2, INT32_MAX);
        nb::gil_scoped_release nogil;
        lorank::row_major_order(rows.data(), cols.data(), static_cast<std::int64_t>(rows.shape(0)), n1, n2, order.data());
      },
      "rows"_a.noconvert(), "cols"_a.noconvert(), "n1"_a, "n2"_a, "order"_a.noconvert());
}

// Both orders as they lie in memory, which the pattern keeps alive; indices are padded.
template <class I>
void bind_mapped(nb::class_<Pattern> &cls) {
  cls.def(
      "__init__",
      [](Pattern *self, Vector<const std::int64_t> indptr, Vector<const std::int32_t> indices, Vector<const std::int64_t> colptr,
         Vector<const std::int32_t> rows, Vector<const I> order) {
        const std::int64_t m = order.shape(0);
        require(indptr.shape(0) > 1 && colptr.shape(0) > 1, "indptr, colptr: entries", 1, 2);
        require_aligned(indptr, "indptr");
        require_aligned(colptr, "colptr");
        require_aligned(order, "order");
        require_size(indices, "indices", m + lorank::kPrefetch);
        require_size(rows, "rows", m + lorank::kPrefetch);
        const std::int32_t *short_order = nullptr;
        const std::int64_t *long_order = nullptr;
        if constexpr (sizeof(I) == 4)
          short_order = order.data();
        else
          long_order = order.data();
        nb::gil_scoped_release nogil;
        new (self) Pattern(indptr.data(), static_cast<std::int64_t>(indptr.shape(0)) - 1, indices.data(), m,
                           static_cast<std::int64_t>(colptr.shape(0)) - 1, colptr.data(), rows.data(), short_order, long_order);
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "colptr"_a.noconvert(), "rows"_a.noconvert(), "order"_a.noconvert(),
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>());
}

}  // namespace

NB_MODULE(_kernels, m) {
  m.doc() = "Passes over the observed entries (see src/kernels).";
  nb::class_<Pattern> cls(m, "Pattern");
  cls.def(
      "__init__",
      [](Pattern *self, Vector<const std::int64_t> indptr, Vector<const std::int32_t> indices, std::int64_t n2) {
        require(indptr.shape(0) > 0, "indptr", indptr.shape(0), 1);
        require_aligned(indptr, "indptr");
        require_aligned(indices, "indices");
        nb::gil_scoped_release nogil;
        new (self) Pattern(indptr.data(), static_cast<std::int64_t>(indptr.shape(0)) - 1, indices.data(),
                           static_cast<std::int64_t>(indices.shape(0)), n2);
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "n2"_a);
  bind_mapped<std::int32_t>(cls);
  bind_mapped<std::int64_t>(cls);
  cls.def_ro("n1", &Pattern::n1).def_ro("n2", &Pattern::n2).def_ro("m", &Pattern::m);
  bind<double>(cls);
  bind<float>(cls);
  bind<std::complex<double>>(cls);
  bind<std::complex<float>>(cls);
  bind_normal(cls);
  bind_systems<float>(cls, m);
  bind_systems<double>(cls, m);
  bind_order<std::int64_t>(m);
  bind_order<std::int32_t>(m);
  bind_tall<float>(m);
  bind_tall<double>(m);
  lorank::bind_gaps(m);
  lorank::bind_nonnegative(cls);
  lorank::bind_pairs(m);
  lorank::bind_sides(cls);
  m.attr("TOGETHER") = lorank::kTogether;
  m.attr("PREFETCH") = lorank::kPrefetch;
  m.def("instruction_set", &lorank::instruction_set, "The instruction set in use.");
  m.def("instruction_sets", &lorank::instruction_sets, "Those that this machine can run, plainest first.");
  m.def("use_instruction_set", &lorank::use_instruction_set, "name"_a);
  m.def("release_scratch", &lorank::release_scratch, "Give back the memory that passes of this thread keep for the next.");
  m.def("threads", &lorank::threads, "Threads that a pass uses (OMP_NUM_THREADS, threadpoolctl).");
}
