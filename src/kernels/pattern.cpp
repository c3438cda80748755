#include "pattern.h"

#include <algorithm>
#include <memory>

#include "packed.h"

namespace lorank {

namespace {

inline const Table<float> &table(float, const Passes *passes, bool) { return passes->f32; }
inline const Table<double> &table(double, const Passes *passes, bool mixed) { return mixed ? passes->mixed : passes->f64; }

// Length of the rows of a pass, and the passes for it.
struct Layout {
  std::int64_t halves;
  const Passes *passes;
};

// Short rows of an odd number of halves touch no more lines than whole ones would, and leave less padding to compute with. Not
// where registers are wider, nor in mixed passes, whose gathered rows take half the bytes and would lie across two lines.
Layout layout(std::int64_t width, std::size_t size, bool mixed) {
  const std::int64_t lanes = kHalfBytes / size, halves = std::max<std::int64_t>(1, (width + lanes - 1) / lanes);
  const Passes *passes = passes_for(halves);
  return {mixed || halves > 6 || passes->vector_bytes > kHalfBytes ? (halves + 1) / 2 * 2 : halves, passes};
}

}  // namespace

namespace {
// The factor that is gathered, packed in its own type or, for a mixed pass, in float.
template <class R, bool COMPLEX>
const void *gathered(Factor<R> a, Factor<R> b, std::int64_t halves, bool mixed) {
  if (mixed) {
    scratch<float>(1).template pack<COMPLEX>(a, static_cast<const R *>(nullptr), b, halves);
    return scratch<float>(1).data;
  }
  scratch<R>(1).template pack<COMPLEX>(a, static_cast<const R *>(nullptr), b, halves);
  return scratch<R>(1).data;
}
}  // namespace

void release_scratch() {
  for (int k = 0; k < kBuffers; ++k) {
    scratch<float>(k).release();
    scratch<double>(k).release();
  }
}

int threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

namespace {

// Pointers that rise from 0 to `count`, and indices below `bound` that rise strictly from one to the next of the same major.
void check_order(const std::int64_t *ptr, std::int64_t majors, const std::int32_t *index, std::int64_t count, std::int64_t bound,
                 const char *pointers, const char *minor, const char *major) {
  if (ptr[0] != 0 || ptr[majors] != count)
    throw std::invalid_argument(std::string(pointers) + " must start at 0 and end at the number of indices");
  for (std::int64_t i = 0; i < majors; ++i)
    if (ptr[i] > ptr[i + 1]) throw std::invalid_argument(std::string(pointers) + " decreases at " + major + " " + std::to_string(i));
  std::int64_t wrong = 0;  // rows (columns), almost always none; the first one is located afterwards
#pragma omp parallel for schedule(dynamic, 256) reduction(+ : wrong) if (count > kGrain)
  for (std::int64_t i = 0; i < majors; ++i) {
    bool bad = false;
    for (std::int64_t k = ptr[i]; k < ptr[i + 1]; ++k) bad |= index[k] < 0 || index[k] >= bound || (k > ptr[i] && index[k] <= index[k - 1]);
    wrong += bad;
  }
  if (!wrong) return;
  for (std::int64_t i = 0; i < majors; ++i)
    for (std::int64_t k = ptr[i]; k < ptr[i + 1]; ++k) {
      if (index[k] < 0 || index[k] >= bound)
        throw std::invalid_argument(std::string(minor) + " index " + std::to_string(index[k]) + " in " + major + " " +
                                    std::to_string(i) + " is outside 0 .. " + std::to_string(bound - 1));
      if (k > ptr[i] && index[k] <= index[k - 1])
        throw std::invalid_argument(std::string(minor) + " indices must increase within a " + major + ": " + major + " " +
                                    std::to_string(i));
    }
}

void check_padding(const std::int32_t *index, std::int64_t count, std::int64_t bound) {
  for (std::int64_t k = count; k < count + kPrefetch; ++k)
    if (index[k] < 0 || index[k] >= bound) throw std::invalid_argument("the padding behind indices must be indices, too");
}

template <class I>
void check_places(const I *order, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k)
    if (order[k] < 0 || order[k] >= count) throw std::invalid_argument("order must hold places of observations");
}

}  // namespace

