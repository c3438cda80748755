// Passes over the observed entries; see passes.h. Compiled once per instruction set (kernels.h). Everything here has internal
// linkage and uses no library templates: nothing compiled for a newer instruction set may be used by code for an older one.
#include "passes.h"

#include "fold.h"
#include "simd.h"

namespace lorank {
namespace {

// HALVES > 0: the row's length in half cache lines a plane, known at compile time, so that accumulators live in registers.
// HALVES = 0: any length, accumulators in the job's scratch row.
// S: the type in which `other` is held.
template <class R, class S, bool COMPLEX, int HALVES>
struct Kernel {
  static inline V<R> load(const S *p) { return Load<R, S>::from(p); }
  static constexpr int planes = COMPLEX ? 2 : 1;
  static constexpr int lanes = Simd<R>::lanes;
  static constexpr int fixed = HALVES * kHalfBytes / LORANK_VECTOR_BYTES;  // vectors a plane

  static inline std::int64_t vectors(const Job<R> &job) { return HALVES ? fixed : job.halves * kHalfBytes / LORANK_VECTOR_BYTES; }

  static LORANK_INLINE void fetch(const S *row, std::int64_t bytes) {
    const std::int64_t limit = bytes < 512 ? bytes : 512;  // the hardware prefetcher takes over on long rows
    for (std::int64_t b = 0; b < limit; b += kLineBytes) prefetch(reinterpret_cast<const char *>(row) + b);
  }

  // own . conj(other), real part and imaginary part
  static inline void dot(const V<R> *u, const S *v, std::int64_t nv, R &re, R &im) {
    if (!COMPLEX) {
      V<R> s = u[0] * load(v);
      if (nv == 1) {
        re = sum_lanes<R>(s);
      } else {  // two chains: a long one would wait for its own latency
        V<R> t = u[1] * load(v + lanes);
        std::int64_t i = 2;
        for (; i + 1 < nv; i += 2) {
          s += u[i] * load(v + i * lanes);
          t += u[i + 1] * load(v + (i + 1) * lanes);
        }
        if (i < nv) s += u[i] * load(v + i * lanes);
        s += t;
        re = sum_lanes<R>(s);
      }
      im = 0;
    } else {
      const S *w = v + nv * lanes;
      V<R> a = u[0] * load(v), b = u[nv] * load(v);
      a += u[nv] * load(w);
      b -= u[0] * load(w);
      for (std::int64_t i = 1; i < nv; ++i) {
        const V<R> x = load(v + i * lanes), y = load(w + i * lanes);
        a += u[i] * x;
        a += u[nv + i] * y;
        b += u[nv + i] * x;
        b -= u[i] * y;
      }
      re = sum_lanes<R>(a);
      im = sum_lanes<R>(b);
    }
  }

  // sums += (re + i im) other
  static LORANK_INLINE void axpy(V<R> *g, const S *v, std::int64_t nv, R re, R im) {
    if (!COMPLEX) {
      for (std::int64_t i = 0; i < nv; ++i) g[i] += re * load(v + i * lanes);
    } else {
      const S *w = v + nv * lanes;
      for (std::int64_t i = 0; i < nv; ++i) {
        const V<R> x = load(v + i * lanes), y = load(w + i * lanes);
        g[i] += re * x;
        g[i] -= im * y;
        g[nv + i] += re * y;
        g[nv + i] += im * x;
      }
    }
  }

  static inline void store(const V<R> *g, R *out, std::int64_t width, std::int64_t nv) {
    const R *a = reinterpret_cast<const R *>(g);
    if (!COMPLEX) {
      std::memcpy(out, a, width * sizeof(R));
    } else {
      for (std::int64_t k = 0; k < width; ++k) {
        out[2 * k] = a[k];
        out[2 * k + 1] = a[nv * lanes + k];
      }
    }
  }

  // As many observations as a register has lanes are taken together where rows are short: adding up the lanes of one product
  // after the other would take longer than the products.
  static constexpr bool together = LORANK_FOLD && !COMPLEX && HALVES > 0;
  static constexpr bool short_rows = together && fixed <= 4;  // of longer ones, loading them twice takes longer still

#if LORANK_FOLD
  // The products of own and other, number by number, for observation k + j
  struct Products {
    const std::int32_t *index;  // of observation k
    const V<R> *u;
    const S *other;
    LORANK_INLINE V<R> operator()(int j) const {
      constexpr std::int64_t stride = fixed * lanes;
      fetch(other + index[j + kPrefetch] * stride, stride * sizeof(S));
      const S *v = other + index[j] * stride;
      V<R> s = u[0] * load(v);
      for (int i = 1; i < fixed; ++i) s += u[i] * load(v + i * lanes);
      return s;
    }
  };

