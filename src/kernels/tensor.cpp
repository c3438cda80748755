// See tensor.h. Compiled once per instruction set (kernels.h).
#include "tensor.h"

#include "simd.h"

namespace lorank {
namespace {

// Lines of a packed row in registers.
template <class R, int N>
struct Row {
  LineOf<R> line[N];
  static constexpr int size = N * kLineBytes / sizeof(R);

  static inline Row zero() {
    Row x;
    for (int n = 0; n < N; ++n) x.line[n] = LineOf<R>::zero();
    return x;
  }
  static inline Row from(const R *p) {
    Row x;
    for (int n = 0; n < N; ++n) x.line[n] = LineOf<R>::from(p + n * (kLineBytes / sizeof(R)));
    return x;
  }
  inline void put(R *p) const {
    for (int n = 0; n < N; ++n) line[n].put(p + n * (kLineBytes / sizeof(R)));
  }
  inline void add(R a, const Row &x) {
    for (int n = 0; n < N; ++n) line[n].add(a, x.line[n]);
  }
  inline R dot(const Row &x) const {
    V<R> sums{};
    for (int n = 0; n < N; ++n)
      for (int k = 0; k < LineOf<R>::parts; ++k) sums += line[n].part[k] * x.line[n].part[k];
    return sum_lanes<R>(sums);
  }
};

constexpr int kLongest = kTensorLines * kLineBytes;  // bytes of a packed row

// The rows of M_s, packed; with the transpose also its columns.
template <class R>
inline void unpack(const TensorJob<R> &job, std::int64_t s, std::int64_t size_a, std::int64_t size_b, R *rows, R *columns) {
  const R *M = job.M + s * job.a * job.b;
  for (std::int64_t x = 0; x < job.a; ++x)
    for (std::int64_t y = 0; y < job.b; ++y) {
      rows[x * size_b + y] = M[x * job.b + y];
      if (columns) columns[y * size_a + x] = M[x * job.b + y];
    }
}

template <class R, int NA, int NB>
void values(const TensorJob<R> &job) {
  typedef Row<R, NB> RowB;
  constexpr int size_a = Row<R, NA>::size, size_b = RowB::size;
  R rows[kLongest / sizeof(R) * size_b] = {};
  for (std::int64_t s = job.first; s < job.last; ++s) {
    if (job.indptr[s] == job.indptr[s + 1]) continue;
    unpack<R>(job, s, size_a, size_b, rows, nullptr);
    for (std::int64_t k = job.indptr[s]; k < job.indptr[s + 1]; ++k) {
      const R *u = job.U + job.i[k] * size_a;
      RowB sum = RowB::zero();
      for (std::int64_t x = 0; x < job.a; ++x) sum.add(u[x], RowB::from(rows + x * size_b));
      job.out[k] = sum.dot(RowB::from(job.V + job.j[k] * size_b));
    }
  }
}

template <class R, int NA, int NB>
void adjoint(const TensorJob<R> &job) {
  typedef Row<R, NA> RowA;
  typedef Row<R, NB> RowB;
  constexpr int size_a = RowA::size, size_b = RowB::size;
  R rows[kLongest / sizeof(R) * size_b] = {}, columns[kLongest / sizeof(R) * size_a] = {};
  R outer[kLongest / sizeof(R) * size_b];
  for (std::int64_t s = job.first; s < job.last; ++s) {
    R *found = job.of_slices + s * job.a * job.b;
    if (job.indptr[s] == job.indptr[s + 1]) {
      for (std::int64_t x = 0; x < job.a * job.b; ++x) found[x] = 0;
      continue;
    }
    unpack<R>(job, s, size_a, size_b, rows, columns);
    for (std::int64_t x = 0; x < job.a * size_b; ++x) outer[x] = 0;
    for (std::int64_t k = job.indptr[s]; k < job.indptr[s + 1]; ++k) {
      const R *u = job.U + job.i[k] * size_a, *v = job.V + job.j[k] * size_b;
      const R p = job.p[k];
      const RowB at_v = RowB::from(v);
      RowA left = RowA::zero();
      for (std::int64_t y = 0; y < job.b; ++y) left.add(v[y], RowA::from(columns + y * size_a));
      RowB right = RowB::zero();
      for (std::int64_t x = 0; x < job.a; ++x) {
        right.add(u[x], RowB::from(rows + x * size_b));
        RowB sum = RowB::from(outer + x * size_b);
        sum.add(p * u[x], at_v);
        sum.put(outer + x * size_b);
      }
      R *of_i = job.of_i + job.i[k] * size_a, *of_j = job.of_j + job.j[k] * size_b;
      RowA sum_i = RowA::from(of_i);
      sum_i.add(p, left);
      sum_i.put(of_i);
      RowB sum_j = RowB::from(of_j);
      sum_j.add(p, right);
      sum_j.put(of_j);
    }
    for (std::int64_t x = 0; x < job.a; ++x)
      for (std::int64_t y = 0; y < job.b; ++y) found[x * job.b + y] = outer[x * size_b + y];
  }
}

template <class R>
void choose_values(const TensorJob<R> &job) {
  typedef void (*Pass)(const TensorJob<R> &);
  static const Pass table[kTensorLines][kTensorLines] = {
      {values<R, 1, 1>, values<R, 1, 2>, values<R, 1, 3>, values<R, 1, 4>},
      {values<R, 2, 1>, values<R, 2, 2>, values<R, 2, 3>, values<R, 2, 4>},
      {values<R, 3, 1>, values<R, 3, 2>, values<R, 3, 3>, values<R, 3, 4>},
      {values<R, 4, 1>, values<R, 4, 2>, values<R, 4, 3>, values<R, 4, 4>}};
  table[job.lines_a - 1][job.lines_b - 1](job);
}

template <class R>
void choose_adjoint(const TensorJob<R> &job) {
  typedef void (*Pass)(const TensorJob<R> &);
  static const Pass table[kTensorLines][kTensorLines] = {
      {adjoint<R, 1, 1>, adjoint<R, 1, 2>, adjoint<R, 1, 3>, adjoint<R, 1, 4>},
      {adjoint<R, 2, 1>, adjoint<R, 2, 2>, adjoint<R, 2, 3>, adjoint<R, 2, 4>},
      {adjoint<R, 3, 1>, adjoint<R, 3, 2>, adjoint<R, 3, 3>, adjoint<R, 3, 4>},
      {adjoint<R, 4, 1>, adjoint<R, 4, 2>, adjoint<R, 4, 3>, adjoint<R, 4, 4>}};
  table[job.lines_a - 1][job.lines_b - 1](job);
}

const TensorPasses kPasses = {choose_values<float>, choose_values<double>, choose_adjoint<float>, choose_adjoint<double>};

}  // namespace

namespace LORANK_ISA {
const TensorPasses *tensor() { return &kPasses; }
}  // namespace LORANK_ISA

}  // namespace lorank
