// See normal.h. Compiled once per instruction set (kernels.h). Sums are in the order of the observations: results do not depend
// on the number of threads.
#include "normal.h"

#include "steps.h"
#include "sums.h"
#include "systems.h"

namespace lorank {
namespace {

// Scratch of a group of systems that are solved side by side, each entry a line.
struct Group {
  double *A, *U, *inverse;             // upper triangles
  double *b, *x, *total, *scale;
};

void collect(const NormalJob &job, std::int64_t i, int lane, const Sums<double> &s, const Group &g) {
  const std::int64_t width = job.from.width, stride = job.from.stride, size = triangle(width);
  double *to = g.A + lane;
  if (job.sums) {
    g.total[lane] = add_up<false>(job.from, i, job.values, s);
    const double *A = job.sums + i * size;
    for (std::int64_t e = 0; e < size; ++e) to[e * kTogether] = A[e];
  } else {
    g.total[lane] = add_up<true>(job.from, i, job.values, s);
    for (std::int64_t a = 0; a < width; ++a)
      for (std::int64_t d = a; d < width; ++d, to += kTogether) *to = s.A[a * stride + d];
  }
  g.scale[lane] = job.scale ? job.scale[i] : 1.0;
  for (std::int64_t a = 0; a < width; ++a) g.b[a * kTogether + lane] = s.b[a];
}

void clear(const NormalJob &job, int lane, const Group &g) {
  g.total[lane] = 0;
  g.scale[lane] = 1;
  for (std::int64_t e = 0; e < triangle(job.from.width); ++e) g.A[e * kTogether + lane] = 0;
  for (std::int64_t a = 0; a < job.from.width; ++a) g.b[a * kTogether + lane] = 0;
}

// U x = y with U = noise A + scale P, where coordinate `fixed` is 1
void set_up(const NormalJob &job, const Group &g) {
  const std::int64_t width = job.from.width, f = job.fixed;
  const Line scale = Line::from(g.scale);
  std::int64_t at = 0;
  for (std::int64_t a = 0; a < width; ++a) {
    for (std::int64_t d = a; d < width; ++d, at += kTogether) {
      Line entry = job.noise * Line::from(g.A + at);
      entry.add(job.prior[a * width + d], scale);
      entry.put(g.U + at);
    }
    Line right = job.noise * Line::from(g.b + a * kTogether);
    right.add(job.shift[a], scale);
    right.put(g.x + a * kTogether);
  }
  if (f < 0) return;
  const Line zero = Line::zero(), one = Line::all(1);
  for (std::int64_t a = 0; a < width; ++a) {  // move its terms to the right-hand side, and leave the equation x_f = 1
    if (a == f) continue;
    double *entry = a < f ? row_of(g.U, width, a) + kTogether * f : row_of(g.U, width, f) + kTogether * a;
    Line right = Line::from(g.x + a * kTogether);
    right.subtract(one, Line::from(entry));
    right.put(g.x + a * kTogether);
    zero.put(entry);
  }
  one.put(row_of(g.U, width, f) + kTogether * f);
  one.put(g.x + f * kTogether);
}

// E |r - x y|^2 = |r|^2 - 2 x b + <A, x x^T + cov x>
void add_squares(const NormalJob &job, const Group &g) {
  const std::int64_t width = job.from.width;
  Line total = Line::from(g.total);
  for (std::int64_t a = 0; a < width; ++a) {
    const double *row = row_of(g.A, width, a), *cov = row_of(g.inverse, width, a);
    Line sum = Line::zero(), trace = Line::zero();
    for (std::int64_t d = a + 1; d < width; ++d) {
      const Line entry = Line::from(row + kTogether * d);
      sum.add(entry, Line::from(g.x + kTogether * d));
      if (job.covariance) trace.add(entry, Line::from(cov + kTogether * d));
    }
    const Line x = Line::from(g.x + kTogether * a), own = Line::from(row + kTogether * a);
    sum.add(0.5, own * x);
    sum.add(-1.0, Line::from(g.b + kTogether * a));
    total.add(2.0, x * sum);
    if (job.covariance) {
      total.add(own, Line::from(cov + kTogether * a));
      total.add(2.0, trace);
    }
  }
  total.put(g.total);
}

void normal(const NormalJob &job) {
  const std::int64_t width = job.from.width, stride = job.from.stride, size = triangle(width);
  Sums<double> s;
  s.A = job.scratch;
  s.b = s.A + stride * stride;
  Group g;
  g.A = s.b + stride;
  g.U = g.A + kTogether * size;
  g.inverse = g.U + kTogether * size;
  g.b = g.inverse + kTogether * size;
  g.x = g.b + kTogether * width;
  g.total = g.x + kTogether * width;
  g.scale = g.total + kTogether;
  for (std::int64_t i = job.first; i < job.last; i += kTogether) {
    const int count = static_cast<int>(job.last - i < kTogether ? job.last - i : kTogether);
    for (int lane = 0; lane < count; ++lane) collect(job, i + lane, lane, s, g);
    for (int lane = count; lane < kTogether; ++lane) clear(job, lane, g);
    set_up(job, g);
    cholesky(g.U, width);
    solve(g.U, width, g.x);
    if (job.covariance) {
      invert(g.U, width, g.inverse);
      if (job.fixed >= 0) Line::zero().put(row_of(g.inverse, width, job.fixed) + kTogether * job.fixed);
    }
    add_squares(job, g);
    for (int lane = 0; lane < count; ++lane) {
      double *mean = job.mean + (i + lane) * width;
      for (std::int64_t a = 0; a < width; ++a) mean[a] = g.x[a * kTogether + lane];
      job.squares[i + lane] = g.total[lane];
      if (!job.covariance) continue;
      double *cov = job.covariance + (i + lane) * size;
      for (std::int64_t e = 0; e < size; ++e) cov[e] = g.inverse[e * kTogether + lane];
    }
  }
}

template <class R>
void blocks(const BlocksJob<R> &job) {
  const std::int64_t width = job.from.width, stride = job.from.stride;
  const Sums<R> s{job.scratch, nullptr};
  for (std::int64_t i = job.first; i < job.last; ++i) {
    add_up<true>(job.from, i, nullptr, s);
    R *out = job.out + i * width * width;
    for (std::int64_t a = 0; a < width; ++a)
      for (std::int64_t d = 0; d < width; ++d) out[a * width + d] = a < d ? s.A[a * stride + d] : s.A[d * stride + a];
  }
}

// Squares of pivots below these are rounding errors of the terms of A.
template <class R>
inline void least_pivots(const double *A, std::int64_t width, double *least) {
  const double rounding = width * (sizeof(R) == 4 ? 6e-8 : 1.1e-16);
  for (std::int64_t a = 0; a < width; ++a) (rounding * Line::from(row_of(A, width, a) + kTogether * a)).put(least + kTogether * a);
}

template <class R>
void solve_blocks(const SolveBlocksJob<R> &job) {
  const std::int64_t width = job.from.width, stride = job.from.stride, size = triangle(width);
  double *A = job.scratch, *x = A + kTogether * size, *least = x + kTogether * width;
  const Sums<R> s{reinterpret_cast<R *>(least + kTogether * width), nullptr};
  for (std::int64_t i = job.first; i < job.last; i += kTogether) {
    const int count = static_cast<int>(job.last - i < kTogether ? job.last - i : kTogether);
    for (int lane = 0; lane < kTogether; ++lane) {
      if (lane < count) add_up<true>(job.from, i + lane, nullptr, s);  // else the last one again
      double *to = A + lane;
      for (std::int64_t a = 0; a < width; ++a) {
        x[a * kTogether + lane] = lane < count ? job.right[(i + lane) * width + a] : R(0);
        *to = s.A[a * stride + a] + job.shift;
        to += kTogether;
        for (std::int64_t d = a + 1; d < width; ++d, to += kTogether) *to = s.A[a * stride + d];
      }
    }
    least_pivots<R>(A, width, least);
    cholesky(A, width, least);
    solve(A, width, x);
    for (int lane = 0; lane < count; ++lane)
      for (std::int64_t a = 0; a < width; ++a) job.solutions[(i + lane) * width + a] = static_cast<R>(x[a * kTogether + lane]);
  }
}

template <class R>
void factor(const SystemsJob<R> &job) {
  const std::int64_t width = job.width, size = triangle(width);
  double *least = job.scratch + size * kTogether;
  for (std::int64_t group = job.first; group < job.last; ++group) {
    for (int lane = 0; lane < kTogether; ++lane) {
      const std::int64_t i = group * kTogether + lane;
      const R *from = job.matrices + (i < job.n ? i : job.n - 1) * width * width;  // the last one again where there is none
      double *to = job.scratch + lane;
      for (std::int64_t a = 0; a < width; ++a)
        for (std::int64_t d = a; d < width; ++d, to += kTogether) *to = from[a * width + d];
    }
    least_pivots<R>(job.scratch, width, least);
    cholesky(job.scratch, width, least);
    R *out = job.factors + group * size * kTogether;
    for (std::int64_t e = 0; e < size * kTogether; ++e) out[e] = static_cast<R>(job.scratch[e]);
  }
}

template <class R>
void solve_systems(const SystemsJob<R> &job) {
  const std::int64_t width = job.width, size = triangle(width);
  for (std::int64_t group = job.first; group < job.last; ++group) {
    const std::int64_t i = group * kTogether;
    const int count = static_cast<int>(job.n - i < kTogether ? job.n - i : kTogether);
    for (int lane = 0; lane < kTogether; ++lane)
      for (std::int64_t a = 0; a < width; ++a)
        job.scratch[a * kTogether + lane] = lane < count ? job.right[(i + lane) * width + a] : R(0);
    solve(static_cast<const R *>(job.factors) + group * size * kTogether, width, job.scratch);
    for (int lane = 0; lane < count; ++lane)
      for (std::int64_t a = 0; a < width; ++a) job.solutions[(i + lane) * width + a] = static_cast<R>(job.scratch[a * kTogether + lane]);
  }
}

const NormalTable kTable = {normal,          blocks<float>,         blocks<double>,       factor<float>,
                            factor<double>, solve_systems<float>, solve_systems<double>,
                            steps<float>,   steps<double>,         solve_blocks<float>,  solve_blocks<double>};

}  // namespace

namespace LORANK_ISA {
const NormalTable *normal() { return &kTable; }
}  // namespace LORANK_ISA

}  // namespace lorank