  // own . other for the observations k, k + 1, ..., one a lane
  static LORANK_INLINE V<R> dots(const Job<R> &job, const V<R> *u, const S *other, std::int64_t k) {
    return fold_all<R, 1>(Products{job.index + k, u, other}, 0);
  }

  // sums += a b, in double precision
  static LORANK_INLINE void add_products(V<double> &sums, const V<R> &a, const V<R> &b) {
    constexpr int doubles = Simd<double>::lanes;
    R x[lanes], y[lanes];
    std::memcpy(x, &a, sizeof x);
    std::memcpy(y, &b, sizeof y);
    for (int j = 0; j < lanes; j += doubles) sums += Load<double, R>::from(x + j) * Load<double, R>::from(y + j);
  }
#endif

  template <bool WEIGHTED>
  static void gradient(const Job<R> &job) {
    const std::int64_t nv = vectors(job), stride = nv * lanes * planes, bytes = stride * sizeof(S);
    const S *other = static_cast<const S *>(job.other);
    V<R> registers[HALVES ? fixed * planes : 1];
    for (std::int64_t a = job.first; a < job.last; ++a) {
      V<R> *g = HALVES ? registers : reinterpret_cast<V<R> *>(job.row);
      const V<R> *u = reinterpret_cast<const V<R> *>(job.own + a * stride);
      for (std::int64_t i = 0; i < nv * planes; ++i) g[i] = V<R>{};
      double squares = 0, misfit = 0;
      std::int64_t k = job.indptr[a];
      const std::int64_t end = job.indptr[a + 1];
#if LORANK_FOLD
      if constexpr (short_rows) {
        V<double> sums{}, misfits{};
        for (; k + lanes <= end; k += lanes) {
          V<R> d = dots(job, u, other, k) - Load<R, R>::from(job.values + k);
          if (WEIGHTED) {
            const V<R> whole = d;
            d = d * Load<R, R>::from(job.weights + k);
            add_products(misfits, whole, d);
          }
          add_products(sums, d, d);
          R each[lanes];
          std::memcpy(each, &d, sizeof each);
          for (int j = 0; j < lanes; ++j) axpy(g, other + job.index[k + j] * stride, nv, each[j], R(0));
        }
        squares = sum_lanes<double>(sums);
        if (WEIGHTED) misfit = sum_lanes<double>(misfits);
      }
#endif
      for (; k < end; ++k) {
        fetch(other + job.index[k + kPrefetch] * stride, bytes);
        const S *v = other + job.index[k] * stride;
        R re, im;
        dot(u, v, nv, re, im);
        re -= job.values[planes * k];
        if (COMPLEX) im -= job.values[planes * k + 1];
        if (WEIGHTED) {
          const R w = job.weights[k], whole_re = re, whole_im = im;
          re *= w;
          misfit += double(whole_re) * double(re);
          if (COMPLEX) {
            im *= w;
            misfit += double(whole_im) * double(im);
          }
        }
        squares += double(re) * double(re);
        if (COMPLEX) squares += double(im) * double(im);
        axpy(g, v, nv, re, im);
      }
      store(g, job.sums + a * job.sums_stride, job.width, nv);
      job.squares[a] = squares;
      if (WEIGHTED && job.misfit) job.misfit[a] = misfit;
    }
  }

  static void times(const Job<R> &job) {
    const std::int64_t nv = vectors(job), stride = nv * lanes * planes, bytes = stride * sizeof(S);
    const S *other = static_cast<const S *>(job.other);
    V<R> registers[HALVES ? fixed * planes : 1];
    for (std::int64_t a = job.first; a < job.last; ++a) {
      V<R> *g = HALVES ? registers : reinterpret_cast<V<R> *>(job.row);
      for (std::int64_t i = 0; i < nv * planes; ++i) g[i] = V<R>{};
      for (std::int64_t k = job.indptr[a]; k < job.indptr[a + 1]; ++k) {
        fetch(other + job.index[k + kPrefetch] * stride, bytes);
        const S *v = other + job.index[k] * stride;
        axpy(g, v, nv, job.values[planes * k], COMPLEX ? job.values[planes * k + 1] : R(0));
      }
      store(g, job.sums + a * job.sums_stride, job.width, nv);
    }
  }