namespace {

// A stable counting sort by keys 0 .. n - 1, shared by threads: each counts the keys of its part, and knows from the counts of the
// others where its own belong. The order is the same for any number of threads.
struct Counting {
  std::int64_t m, n;
  int team;
  std::vector<std::int64_t> next;  // one row of places for each thread

  template <class Key>
  Counting(std::int64_t count, std::int64_t keys, const Key &key) : m(count), n(keys) {
    team = static_cast<int>(std::min<std::int64_t>(threads(), 1 + m / std::max(kGrain, n)));
    next.assign(team * n, 0);
    std::int64_t *counts = next.data();
#pragma omp parallel for num_threads(team) schedule(static, 1) if (team > 1)
    for (int t = 0; t < team; ++t)
      for (std::int64_t k = first(t); k < first(t + 1); ++k) ++counts[t * n + key(k)];
    std::int64_t total = 0;
    for (std::int64_t j = 0; j < n; ++j)
      for (int t = 0; t < team; ++t) {
        const std::int64_t here = counts[t * n + j];
        counts[t * n + j] = total;
        total += here;
      }
  }

  std::int64_t first(int t) const { return m * t / team; }

  // put(k, place of k), in the order of k within each part; key as above. Once only.
  template <class Key, class Put>
  void scatter(const Key &key, const Put &put) {
    std::int64_t *places = next.data();
#pragma omp parallel for num_threads(team) schedule(static, 1) if (team > 1)
    for (int t = 0; t < team; ++t)
      for (std::int64_t k = first(t); k < first(t + 1); ++k) put(k, places[t * n + key(k)]++);
  }
};

}  // namespace

Pattern::Pattern(const std::int64_t *indptr, std::int64_t rows, const std::int32_t *indices, std::int64_t count,
                 std::int64_t cols)
    : n1(rows), n2(cols), m(count) {
  if (n2 < 0 || n2 > INT32_MAX || n1 > INT32_MAX)
    throw std::invalid_argument("a pattern has at most 2147483647 rows and columns");
  check_order(indptr, n1, indices, m, n2, "indptr", "column", "row");
  own_row_ptr_.assign(indptr, indptr + n1 + 1);
  own_col_index_.reserve(m + kPrefetch);
  own_col_index_.assign(indices, indices + m);
  own_col_index_.resize(m + kPrefetch, 0);

  auto column = [indices](std::int64_t k) { return static_cast<std::int64_t>(indices[k]); };
  Counting by_column(m, n2, column);
  own_col_ptr_.assign(by_column.next.begin(), by_column.next.begin() + n2);  // those of the first part
  own_col_ptr_.push_back(m);
  const std::unique_ptr<std::int32_t[]> row_of(new std::int32_t[m]);
#pragma omp parallel for num_threads(by_column.team) schedule(static) if (by_column.team > 1)
  for (std::int64_t i = 0; i < n1; ++i)
    std::fill(row_of.get() + indptr[i], row_of.get() + indptr[i + 1], static_cast<std::int32_t>(i));
  own_row_index_.assign(m + kPrefetch, 0);
  const bool small = m <= INT32_MAX;
  if (small)
    own_order32_.resize(m);
  else
    own_order64_.resize(m);
  by_column.scatter(column, [&](std::int64_t k, std::int64_t at) {
    own_row_index_[at] = row_of[k];
    if (small)
      own_order32_[at] = static_cast<std::int32_t>(k);
    else
      own_order64_[at] = k;
  });
  row_ptr_ = own_row_ptr_.data();
  col_ptr_ = own_col_ptr_.data();
  col_index_ = own_col_index_.data();
  row_index_ = own_row_index_.data();
  if (small)
    order32_ = own_order32_.data();
  else
    order64_ = own_order64_.data();
}

