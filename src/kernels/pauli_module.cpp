// Python bindings of pauli.h: shapes, masks and layouts are checked before memory is touched.
#include "pauli.h"

#include <algorithm>
#include <vector>

#include "array_arguments.h"
#include "kernels.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {
namespace {

constexpr std::int64_t kParts = 8;  // of the flips: sums over each are added up in this order, whatever the threads
constexpr std::int64_t kShared = 1 << 16;  // rows times flips from which more threads are worth waking

using Masks = Vector<const std::int64_t>;
using Phases = Vector<const std::int8_t>;
using Planes = Matrix<const double>;

PauliJob make_job(const Masks &flips, const Masks &indptr, const Masks &signs, const Phases &phases, std::int64_t d,
                  std::int64_t r) {
  const std::int64_t groups = flips.shape(0), m = signs.shape(0);
  require(d >= kPauliLanes && (d & (d - 1)) == 0, "the arrays must have a power of two rows, 8 or more");
  require_aligned(flips, "flips");
  require_size(indptr, "indptr", groups + 1);
  require_aligned(signs, "signs");
  require_size(phases, "phases", m);
  require(indptr.data()[0] == 0 && indptr.data()[groups] == m, "indptr must begin with 0 and end with the matrices");
  bool sound = true;
  for (std::int64_t g = 0; g < groups; ++g)
    sound &= indptr.data()[g] <= indptr.data()[g + 1] && flips.data()[g] >= 0 && flips.data()[g] < d;
  for (std::int64_t k = 0; k < m; ++k) sound &= signs.data()[k] >= 0 && signs.data()[k] < d;
  require(sound, "flips and signs must be below the number of rows, and indptr must not decrease");
  PauliJob job{};
  job.d = d;
  job.r = r;
  job.flips = flips.data();
  job.indptr = indptr.data();
  job.signs = signs.data();
  job.phases = phases.data();
  return job;
}

// The planes with the rows of each group permuted by XOR with t, for each t below kPauliLanes.
std::vector<double> permuted(const Planes &a) {
  const std::int64_t planes = a.shape(0), d = a.shape(1), size = planes * d;
  std::vector<double> copies(kPauliLanes * size);
  for (std::int64_t t = 0; t < kPauliLanes; ++t)
    for (std::int64_t i = 0; i < size; ++i) copies[t * size + i] = a.data()[i ^ t];
  return copies;
}

int team_of(std::int64_t rows) { return rows >= kShared ? static_cast<int>(std::min<std::int64_t>(threads(), kParts)) : 1; }

void expectations(Masks flips, Masks indptr, Masks signs, Phases phases, Planes left, Planes right, Vector<double> out) {
  const std::int64_t groups = flips.shape(0), d = left.shape(1);
  const PauliJob whole = make_job(flips, indptr, signs, phases, d, left.shape(0) / 2);
  require_shape(left, "left", 2 * whole.r, d);
  require_shape(right, "right", 2 * whole.r, d);
  require_size(out, "out", signs.shape(0));
  nb::gil_scoped_release nogil;
  const std::vector<double> copies = permuted(right);
  std::vector<double> scratch(kParts * 2 * d);
  const int team = team_of(groups * d);
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
  for (std::int64_t k = 0; k < kParts; ++k) {
    PauliJob job = whole;
    job.first = groups * k / kParts;
    job.last = groups * (k + 1) / kParts;
    job.left = left.data();
    job.right = copies.data();
    job.out = out.data();
    job.scratch = scratch.data() + k * 2 * d;
    active()->pauli->expectations(job);
  }
}

void times(Masks flips, Masks indptr, Masks signs, Phases phases, Vector<const double> p, Planes v, Matrix<double> out) {
  const std::int64_t groups = flips.shape(0), d = v.shape(1);
  const PauliJob whole = make_job(flips, indptr, signs, phases, d, v.shape(0) / 2);
  const std::int64_t size = 2 * whole.r * d;
  require_shape(v, "v", 2 * whole.r, d);
  require_shape(out, "out", 2 * whole.r, d);
  require_size(p, "p", signs.shape(0));
  nb::gil_scoped_release nogil;
  const std::vector<double> copies = permuted(v);
  std::vector<double> scratch(kParts * 2 * d), sums(kParts * size);
  const int team = team_of(groups * d);
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
  for (std::int64_t k = 0; k < kParts; ++k) {
    PauliJob job = whole;
    job.first = groups * k / kParts;
    job.last = groups * (k + 1) / kParts;
    job.p = p.data();
    job.right = copies.data();
    job.out = sums.data() + k * size;
    job.scratch = scratch.data() + k * 2 * d;
    active()->pauli->times(job);
  }
  for (std::int64_t i = 0; i < size; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < kParts; ++k) sum += sums[k * size + i];
    out.data()[i] = sum;
  }
}

}  // namespace

void bind_pauli(nb::module_ &m) {
  m.def("pauli_expectations", &expectations, "flips"_a.noconvert(), "indptr"_a.noconvert(), "signs"_a.noconvert(),
        "phases"_a.noconvert(), "left"_a.noconvert(), "right"_a.noconvert(), "out"_a.noconvert(),
        "Re trace(P_k left right^H); arrays are planes of real and imaginary parts of columns.");
  m.def("pauli_times", &times, "flips"_a.noconvert(), "indptr"_a.noconvert(), "signs"_a.noconvert(), "phases"_a.noconvert(),
        "p"_a.noconvert(), "v"_a.noconvert(), "out"_a.noconvert(), "sum_k p_k P_k v, in planes.");
}

}  // namespace lorank
