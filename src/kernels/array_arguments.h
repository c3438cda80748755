// Arrays as Python hands them over, and what is asked of them before memory is touched: nanobind looks at dtype and layout, not
// at sizes or at the address.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>

namespace lorank {

template <class T>
using Vector = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Matrix = nanobind::ndarray<T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool ok, const char *what) {
  if (!ok) throw std::invalid_argument(what);
}

template <class A>
bool aligned(const A &a) {
  return reinterpret_cast<std::uintptr_t>(a.data()) % alignof(typename A::Scalar) == 0;
}

template <class A>
bool sized(const A &a, std::int64_t size) {
  return aligned(a) && static_cast<std::int64_t>(a.shape(0)) == size;
}

template <class A>
bool shaped(const A &a, std::int64_t rows, std::int64_t columns) {
  return sized(a, rows) && static_cast<std::int64_t>(a.shape(1)) == columns;
}

}  // namespace lorank