Pattern::Pattern(const std::int64_t *indptr, std::int64_t rows, const std::int32_t *indices, std::int64_t count, std::int64_t cols,
                 const std::int64_t *colptr, const std::int32_t *row_index, const std::int32_t *order32,
                 const std::int64_t *order64)
    : n1(rows), n2(cols), m(count), row_ptr_(indptr), col_ptr_(colptr), col_index_(indices), row_index_(row_index),
      order32_(order32), order64_(order64) {
  if (n2 < 1 || n2 > INT32_MAX || n1 < 1 || n1 > INT32_MAX)
    throw std::invalid_argument("a mapped pattern has 1 to 2147483647 rows and columns");
  check_order(row_ptr_, n1, col_index_, m, n2, "indptr", "column", "row");
  check_order(col_ptr_, n2, row_index_, m, n1, "colptr", "row", "column");
  check_padding(col_index_, m, n2);
  check_padding(row_index_, m, n1);
  if (order32_)
    check_places(order32_, m);
  else
    check_places(order64_, m);
}

int Pattern::share(bool columns, std::int64_t load) const {
  return static_cast<int>(std::min<std::int64_t>(threads(), 1 + (m + load * (columns ? n2 : n1)) / kGrain));
}

template <class R>
void Pattern::run(bool columns, void (*pass)(const Job<R> &), Job<R> job) const {
  job.indptr = columns ? col_ptr_ : row_ptr_;
  job.index = columns ? row_index_ : col_index_;
  const int count = share(columns, 1);
  // a row of accumulators a thread, made here because nothing may throw in the parallel region
  const std::int64_t row_bytes = (job.halves + 1) * kLineBytes;
  std::vector<char> rows(count * row_bytes + kLineBytes);
  const std::uintptr_t base = (reinterpret_cast<std::uintptr_t>(rows.data()) + kLineBytes - 1) / kLineBytes * kLineBytes;
  split(columns, 1, count, [&](std::int64_t first, std::int64_t last, int thread) {
    Job<R> mine = job;
    mine.row = reinterpret_cast<R *>(base + thread * row_bytes);
    mine.first = first;
    mine.last = last;
    pass(mine);
  });
}

template <class R, bool COMPLEX>
void Pattern::gradient(bool columns, Factor<R> own, const R *scale, Factor<R> other, const R *values, const R *weights, R *sums,
                       double *squares, double *misfit, bool mixed) const {
  Job<R> job{};
  job.width = own.width;
  const Layout rows = layout(own.width, sizeof(R), mixed);
  job.halves = rows.halves;
  Packed<R> &a = scratch<R>(0);
  a.template pack<COMPLEX>(own, scale, Factor<R>{nullptr, own.rows, 0}, job.halves);
  job.own = a.data;
  job.other = gathered<R, COMPLEX>(other, Factor<R>{nullptr, other.rows, 0}, job.halves, mixed);
  job.values = values;
  job.weights = weights;
  job.sums = sums;
  job.sums_stride = own.width * (COMPLEX ? 2 : 1);
  job.squares = squares;
  job.misfit = misfit;
  run(columns, table(R(), rows.passes, mixed).gradient[COMPLEX][weights != nullptr], job);
}

template <class R, bool COMPLEX>
void Pattern::sample(Factor<R> left1, Factor<R> right1, Factor<R> left2, Factor<R> right2, const R *p, const R *weights,
                     R *sampled, double &inner, double &squares, bool mixed) const {
  Job<R> job{};
  job.width = left1.width + left2.width;
  const Layout rows = layout(job.width, sizeof(R), mixed);
  job.halves = rows.halves;
  Packed<R> &a = scratch<R>(0);
  a.template pack<COMPLEX>(left1, static_cast<const R *>(nullptr), left2, job.halves);
  std::vector<double> sums(2 * n1);
  job.own = a.data;
  job.other = gathered<R, COMPLEX>(right1, right2, job.halves, mixed);
  job.values = p;
  job.weights = weights;
  job.sampled = sampled;
  job.squares = sums.data();
  job.inner = sums.data() + n1;
  run(false, table(R(), rows.passes, mixed).sample[COMPLEX][weights != nullptr], job);
  inner = squares = 0;
  for (std::int64_t i = 0; i < n1; ++i) {
    squares += sums[i];
    inner += sums[n1 + i];
  }
}

