// Python bindings of tensor.h: shapes, indices and layouts are checked before memory is touched.
#include "tensor.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "array_arguments.h"
#include "kernels.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

constexpr std::int64_t kParts = 8;               // of the slices: sums over each are added up in this order, whatever the threads
constexpr std::int64_t kPrivate = 64 << 20;      // bytes of private sums of all parts
constexpr std::int64_t kShared = 1 << 15;        // observations from which more threads are worth waking

using Indices = Vector<const std::int32_t>;
using Pointers = Vector<const std::int64_t>;

template <class R>
std::int64_t lines(std::int64_t width) {
  return (width * static_cast<std::int64_t>(sizeof(R)) + 63) / 64;
}

template <class R>
TensorJob<R> make_job(const Pointers &indptr, const Indices &i, const Indices &j, const Matrix<const R> &U,
                      const Matrix<const R> &V, const Matrix<const R> &M, std::int64_t a, std::int64_t b) {
  const std::int64_t slices = M.shape(0), m = i.shape(0);
  require(a > 0 && b > 0 && lines<R>(std::max(a, b)) <= kTensorLines, "ranks of the inner modes are too large");
  require_shape(M, "M", slices, a * b);
  require_shape(U, "U", U.shape(0), lines<R>(a) * 64 / sizeof(R));
  require_shape(V, "V", V.shape(0), lines<R>(b) * 64 / sizeof(R));
  require_size(indptr, "indptr", slices + 1);
  require_size(j, "j", m);
  require_aligned(i, "i");
  require(indptr.data()[0] == 0 && indptr.data()[slices] == m, "indptr must begin with 0 and end with the observations");
  for (std::int64_t s = 0; s < slices; ++s) require(indptr.data()[s] <= indptr.data()[s + 1], "indptr must not decrease");
  TensorJob<R> job{};
  job.last = slices;
  job.a = a;
  job.b = b;
  job.lines_a = lines<R>(a);
  job.lines_b = lines<R>(b);
  job.indptr = indptr.data();
  job.i = i.data();
  job.j = j.data();
  job.U = U.data();
  job.V = V.data();
  job.M = M.data();
  return job;
}

// Slices in parts of about equal numbers of observations.
std::vector<std::int64_t> parts(const std::int64_t *indptr, std::int64_t slices, std::int64_t count) {
  std::vector<std::int64_t> first(count + 1, slices);
  first[0] = 0;
  const std::int64_t m = indptr[slices];
  for (std::int64_t k = 1; k < count; ++k)
    first[k] = std::lower_bound(indptr, indptr + slices, m / count * k) - indptr;
  return first;
}

bool inside(const Indices &index, std::int64_t n) {
  const std::int32_t *p = index.data();
  bool sound = true;
  for (std::size_t k = 0; k < index.shape(0); ++k) sound &= p[k] >= 0 && p[k] < n;
  return sound;
}

template <class R>
void values(Pointers indptr, Indices i, Indices j, Matrix<const R> U, Matrix<const R> V, Matrix<const R> M, std::int64_t a,
            std::int64_t b, Vector<R> out) {
  TensorJob<R> whole = make_job<R>(indptr, i, j, U, V, M, a, b);
  require_size(out, "out", i.shape(0));
  whole.out = out.data();
  const std::int64_t n1 = U.shape(0), n2 = V.shape(0), m = i.shape(0);
  nb::gil_scoped_release nogil;
  require(inside(i, n1) && inside(j, n2), "inner indices must lie inside of the factors");
  const std::vector<std::int64_t> first = parts(whole.indptr, whole.last, kParts);
  const int team = m >= kShared ? static_cast<int>(std::min<std::int64_t>(threads(), kParts)) : 1;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
  for (std::int64_t k = 0; k < kParts; ++k) {
    TensorJob<R> job = whole;
    job.first = first[k];
    job.last = first[k + 1];
    if constexpr (std::is_same_v<R, float>)
      active()->tensor->values32(job);
    else
      active()->tensor->values64(job);
  }
}

template <class R>
void adjoint(Pointers indptr, Indices i, Indices j, Vector<const R> p, Matrix<const R> U, Matrix<const R> V,
             Matrix<const R> M, std::int64_t a, std::int64_t b, Matrix<R> of_i, Matrix<R> of_j, Matrix<R> of_slices) {
  TensorJob<R> whole = make_job<R>(indptr, i, j, U, V, M, a, b);
  const std::int64_t n1 = U.shape(0), n2 = V.shape(0), m = i.shape(0), wide_a = U.shape(1), wide_b = V.shape(1);
  require_size(p, "p", m);
  require_shape(of_i, "of_i", n1, wide_a);
  require_shape(of_j, "of_j", n2, wide_b);
  require_shape(of_slices, "of_slices", whole.last, a * b);
  whole.p = p.data();
  whole.of_slices = of_slices.data();
  nb::gil_scoped_release nogil;
  require(inside(i, n1) && inside(j, n2), "inner indices must lie inside of the factors");
  const std::int64_t size = n1 * wide_a + n2 * wide_b;
  const std::int64_t most = kPrivate / (size * static_cast<std::int64_t>(sizeof(R)));
  const std::int64_t count = m >= kShared ? std::max<std::int64_t>(1, std::min(kParts, most)) : 1;
  const std::vector<std::int64_t> first = parts(whole.indptr, whole.last, count);
  std::vector<R> sums(count * size, R(0));
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), count));
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
  for (std::int64_t k = 0; k < count; ++k) {
    TensorJob<R> job = whole;
    job.first = first[k];
    job.last = first[k + 1];
    job.of_i = sums.data() + k * size;
    job.of_j = job.of_i + n1 * wide_a;
    if constexpr (std::is_same_v<R, float>)
      active()->tensor->adjoint32(job);
    else
      active()->tensor->adjoint64(job);
  }
  for (std::int64_t x = 0; x < size; ++x) {
    R sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum += sums[k * size + x];
    (x < n1 * wide_a ? of_i.data()[x] : of_j.data()[x - n1 * wide_a]) = sum;
  }
}

template <class R>
void bind(nb::module_ &m) {
  m.def("tensor_values", &values<R>, "indptr"_a.noconvert(), "i"_a.noconvert(), "j"_a.noconvert(), "U"_a.noconvert(),
        "V"_a.noconvert(), "M"_a.noconvert(), "a"_a, "b"_a, "out"_a.noconvert(),
        "Entries of a tensor at its observations; rows of U and V are padded to whole cache lines.");
  m.def("tensor_adjoint", &adjoint<R>, "indptr"_a.noconvert(), "i"_a.noconvert(), "j"_a.noconvert(), "p"_a.noconvert(),
        "U"_a.noconvert(), "V"_a.noconvert(), "M"_a.noconvert(), "a"_a, "b"_a, "of_i"_a.noconvert(), "of_j"_a.noconvert(),
        "of_slices"_a.noconvert(), "Sums of p times the derivatives of these entries in U, V and M.");
}

}  // namespace

void bind_tensor(nb::module_ &m) {
  bind<double>(m);
  bind<float>(m);
}

}  // namespace lorank
