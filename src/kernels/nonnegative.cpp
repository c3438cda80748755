// See nonnegative.h. Compiled once per instruction set (kernels.h). Sums are in the order of the observations: results do not
// depend on the number of threads.
#include "nonnegative.h"

#include "sums.h"

namespace lorank {
namespace {

// g -= c M[a], rows of whole cache lines
inline void subtract_row(double *g, const double *row, double c, std::int64_t stride) {
  for (std::int64_t d = 0; d < stride; d += kLanes<double>) {
    Line rest = Line::from(g + d);
    rest.add(-c, Line::from(row + d));
    rest.put(g + d);
  }
}

// M from the upper triangle of A, in place; padding beyond the width is zero already.
void complete(double *A, std::int64_t width, std::int64_t stride, const double *prior, double ridge) {
  for (std::int64_t a = 0; a < width; ++a) {
    A[a * stride + a] += ridge + (prior ? prior[a * width + a] : 0.0);
    for (std::int64_t d = a + 1; d < width; ++d) {
      if (prior) A[a * stride + d] += prior[a * width + d];
      A[d * stride + a] = A[a * stride + d];
    }
  }
}

// Coordinate descent; g = h - M x throughout.
void descend(const NonnegativeJob &job, const double *M, double *g, double *x) {
  const std::int64_t width = job.from.width, stride = job.from.stride;
  const double enough = job.tolerance * job.tolerance;
  for (std::int64_t cycle = 0; cycle < job.cycles; ++cycle) {
    double moved = 0, size = 0;
    for (std::int64_t a = 0; a < width; ++a) {
      const double own = M[a * stride + a];
      if (!(own > 0)) continue;  // nothing depends on it
      double next = x[a] + g[a] / own;
      next = next > 0 ? next : 0;
      const double step = next - x[a];
      if (step != 0) subtract_row(g, M + a * stride, step, stride);
      x[a] = next;
      moved += own * step * step;
      size += own * next * next;
    }
    if (!(moved > enough * size)) break;
  }
}

void solve_nonnegative(const NonnegativeJob &job) {
  const std::int64_t width = job.from.width, stride = job.from.stride;
  Sums<double> s;
  s.A = job.scratch;
  s.b = s.A + stride * stride;
  double *g = s.b + stride, *x = g + stride;
  for (std::int64_t i = job.first; i < job.last; ++i) {
    double total = add_up<true>(job.from, i, job.values, s);
    const double ridge = job.ridge[i];
    complete(s.A, width, stride, job.prior, ridge);
    for (std::int64_t a = 0; a < stride; ++a) {
      x[a] = a < width ? job.x[i * width + a] : 0.0;
      g[a] = a < width ? s.b[a] + ridge * job.centre[a] : 0.0;
    }
    for (std::int64_t a = 0; a < width; ++a)
      if (x[a] != 0) subtract_row(g, s.A + a * stride, x[a], stride);
    descend(job, s.A, g, x);
    // sum w (r - x y)^2 = |r|^2 - 2 x b + x A x, with A = M - P - ridge I and M x = h - g
    for (std::int64_t a = 0; a < width; ++a) {
      double rest = ridge * (job.centre[a] - x[a]) - s.b[a] - g[a];
      if (job.prior)
        for (std::int64_t d = 0; d < width; ++d) rest -= job.prior[a * width + d] * x[d];
      total += x[a] * rest;
      job.x[i * width + a] = x[a];
    }
    job.squares[i] = total;
  }
}

}  // namespace

namespace LORANK_ISA {
Nonnegative nonnegative() { return solve_nonnegative; }
}  // namespace LORANK_ISA

}  // namespace lorank