template <class R, bool COMPLEX>
void Pattern::times(bool columns, const R *values, Factor<R> other, R *sums) const {
  Job<R> job{};
  job.width = other.width;
  const Layout rows = layout(other.width, sizeof(R), false);
  job.halves = rows.halves;
  job.other = gathered<R, COMPLEX>(other, Factor<R>{nullptr, other.rows, 0}, job.halves, false);
  job.values = values;
  job.sums = sums;
  job.sums_stride = other.width * (COMPLEX ? 2 : 1);
  run(columns, table(R(), rows.passes, false).times[COMPLEX], job);
}

template <class R, bool COMPLEX>
void Pattern::to_columns(const R *values, R *out) const {
  auto copy = [&](const auto &order) {
#pragma omp parallel for schedule(static) if (m > 1 << 18)
    for (std::int64_t k = 0; k < m; ++k) {
      if (!COMPLEX) {
        out[k] = values[order[k]];
      } else {
        out[2 * k] = values[2 * static_cast<std::int64_t>(order[k])];
        out[2 * k + 1] = -values[2 * static_cast<std::int64_t>(order[k]) + 1];
      }
    }
  };
  if (order32_)
    copy(order32_);
  else
    copy(order64_);
}

namespace {

// An observation between the two sorts. It takes its row along: looked up by place, that would be a cache miss each.
template <class Place>
struct Entry {
  Place place;
  std::int32_t row;
};

template <class Place, class I>
void sort_pairs(const I *rows, const I *cols, std::int64_t m, std::int64_t n1, std::int64_t n2, std::int64_t *order) {
  const std::unique_ptr<Entry<Place>[]> by_col(new Entry<Place>[m]);
  Entry<Place> *entries = by_col.get();
  auto column = [cols](std::int64_t k) { return static_cast<std::int64_t>(cols[k]); };
  auto row = [entries](std::int64_t k) { return static_cast<std::int64_t>(entries[k].row); };
  Counting(m, n2, column).scatter(column, [=](std::int64_t k, std::int64_t at) {
    entries[at] = {static_cast<Place>(k), static_cast<std::int32_t>(rows[k])};
  });
  Counting(m, n1, row).scatter(row, [=](std::int64_t k, std::int64_t at) { order[at] = static_cast<std::int64_t>(entries[k].place); });
}

}  // namespace

template <class I>
void row_major_order(const I *rows, const I *cols, std::int64_t m, std::int64_t n1, std::int64_t n2, std::int64_t *order) {
  std::int64_t wrong = m;  // the first observation outside the matrix
#pragma omp parallel for schedule(static) reduction(min : wrong) if (m > kGrain)
  for (std::int64_t k = 0; k < m; ++k)
    if (rows[k] < 0 || static_cast<std::int64_t>(rows[k]) >= n1 || cols[k] < 0 || static_cast<std::int64_t>(cols[k]) >= n2)
      wrong = std::min(wrong, k);
  if (wrong < m) throw std::invalid_argument("index out of range at observation " + std::to_string(wrong));
  if (m <= UINT32_MAX)
    sort_pairs<std::uint32_t>(rows, cols, m, n1, n2, order);
  else
    sort_pairs<std::int64_t>(rows, cols, m, n1, n2, order);
}

#define LORANK_INSTANTIATE(R, C)                                                                                          \
  template void Pattern::gradient<R, C>(bool, Factor<R>, const R *, Factor<R>, const R *, const R *, R *, double *,       \
                                        double *, bool) const;                                                            \
  template void Pattern::sample<R, C>(Factor<R>, Factor<R>, Factor<R>, Factor<R>, const R *, const R *, R *, double &,    \
                                      double &, bool) const;                                                              \
  template void Pattern::times<R, C>(bool, const R *, Factor<R>, R *) const;                                              \
  template void Pattern::to_columns<R, C>(const R *, R *) const;
LORANK_INSTANTIATE(float, false)
LORANK_INSTANTIATE(float, true)
LORANK_INSTANTIATE(double, false)
LORANK_INSTANTIATE(double, true)
template void Pattern::run<double>(bool, void (*)(const Job<double> &), Job<double>) const;  // for normal_passes.cpp
template void row_major_order(const std::int32_t *, const std::int32_t *, std::int64_t, std::int64_t, std::int64_t, std::int64_t *);
template void row_major_order(const std::int64_t *, const std::int64_t *, std::int64_t, std::int64_t, std::int64_t, std::int64_t *);

}  // namespace lorank