  template <bool WEIGHTED>
  static void sample(const Job<R> &job) {
    const std::int64_t nv = vectors(job), stride = nv * lanes * planes, bytes = stride * sizeof(S);
    const S *other = static_cast<const S *>(job.other);
    for (std::int64_t a = job.first; a < job.last; ++a) {
      const V<R> *u = reinterpret_cast<const V<R> *>(job.own + a * stride);
      double squares = 0, inner = 0;
      std::int64_t k = job.indptr[a];
      const std::int64_t end = job.indptr[a + 1];
#if LORANK_FOLD
      if constexpr (together) {
        V<double> sums{}, inners{};
        for (; k + lanes <= end; k += lanes) {
          const V<R> z = dots(job, u, other, k);
          if (job.sampled) std::memcpy(job.sampled + k, &z, sizeof z);
          add_products(sums, WEIGHTED ? z * Load<R, R>::from(job.weights + k) : z, z);
          if (job.values) add_products(inners, z, Load<R, R>::from(job.values + k));
        }
        squares = sum_lanes<double>(sums);
        inner = sum_lanes<double>(inners);
      }
#endif
      for (; k < end; ++k) {
        fetch(other + job.index[k + kPrefetch] * stride, bytes);
        R re, im;
        dot(u, other + job.index[k] * stride, nv, re, im);
        if (job.sampled) {
          job.sampled[planes * k] = re;
          if (COMPLEX) job.sampled[planes * k + 1] = im;
        }
        if (WEIGHTED) {
          const double w = job.weights[k];
          squares += w * double(re) * double(re);
          if (COMPLEX) squares += w * double(im) * double(im);
        } else {
          squares += double(re) * double(re);
          if (COMPLEX) squares += double(im) * double(im);
        }
        if (job.values) {
          inner += double(re) * double(job.values[planes * k]);
          if (COMPLEX) inner += double(im) * double(job.values[planes * k + 1]);
        }
      }
      if (job.squares) job.squares[a] = squares;
      if (job.inner) job.inner[a] = inner;
    }
  }
};

enum class Kind { gradient, weighted_gradient, times, sample, weighted_sample };

template <class R, class S, bool COMPLEX, int HALVES, Kind KIND>
inline void run(const Job<R> &job) {
  using K = Kernel<R, S, COMPLEX, HALVES>;
  if constexpr (KIND == Kind::gradient) K::template gradient<false>(job);
  if constexpr (KIND == Kind::weighted_gradient) K::template gradient<true>(job);
  if constexpr (KIND == Kind::times) K::times(job);
  if constexpr (KIND == Kind::sample) K::template sample<false>(job);
  if constexpr (KIND == Kind::weighted_sample) K::template sample<true>(job);
}

template <class R, class S, bool COMPLEX, Kind KIND>
void choose(const Job<R> &job) {
  switch (job.halves) {
#if LORANK_VECTOR_BYTES <= 32
    case 1: return run<R, S, COMPLEX, 1, KIND>(job);
    case 3: return run<R, S, COMPLEX, 3, KIND>(job);
    case 5: return run<R, S, COMPLEX, 5, KIND>(job);
#endif
    case 2: return run<R, S, COMPLEX, 2, KIND>(job);
    case 4: return run<R, S, COMPLEX, 4, KIND>(job);
    case 6: return run<R, S, COMPLEX, 6, KIND>(job);
    case 8: return run<R, S, COMPLEX, 8, KIND>(job);
    default: break;
  }
  if (!COMPLEX) switch (job.halves) {
      case 10: return run<R, S, COMPLEX, 10, KIND>(job);
      case 12: return run<R, S, COMPLEX, 12, KIND>(job);
      case 14: return run<R, S, COMPLEX, 14, KIND>(job);
      case 16: return run<R, S, COMPLEX, 16, KIND>(job);
      default: break;
    }
  run<R, S, COMPLEX, 0, KIND>(job);
}

template <class R, class S>
constexpr Table<R> table() {
  return {{{choose<R, S, false, Kind::gradient>, choose<R, S, false, Kind::weighted_gradient>},
           {choose<R, S, true, Kind::gradient>, choose<R, S, true, Kind::weighted_gradient>}},
          {choose<R, S, false, Kind::times>, choose<R, S, true, Kind::times>},
          {{choose<R, S, false, Kind::sample>, choose<R, S, false, Kind::weighted_sample>},
           {choose<R, S, true, Kind::sample>, choose<R, S, true, Kind::weighted_sample>}}};
}

const Passes kPasses = {LORANK_VECTOR_BYTES, table<float, float>(), table<double, double>(), table<double, float>()};

}  // namespace

namespace LORANK_ISA {
const Passes *passes() { return &kPasses; }
}  // namespace LORANK_ISA

}  // namespace lorank
