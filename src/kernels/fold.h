// The sums of many registers at once, for the files that are compiled once per instruction set.
//
// Adding up the lanes of one register takes as many shuffles as it has halvings. Registers added up together share them: half
// of one and half of the other are added in one go, and so on down a tree, so that n sums cost n - 1 shuffles and n - 1 blends.
#pragma once
#include "simd.h"

#if defined(__clang__) || defined(__GNUC__)
#define LORANK_INLINE inline __attribute__((always_inline))
#else
#define LORANK_INLINE inline
#endif

#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define LORANK_FOLD 1
#else  // no __builtin_shufflevector
#define LORANK_FOLD 0
#endif

namespace lorank {
namespace {

#if LORANK_FOLD
template <int... LANE>
struct Lanes {};
template <int N, int... LANE>
struct Count : Count<N - 1, N - 1, LANE...> {};
template <int... LANE>
struct Count<0, LANE...> {
  typedef Lanes<LANE...> lanes;
};

// Lane j of the result is a[j] + a[j + H] where bit H of j is not set, and b[j] + b[j - H] where it is.
template <int H, class R, int... J>
LORANK_INLINE V<R> fold(V<R> a, V<R> b, Lanes<J...>) {
  constexpr int n = Simd<R>::lanes;
  return __builtin_shufflevector(a, b, ((J & H) ? J + n : J)...) + __builtin_shufflevector(a, b, ((J & H) ? J - H + n : J + H)...);
}

// Lane j of the result: the sum of all lanes of leaf(j).
template <class R, int STEP, class Leaf>
LORANK_INLINE V<R> fold_all(const Leaf &leaf, int first) {
  if constexpr (STEP == Simd<R>::lanes) {
    return leaf(first);
  } else {
    const V<R> a = fold_all<R, 2 * STEP>(leaf, first);
    const V<R> b = fold_all<R, 2 * STEP>(leaf, first + STEP);
    return fold<STEP, R>(a, b, typename Count<Simd<R>::lanes>::lanes());
  }
}
#endif

}  // namespace
}  // namespace lorank
