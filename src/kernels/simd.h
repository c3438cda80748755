// Registers of numbers, for the files that are compiled once per instruction set (LORANK_VECTOR_BYTES is the register's width).
// Everything here has internal linkage and uses no library templates: see passes.h for why.
#pragma once
#include <cstdint>
#include <cstring>

#include "passes.h"

namespace lorank {
namespace {

#if defined(__GNUC__) || defined(__clang__)
template <class R>
struct Simd {
  typedef R type __attribute__((vector_size(LORANK_VECTOR_BYTES)));
  static constexpr int lanes = LORANK_VECTOR_BYTES / sizeof(R);
};
inline void prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
// A pointer of which the compiler knows nothing more: it would else keep p + i for every i of an unrolled loop, in memory.
template <class R>
inline void opaque(const R *&p) {
  __asm__("" : "+r"(p));
}
#else  // a compiler without vector extensions: plain loops over a short array
template <class R>
struct Simd {
  static constexpr int lanes = LORANK_VECTOR_BYTES / sizeof(R);
  struct type {
    R x[lanes];
    type &operator+=(const type &b) {
      for (int i = 0; i < lanes; ++i) x[i] += b.x[i];
      return *this;
    }
    type &operator-=(const type &b) {
      for (int i = 0; i < lanes; ++i) x[i] -= b.x[i];
      return *this;
    }
    friend type operator*(type a, const type &b) {
      for (int i = 0; i < lanes; ++i) a.x[i] *= b.x[i];
      return a;
    }
    friend type operator*(R a, type b) {
      for (int i = 0; i < lanes; ++i) b.x[i] *= a;
      return b;
    }
    R operator[](int i) const { return x[i]; }
  };
};
inline void prefetch(const void *) {}
template <class R>
inline void opaque(const R *&) {}
#endif

template <class R>
using V = typename Simd<R>::type;

// As many numbers as a register of R holds, from where they are stored as S.
template <class R, class S>
struct Load {
  static inline V<R> from(const S *p) {
#if defined(__GNUC__) || defined(__clang__)
    typedef S stored __attribute__((vector_size(LORANK_VECTOR_BYTES / sizeof(R) * sizeof(S))));
    stored v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, V<R>);
#else
    V<R> v;
    for (int i = 0; i < Simd<R>::lanes; ++i) v.x[i] = p[i];
    return v;
#endif
  }
};
template <class R>
struct Load<R, R> {
  static inline V<R> from(const R *p) {
    V<R> v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
};

// The sum of the numbers in a register.
template <class R>
inline R sum_lanes(const V<R> &v) {
  constexpr int n = Simd<R>::lanes;
  R a[n];
  std::memcpy(a, &v, sizeof a);
  for (int width = n / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) a[i] += a[i + width];
  return a[0];
}

#if (defined(__GNUC__) || defined(__clang__)) && LORANK_VECTOR_BYTES >= 32
// Halving by registers: the compiler turns these copies into extracts.
template <class R, int BYTES>
struct Sum {
  typedef R full __attribute__((vector_size(BYTES)));
  typedef R half __attribute__((vector_size(BYTES / 2)));
  static inline R of(full v) {
    half lo, hi;
    std::memcpy(&lo, &v, BYTES / 2);
    std::memcpy(&hi, reinterpret_cast<const char *>(&v) + BYTES / 2, BYTES / 2);
    return Sum<R, BYTES / 2>::of(lo + hi);
  }
};
template <class R>
struct Sum<R, 16> {
  typedef R full __attribute__((vector_size(16)));
  static inline R of(full v) {
    if (sizeof(R) == 8) return v[0] + v[1];
    return (v[0] + v[2 % (16 / sizeof(R))]) + (v[1] + v[3 % (16 / sizeof(R))]);
  }
};
template <>
inline float sum_lanes<float>(const V<float> &v) {
  return Sum<float, LORANK_VECTOR_BYTES>::of(v);
}
template <>
inline double sum_lanes<double>(const V<double> &v) {
  return Sum<double, LORANK_VECTOR_BYTES>::of(v);
}
#endif

// A cache line of numbers.
template <class R>
struct LineOf {
  static constexpr int parts = kLineBytes / LORANK_VECTOR_BYTES;
  static constexpr int lanes = Simd<R>::lanes;
  V<R> part[parts];
  typedef LineOf Line;

  static inline Line zero() {
    Line x;
    for (int i = 0; i < parts; ++i) x.part[i] = V<R>{};
    return x;
  }
  static inline Line all(R a) {
    R x[kLineBytes / sizeof(R)];
    for (R &one : x) one = a;
    return from(x);
  }
  template <class S>
  static inline Line from(const S *p) {
    Line x;
    for (int i = 0; i < parts; ++i) x.part[i] = Load<R, S>::from(p + i * lanes);
    return x;
  }
  inline void put(R *p) const { std::memcpy(p, part, sizeof part); }
  inline void add(const Line &a, const Line &b) {  // += a b
    for (int i = 0; i < parts; ++i) part[i] += a.part[i] * b.part[i];
  }
  inline void add(R a, const Line &b) {
    for (int i = 0; i < parts; ++i) part[i] += a * b.part[i];
  }
  inline void subtract(const Line &a, const Line &b) {  // -= a b
    for (int i = 0; i < parts; ++i) part[i] -= a.part[i] * b.part[i];
  }
  friend inline Line operator*(Line a, const Line &b) {
    for (int i = 0; i < parts; ++i) a.part[i] = a.part[i] * b.part[i];
    return a;
  }
  friend inline Line operator*(R a, Line b) {
    for (int i = 0; i < parts; ++i) b.part[i] = a * b.part[i];
    return b;
  }
};
typedef LineOf<double> Line;

}  // namespace
}  // namespace lorank
