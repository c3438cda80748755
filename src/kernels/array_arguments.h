// Arrays as arguments from Python, and checks of their sizes and alignment before memory is touched: nanobind checks dtype and
// layout only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace lorank {

template <class T>
using Vector = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Matrix = nanobind::ndarray<T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Cube = nanobind::ndarray<T, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;

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

// The same, with the given and the expected number in the message.
inline void require(bool ok, const char *what, std::int64_t got, std::int64_t expected) {
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

template <class A>
void require_shape(const A &a, const char *name, std::int64_t n, std::int64_t rows, std::int64_t width) {
  require_shape(a, name, n, rows);
  require(static_cast<std::int64_t>(a.shape(2)) == width, name, a.shape(2), width);
}

}  // namespace lorank
