// Python bindings of the kernels. Every entry point checks shape, dtype and layout before it touches memory; index ranges
// were checked when the Pattern was built, and a Pattern cannot be changed afterwards.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>

#include "array_arguments.h"
#include "kernels.h"
#include "pattern.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lorank {

// Defined in <name>_module.cpp.
void bind_passes(nb::class_<Pattern> &cls);
void bind_normal(nb::class_<Pattern> &cls, nb::module_ &m);
void bind_nonnegative(nb::class_<Pattern> &cls);
void bind_sides(nb::class_<Pattern> &cls);
void bind_tall(nb::module_ &m);
void bind_gaps(nb::module_ &m);
void bind_pairs(nb::module_ &m);
void bind_tensor(nb::module_ &m);
void bind_pauli(nb::module_ &m);

namespace {

template <class I>
void bind_order(nb::module_ &m) {
  m.def(
      "row_major_order",
      [](Vector<const I> rows, Vector<const I> cols, std::int64_t n1, std::int64_t n2, Vector<std::int64_t> order) {
        require_aligned(rows, "rows");
        require_size(cols, "cols", rows.shape(0));
        require_size(order, "order", rows.shape(0));
        require(n1 >= 0 && n1 <= INT32_MAX, "n1: at most", n1, INT32_MAX);
        require(n2 >= 0 && n2 <= INT32_MAX, "n2: at most", n2, INT32_MAX);
        nb::gil_scoped_release nogil;
        row_major_order(rows.data(), cols.data(), static_cast<std::int64_t>(rows.shape(0)), n1, n2, order.data());
      },
      "rows"_a.noconvert(), "cols"_a.noconvert(), "n1"_a, "n2"_a, "order"_a.noconvert());
}

// Both orders from arrays that the pattern keeps alive; indices are padded.
template <class I>
void bind_mapped(nb::class_<Pattern> &cls) {
  cls.def(
      "__init__",
      [](Pattern *self, Vector<const std::int64_t> indptr, Vector<const std::int32_t> indices, Vector<const std::int64_t> colptr,
         Vector<const std::int32_t> rows, Vector<const I> order) {
        const std::int64_t m = order.shape(0);
        require(indptr.shape(0) > 1 && colptr.shape(0) > 1, "indptr, colptr: entries", 1, 2);
        require_aligned(indptr, "indptr");
        require_aligned(colptr, "colptr");
        require_aligned(order, "order");
        require_size(indices, "indices", m + kPrefetch);
        require_size(rows, "rows", m + kPrefetch);
        const std::int32_t *short_order = nullptr;
        const std::int64_t *long_order = nullptr;
        if constexpr (sizeof(I) == 4)
          short_order = order.data();
        else
          long_order = order.data();
        nb::gil_scoped_release nogil;
        new (self) Pattern(indptr.data(), static_cast<std::int64_t>(indptr.shape(0)) - 1, indices.data(), m,
                           static_cast<std::int64_t>(colptr.shape(0)) - 1, colptr.data(), rows.data(), short_order, long_order);
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "colptr"_a.noconvert(), "rows"_a.noconvert(), "order"_a.noconvert(),
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>());
}

void bind_pattern(nb::class_<Pattern> &cls) {
  cls.def(
      "__init__",
      [](Pattern *self, Vector<const std::int64_t> indptr, Vector<const std::int32_t> indices, std::int64_t n2) {
        require(indptr.shape(0) > 0, "indptr", indptr.shape(0), 1);
        require_aligned(indptr, "indptr");
        require_aligned(indices, "indices");
        nb::gil_scoped_release nogil;
        new (self) Pattern(indptr.data(), static_cast<std::int64_t>(indptr.shape(0)) - 1, indices.data(),
                           static_cast<std::int64_t>(indices.shape(0)), n2);
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "n2"_a);
  bind_mapped<std::int32_t>(cls);
  bind_mapped<std::int64_t>(cls);
  cls.def_ro("n1", &Pattern::n1).def_ro("n2", &Pattern::n2).def_ro("m", &Pattern::m);
}

}  // namespace
}  // namespace lorank

NB_MODULE(_kernels, m) {
  m.doc() = "Passes over the observed entries (see src/kernels).";
  nb::class_<lorank::Pattern> cls(m, "Pattern");
  lorank::bind_pattern(cls);
  lorank::bind_passes(cls);
  lorank::bind_normal(cls, m);
  lorank::bind_nonnegative(cls);
  lorank::bind_sides(cls);
  lorank::bind_order<std::int64_t>(m);
  lorank::bind_order<std::int32_t>(m);
  lorank::bind_tall(m);
  lorank::bind_gaps(m);
  lorank::bind_pairs(m);
  lorank::bind_tensor(m);
  lorank::bind_pauli(m);
  m.attr("TOGETHER") = lorank::kTogether;
  m.attr("PREFETCH") = lorank::kPrefetch;
  m.def("instruction_set", &lorank::instruction_set, "The instruction set in use.");
  m.def("instruction_sets", &lorank::instruction_sets, "Instruction sets that this machine supports, plainest first.");
  m.def("use_instruction_set", &lorank::use_instruction_set, "name"_a);
  m.def("release_scratch", &lorank::release_scratch, "Free the memory that passes of this thread keep for the next.");
  m.def("threads", &lorank::threads, "Threads that a pass uses (OMP_NUM_THREADS, threadpoolctl).");
}
