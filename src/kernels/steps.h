// Steps of conjugate gradients on the normal equations of each row (see StepsJob in normal.h). For the files that are compiled once
// per instruction set. The order of every sum is that of the observations: results are the same on one thread and on many.
#pragma once
#include "normal.h"
#include "simd.h"

namespace lorank {
namespace {

// VECTORS > 0: the registers of a row, known at compile time, so that p and q stay in them. VECTORS = 0: any length.
template <class R, int VECTORS>
struct Steps {
  static constexpr int lanes = Simd<R>::lanes;
  static constexpr int held = VECTORS ? VECTORS : 1;
  static constexpr int together = 4;  // observations at a time: their sums over lanes overlap

  static inline V<R> load(const R *p) { return Load<R, R>::from(p); }
  static inline void put(R *p, const V<R> &v) { std::memcpy(p, &v, sizeof v); }

  // s_j = y_j p, and then q += sum_j c_j y_j with c_j = RIGHT ? w_j (r_j - s_j) : w_j s_j; DIAGONAL: also diagonal += w_j y_j^2
  template <bool RIGHT, int COUNT>
  static inline void add(const StepsJob<R> &job, std::int64_t t, std::int64_t nv, const V<R> *p, V<R> *q, const R *p_memory,
                         R *q_memory, R *diagonal) {
    const R *y[COUNT];
    V<R> sum[COUNT];
    R c[COUNT], w[COUNT];
    for (int j = 0; j < COUNT; ++j) {
      y[j] = job.other + job.index[t + j] * job.stride;
      sum[j] = (VECTORS ? p[0] : load(p_memory)) * load(y[j]);
    }
    for (std::int64_t v = 1; v < nv; ++v) {
      const V<R> own = VECTORS ? p[v % held] : load(p_memory + v * lanes);
      for (int j = 0; j < COUNT; ++j) sum[j] += own * load(y[j] + v * lanes);
    }
    for (int j = 0; j < COUNT; ++j) {
      const R s = sum_lanes<R>(sum[j]);
      w[j] = job.weights ? job.weights[t + j] : R(1);
      c[j] = w[j] * (RIGHT ? job.values[t + j] - s : s);
    }
    for (std::int64_t v = 0; v < nv; ++v) {
      V<R> total = VECTORS ? q[v % held] : load(q_memory + v * lanes);
      for (int j = 0; j < COUNT; ++j) total += c[j] * load(y[j] + v * lanes);
      if (VECTORS)
        q[v % held] = total;
      else
        put(q_memory + v * lanes, total);
      if (RIGHT) {
        V<R> squares = load(diagonal + v * lanes);
        for (int j = 0; j < COUNT; ++j) {
          const V<R> one = load(y[j] + v * lanes);
          squares += w[j] * (one * one);
        }
        put(diagonal + v * lanes, squares);
      }
    }
  }

  // q = sum_t c_t y_t over the observations of major index i
  template <bool RIGHT>
  static inline void pass(const StepsJob<R> &job, std::int64_t i, const R *p_memory, R *q_memory, R *diagonal) {
    const std::int64_t nv = VECTORS ? VECTORS : job.stride / lanes, end = job.indptr[i + 1];
    V<R> p[held], q[held];
    for (std::int64_t v = 0; VECTORS && v < nv; ++v) {
      p[v % held] = load(p_memory + v * lanes);
      q[v % held] = V<R>{};
    }
    if (!VECTORS) std::memset(q_memory, 0, job.stride * sizeof(R));
    if (RIGHT) std::memset(diagonal, 0, job.stride * sizeof(R));
    std::int64_t t = job.indptr[i];
    for (; t + together <= end; t += together) {
      if (RIGHT)  // the first time that these rows are read; indices are padded beyond the last one
        for (int j = 0; j < together; ++j) {
          const R *next = job.other + job.index[t + j + 2 * together] * job.stride;
          for (std::int64_t b = 0; b < job.stride; b += kLineBytes / static_cast<int>(sizeof(R))) prefetch(next + b);
        }
      add<RIGHT, together>(job, t, nv, p, q, p_memory, q_memory, diagonal);
    }
    for (; t < end; ++t) add<RIGHT, 1>(job, t, nv, p, q, p_memory, q_memory, diagonal);
    for (std::int64_t v = 0; VECTORS && v < nv; ++v) put(q_memory + v * lanes, q[v % held]);
  }

  static inline R dot(const R *a, const R *b, std::int64_t stride) {
    V<R> sum = V<R>{};
    for (std::int64_t e = 0; e < stride; e += lanes) sum += load(a + e) * load(b + e);
    return sum_lanes<R>(sum);
  }

  static void run(const StepsJob<R> &job) {
    const std::int64_t width = job.width, stride = job.stride;
    R *x = job.scratch, *r = x + stride, *p = r + stride, *q = p + stride, *d = q + stride, *inverse = d + stride;
    const R small = sizeof(R) == 4 ? R(1e-12) : R(1e-28);  // of the first residual's square: below is rounding
    for (std::int64_t i = job.first; i < job.last; ++i) {
      for (std::int64_t a = 0; a < stride; ++a) {
        x[a] = a < width ? job.start[i * width + a] : R(0);
        d[a] = a < width ? job.prior[a] + job.ridge[i] : R(1);
      }
      pass<true>(job, i, x, r, inverse);
      for (std::int64_t a = 0; a < stride; ++a) {
        inverse[a] = R(1) / (inverse[a] + d[a]);  // one over the diagonal of the matrix
        r[a] -= d[a] * x[a];
        p[a] = inverse[a] * r[a];
      }
      R rz = dot(r, p, stride);
      const R first = rz;
      for (std::int64_t step = 0; step < job.steps && rz > small * first; ++step) {
        pass<false>(job, i, p, q, nullptr);
        for (std::int64_t a = 0; a < stride; ++a) q[a] += d[a] * p[a];
        const R alpha = rz / dot(p, q, stride);
        for (std::int64_t a = 0; a < stride; ++a) {
          x[a] += alpha * p[a];
          r[a] -= alpha * q[a];
          q[a] = inverse[a] * r[a];
        }
        const R next = dot(r, q, stride), beta = next / rz;
        rz = next;
        for (std::int64_t a = 0; a < stride; ++a) p[a] = q[a] + beta * p[a];
      }
      std::memcpy(job.out + i * width, x, width * sizeof(R));
    }
  }
};

template <class R>
void steps(const StepsJob<R> &job) {
  switch (job.stride / Simd<R>::lanes) {
    case 1: return Steps<R, 1>::run(job);
    case 2: return Steps<R, 2>::run(job);
    case 3: return Steps<R, 3>::run(job);
    case 4: return Steps<R, 4>::run(job);
    case 8: return Steps<R, 8>::run(job);
    default: return Steps<R, 0>::run(job);
  }
}

}  // namespace
}  // namespace lorank
