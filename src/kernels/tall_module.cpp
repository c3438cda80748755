// Python bindings of tall.h: shapes and layouts are checked before memory is touched.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "array_arguments.h"
#include "tall.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

// A BLAS routine as SciPy hands it to Cython: a capsule that holds its address.
template <class R>
Gemm<R> gemm_in(const nb::object &capsule) {
  void *address = PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())) : nullptr;
  if (!address) throw nb::type_error("gemm: expected a capsule from scipy.linalg.cython_blas");
  return reinterpret_cast<Gemm<R>>(address);
}

template <class R>
using Rows = nb::ndarray<const R, nb::ndim<2>, nb::device::cpu>;  // C-contiguous, or columns of a wider array that is

template <class R>
Tall<R> tall(const Rows<R> &a, const char *name, std::int64_t rows, std::int64_t width) {
  require_shape(a, name, rows, width);
  const std::int64_t stride = rows > 1 ? a.stride(0) : width;
  if ((width > 1 && a.stride(1) != 1) || stride < width || stride > INT32_MAX)
    throw std::invalid_argument(std::string(name) + ": the numbers of a row must lie side by side, and its rows one after the other");
  return {a.data(), static_cast<int>(width), static_cast<int>(std::max<std::int64_t>(stride, 1))};
}

template <class R>
void bind_real(nb::module_ &m) {
  m.def(
      "gram",
      [](nb::object gemm, Rows<R> a, Rows<R> b, Matrix<R> out) {
        require(a.shape(1) > 0 && b.shape(1) > 0, "a, b: columns", 0, 1);
        const Tall<R> left = tall<R>(a, "a", a.shape(0), a.shape(1)), right = tall<R>(b, "b", a.shape(0), b.shape(1));
        require_shape(out, "out", a.shape(1), b.shape(1));
        const Gemm<R> product = gemm_in<R>(gemm);
        nb::gil_scoped_release nogil;
        gram<R>(product, a.shape(0), left, right, out.data());
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
        const Tall<R> first = tall<R>(u1, "u1", n, p1), second = tall<R>(u2, "u2", n, p2);
        require_shape(a1, "a1", p1, q);
        require_shape(a2, "a2", p2, q);
        const Gemm<R> product = gemm_in<R>(gemm);
        nb::gil_scoped_release nogil;
        combine<R>(product, n, static_cast<int>(q), based ? base.data() : nullptr, static_cast<R>(sign), first, a1.data(),
                           second, a2.data(), out.data());
      },
      "gemm"_a, "base"_a.noconvert(), "sign"_a, "u1"_a.noconvert(), "a1"_a.noconvert(), "u2"_a.noconvert(), "a2"_a.noconvert(),
      "out"_a.noconvert());
}

}  // namespace

void bind_tall(nb::module_ &m) {
  bind_real<float>(m);
  bind_real<double>(m);
}

}  // namespace lorank
