// Passes over a pattern with one number for each row or column, and their Python face: shapes and layouts are checked before memory
// is touched.
#include "array_arguments.h"
#include "packed.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {

void Pattern::column_counts(std::int64_t *out) const {
  for (std::int64_t j = 0; j < n2; ++j) out[j] = col_ptr_[j + 1] - col_ptr_[j];
}

void Pattern::multiply(bool columns, const Sides &sides, const double *given, double *out) const {
  const std::int64_t *ptr = columns ? col_ptr_ : row_ptr_;
  const std::int32_t *index = columns ? row_index_ : col_index_;
  split(columns, 1, share(columns, 1), [=](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const double own = sides.own[i], *other = sides.other;
      if (given)
        for (std::int64_t k = ptr[i]; k < ptr[i + 1]; ++k) out[k] = given[k] * (own * other[index[k]]);
      else
        for (std::int64_t k = ptr[i]; k < ptr[i + 1]; ++k) out[k] = own * other[index[k]];
    }
  });
}

template <class R>
void Pattern::side_sums(bool columns, const R *other, R *sums) const {
  const std::int64_t *ptr = columns ? col_ptr_ : row_ptr_;
  const std::int32_t *index = columns ? row_index_ : col_index_;
  split(columns, 1, share(columns, 1), [=](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      R part[4] = {0, 0, 0, 0};  // each waits for its own last sum alone
      std::int64_t k = ptr[i];
      for (; k + 4 <= ptr[i + 1]; k += 4)
        for (int j = 0; j < 4; ++j) part[j] += other[index[k + j]];
      for (; k < ptr[i + 1]; ++k) part[0] += other[index[k]];
      sums[i] = (part[0] + part[1]) + (part[2] + part[3]);
    }
  });
}

namespace {

template <class R>
void bind_sums(nb::class_<Pattern> &cls) {
  cls.def(
      "side_sums",
      [](const Pattern &p, bool columns, Vector<const R> other, Vector<R> sums) {
        require(sized(other, columns ? p.n1 : p.n2), "other: one for each of the other side");
        require(sized(sums, columns ? p.n2 : p.n1), "sums: one for each row (column)");
        nb::gil_scoped_release nogil;
        p.side_sums<R>(columns, other.data(), sums.data());
      },
      "columns"_a, "other"_a.noconvert(), "sums"_a.noconvert());
}

}  // namespace

void bind_sides(nb::class_<Pattern> &cls) {
  bind_sums<float>(cls);
  bind_sums<double>(cls);
  cls.def(
      "column_counts",
      [](const Pattern &p, Vector<std::int64_t> out) {
        require(sized(out, p.n2), "out: one for each column");
        p.column_counts(out.data());
      },
      "out"_a.noconvert());
}

}  // namespace lorank
