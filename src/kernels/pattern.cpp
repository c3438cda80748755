#include "pattern.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace lorank {

namespace {

std::vector<const Passes *> available() {
  std::vector<const Passes *> list{passes_baseline()};
#ifdef LORANK_X86_LEVELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    list.push_back(passes_avx2());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
      list.push_back(passes_avx512());
  }
#endif
  return list;
}

const Passes *&active() {
  static const Passes *chosen = available().back();
  return chosen;
}

// Short rows leave little to a wide register but the adding up of its lanes: half as wide is faster there.
const Passes *suited(std::int64_t halves) {
#ifdef LORANK_X86_LEVELS
  if (halves <= 6 && active() == passes_avx512()) return passes_avx2();
#endif
  (void)halves;
  return active();
}

inline const Table<float> &table(float, const Passes *passes, bool) { return passes->f32; }
inline const Table<double> &table(double, const Passes *passes, bool mixed) { return mixed ? passes->mixed : passes->f64; }

std::int64_t lines_for(std::int64_t width, std::size_t size) {
  const std::int64_t lanes = kLineBytes / size;
  return std::max<std::int64_t>(1, (width + lanes - 1) / lanes);
}

// How long the rows of a pass are, and who makes it.
struct Layout {
  std::int64_t halves;
  const Passes *passes;
};

// Short rows of an odd number of halves touch no more lines than whole ones would, and leave less padding to compute with. Not
// where registers are wider, nor in mixed passes, whose gathered rows take half the bytes and would lie across two lines.
Layout layout(std::int64_t width, std::size_t size, bool mixed) {
  const std::int64_t lanes = kHalfBytes / size, halves = std::max<std::int64_t>(1, (width + lanes - 1) / lanes);
  const Passes *passes = suited(halves);
  return {mixed || halves > 6 || passes->vector_bytes > kHalfBytes ? (halves + 1) / 2 * 2 : halves, passes};
}

int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

constexpr std::int64_t kGrain = 65536;  // observations a thread at the least: below that, waking it costs more than it does

}  // namespace

// Scratch memory that outlives the call, so that an iteration does not fault its pages in anew; one set a calling thread.
template <class R>
struct Packed {
  R *data = nullptr;
  std::size_t capacity = 0;
  std::unique_ptr<char[]> memory;

  void reserve(std::size_t count) {
    if (count <= capacity) return;
    release();  // before the new one: a factor can be most of what there is
    memory.reset(new char[count * sizeof(R) + kLineBytes]);
    data = reinterpret_cast<R *>((reinterpret_cast<std::uintptr_t>(memory.get()) + kLineBytes - 1) / kLineBytes * kLineBytes);
    capacity = count;
  }

  void release() {
    memory.reset();
    data = nullptr;
    capacity = 0;
  }

  // Two factors side by side, the first with its columns scaled, as padded rows: as long as `halves` half cache lines of F.
  template <bool COMPLEX, class F>
  void pack(Factor<F> a, const F *scale, Factor<F> b, std::int64_t halves) {
    const std::int64_t plane = halves * kHalfBytes / sizeof(F), stride = plane * (COMPLEX ? 2 : 1), wa = a.width, wb = b.width;
    reserve(static_cast<std::size_t>(a.rows) * stride);
    R *out = data;
#pragma omp parallel for schedule(static) if (a.rows * stride > 1 << 16)
    for (std::int64_t i = 0; i < a.rows; ++i) {
      R *row = out + i * stride;
      if (!COMPLEX) {
        const F *x = a.data + i * wa, *y = b.data + i * wb;
        if (scale)
          for (std::int64_t k = 0; k < wa; ++k) row[k] = static_cast<R>(x[k] * scale[k]);
        else
          for (std::int64_t k = 0; k < wa; ++k) row[k] = static_cast<R>(x[k]);
        for (std::int64_t k = 0; k < wb; ++k) row[wa + k] = static_cast<R>(y[k]);
      } else {
        for (std::int64_t k = 0; k < wa; ++k) {
          const F c = scale ? scale[k] : F(1);
          row[k] = static_cast<R>(a.data[2 * (i * wa + k)] * c);
          row[plane + k] = static_cast<R>(a.data[2 * (i * wa + k) + 1] * c);
        }
        for (std::int64_t k = 0; k < wb; ++k) {
          row[wa + k] = static_cast<R>(b.data[2 * (i * wb + k)]);
          row[plane + wa + k] = static_cast<R>(b.data[2 * (i * wb + k) + 1]);
        }
        std::memset(row + plane + wa + wb, 0, (plane - wa - wb) * sizeof(R));
      }
      std::memset(row + wa + wb, 0, (plane - wa - wb) * sizeof(R));
    }
  }
};

namespace {
template <class R>
Packed<R> &scratch(int which) {
  thread_local Packed<R> buffers[2];
  return buffers[which];
}

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
  for (int k = 0; k < 2; ++k) {
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

const char *instruction_set() { return active()->name; }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Passes *p : available()) names.emplace_back(p->name);
  return names;
}

void use_instruction_set(const std::string &name) {
  for (const Passes *p : available())
    if (name == p->name) {
      active() = p;
      return;
    }
  throw std::invalid_argument("instruction set '" + name + "' is not available on this machine");
}

Pattern::Pattern(const std::int64_t *indptr, std::int64_t rows, const std::int32_t *indices, std::int64_t count,
                 std::int64_t cols)
    : n1(rows), n2(cols), m(count) {
  if (n2 < 0 || n2 > INT32_MAX || n1 > INT32_MAX)
    throw std::invalid_argument("a pattern has at most 2147483647 rows and columns");
  if (indptr[0] != 0 || indptr[n1] != m) throw std::invalid_argument("indptr must start at 0 and end at the number of indices");
  for (std::int64_t i = 0; i < n1; ++i)
    if (indptr[i] > indptr[i + 1]) throw std::invalid_argument("indptr decreases at row " + std::to_string(i));
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t k = indptr[i]; k < indptr[i + 1]; ++k) {
      if (indices[k] < 0 || indices[k] >= n2)
        throw std::invalid_argument("column index " + std::to_string(indices[k]) + " in row " + std::to_string(i) +
                                    " is outside 0 .. " + std::to_string(n2 - 1));
      if (k > indptr[i] && indices[k] <= indices[k - 1])
        throw std::invalid_argument("column indices must increase within a row: row " + std::to_string(i));
    }
  row_ptr_.assign(indptr, indptr + n1 + 1);
  col_index_.assign(m + kPrefetch, 0);
  std::copy(indices, indices + m, col_index_.begin());

  col_ptr_.assign(n2 + 1, 0);
  for (std::int64_t k = 0; k < m; ++k) ++col_ptr_[indices[k] + 1];
  for (std::int64_t j = 0; j < n2; ++j) col_ptr_[j + 1] += col_ptr_[j];
  row_index_.assign(m + kPrefetch, 0);
  const bool small = m <= INT32_MAX;
  if (small)
    order32_.resize(m);
  else
    order64_.resize(m);
  std::vector<std::int64_t> next(col_ptr_.begin(), col_ptr_.end() - 1);
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t k = indptr[i]; k < indptr[i + 1]; ++k) {
      const std::int64_t at = next[indices[k]]++;
      row_index_[at] = static_cast<std::int32_t>(i);
      if (small)
        order32_[at] = static_cast<std::int32_t>(k);
      else
        order64_[at] = k;
    }
}

int Pattern::share(bool columns, std::int64_t load) const {
  return static_cast<int>(std::min<std::int64_t>(threads(), 1 + (m + load * (columns ? n2 : n1)) / kGrain));
}

// Ranges of majors with an equal share of the observations, several a thread, so that a thread that is held up does not keep
// the others waiting. A major index belongs to one range, so results do not depend on the number of threads.
template <class F>
void Pattern::split(bool columns, std::int64_t load, int count, const F &pass) const {
  const std::vector<std::int64_t> &ptr = columns ? col_ptr_ : row_ptr_;
  const std::int64_t majors = static_cast<std::int64_t>(ptr.size()) - 1, total = m + load * majors;
  const int ranges = count > 1 ? 8 * count : 1;
#pragma omp parallel for num_threads(count) schedule(dynamic, 1) if (count > 1)
  for (int t = 0; t < ranges; ++t) {
    // split by observations + majors, so that long runs of empty rows are shared too
    auto bound = [&](std::int64_t share) {
      std::int64_t lo = 0, hi = majors;
      while (lo < hi) {
        const std::int64_t mid = (lo + hi) / 2;
        if (ptr[mid] + load * mid < share)
          lo = mid + 1;
        else
          hi = mid;
      }
      return lo;
    };
    pass(t == 0 ? 0 : bound(total * t / ranges), t + 1 == ranges ? majors : bound(total * (t + 1) / ranges), thread_number());
  }
}

template <class R>
void Pattern::run(bool columns, void (*pass)(const Job<R> &), Job<R> job) const {
  job.indptr = (columns ? col_ptr_ : row_ptr_).data();
  job.index = columns ? row_index_.data() : col_index_.data();
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

namespace {
const NormalTable *normal_table() {
#ifdef LORANK_X86_LEVELS
  if (active() == passes_avx512()) return normal_avx512();
  if (active() == passes_avx2()) return normal_avx2();
#endif
  return normal_baseline();
}
}  // namespace

template <class R>
Gathered Pattern::gather_rows(bool columns, Factor<R> other, const double *weights) const {
  Gathered from{};
  from.indptr = (columns ? col_ptr_ : row_ptr_).data();
  from.index = columns ? row_index_.data() : col_index_.data();
  from.width = other.width;
  from.stride = lines_for(other.width, sizeof(double)) * kLineBytes / static_cast<std::int64_t>(sizeof(double));
  Packed<double> &b = scratch<double>(1);
  const std::int64_t halves = from.stride * static_cast<std::int64_t>(sizeof(R)) / kHalfBytes;
  b.pack<false>(other, static_cast<const R *>(nullptr), Factor<R>{nullptr, other.rows, 0}, halves);
  from.other = b.data;
  from.weights = weights;
  return from;
}

namespace {
// Lines of the triangles that are summed in one pass: as many as leave the rows that are gathered in the second-level cache, and
// where not even a few do, as many as there are registers for.
std::int64_t slice_lines(std::int64_t rows, std::int64_t lines) {
  constexpr std::int64_t bytes = 3 << 19, least = 4, most = 8;
  const std::int64_t fit = bytes / (kLineBytes * std::max<std::int64_t>(rows, 1));
  const std::int64_t slice = fit < least ? most : std::min(fit, most), count = (lines + slice - 1) / slice;
  return (lines + count - 1) / count;
}
}  // namespace

void Pattern::add_moments(bool columns, Factor<double> other, const double *moments, const double *weights, double *sums) const {
  constexpr std::int64_t lanes = kLineBytes / sizeof(double);
  const std::int64_t width = other.width, size = triangle(width), lines = (size + lanes - 1) / lanes;
  const std::int64_t slice = slice_lines(other.rows, lines) * lanes;
  Packed<double> &packed = scratch<double>(1), &ones = scratch<double>(0);
  packed.reserve(static_cast<std::size_t>(other.rows) * slice);
  if (!weights) {
    ones.reserve(static_cast<std::size_t>(m));
    std::fill(ones.data, ones.data + m, 1.0);
    weights = ones.data;
  }
  std::vector<std::int64_t> first(size), second(size);  // entry e of a triangle is (first[e], second[e])
  for (std::int64_t a = 0, e = 0; a < width; ++a)
    for (std::int64_t d = a; d < width; ++d, ++e) {
      first[e] = a;
      second[e] = d;
    }
  for (std::int64_t begin = 0; begin < size; begin += slice) {
    const std::int64_t count = std::min(slice, size - begin), stride = (count + lanes - 1) / lanes * lanes;
#pragma omp parallel for schedule(static) if (other.rows * stride > 1 << 16)
    for (std::int64_t i = 0; i < other.rows; ++i) {
      const double *y = other.data + i * width, *S = moments + i * size;
      double *row = packed.data + i * stride;
      for (std::int64_t e = begin; e < begin + count; ++e) *row++ = S[e] + y[first[e]] * y[second[e]];
      for (std::int64_t e = count; e < stride; ++e) *row++ = 0;
    }
    Job<double> job{};
    job.width = count;
    job.halves = 2 * stride / lanes;
    job.other = packed.data;
    job.values = weights;
    job.sums = sums + begin;
    job.sums_stride = size;
    run(columns, active()->f64.times[0], job);
  }
}

void Pattern::normal(bool columns, Factor<double> other, const double *moments, const double *weights, NormalJob job) const {
  std::vector<double> own;
  if (moments) {
    double *sums = job.covariance;
    if (!sums) {
      own.resize(static_cast<std::size_t>(columns ? n2 : n1) * triangle(other.width));
      sums = own.data();
    }
    add_moments(columns, other, moments, weights, sums);
    job.sums = sums;
  }
  job.from = gather_rows(columns, other, weights);
  const std::int64_t load = 1 + other.width;  // solving takes about as long as adding that many observations
  const int count = share(columns, load);
  const std::int64_t size = normal_scratch(job.from.width, job.from.stride);
  Packed<double> &memory = scratch<double>(0);
  memory.reserve(static_cast<std::size_t>(count) * size);
  const NormalTable *table = normal_table();
  split(columns, load, count, [&](std::int64_t first, std::int64_t last, int thread) {
    NormalJob mine = job;
    mine.first = first;
    mine.last = last;
    mine.scratch = memory.data + thread * size;
    table->normal(mine);
  });
}

namespace {
inline void run_blocks(const NormalTable *table, const BlocksJob<float> &job) { table->blocks_f32(job); }
inline void run_blocks(const NormalTable *table, const BlocksJob<double> &job) { table->blocks_f64(job); }
inline void run_factor(const NormalTable *table, const SystemsJob<float> &job) { table->factor_f32(job); }
inline void run_factor(const NormalTable *table, const SystemsJob<double> &job) { table->factor_f64(job); }
inline void run_solve(const NormalTable *table, const SystemsJob<float> &job) { table->solve_f32(job); }
inline void run_solve(const NormalTable *table, const SystemsJob<double> &job) { table->solve_f64(job); }

// pass(job) over ranges of groups of systems, of which each thread takes one
template <class R, class F>
void split_systems(SystemsJob<R> job, std::int64_t work, const F &pass) {
  const std::int64_t groups = (job.n + kTogether - 1) / kTogether, size = systems_scratch(job.width);
  const int count = static_cast<int>(std::min<std::int64_t>(threads(), 1 + groups * work / kGrain));
  Packed<double> &memory = scratch<double>(0);
  memory.reserve(static_cast<std::size_t>(count) * size);
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
  for (int t = 0; t < count; ++t) {
    SystemsJob<R> mine = job;
    mine.first = groups * t / count;
    mine.last = groups * (t + 1) / count;
    mine.scratch = memory.data + t * size;
    pass(mine);
  }
}
}  // namespace

template <class R>
void Pattern::blocks(bool columns, Factor<R> other, const double *weights, R *out) const {
  BlocksJob<R> job{};
  job.from = gather_rows(columns, other, weights);
  job.out = out;
  const int count = share(columns, 1);
  const std::int64_t size = job.from.stride * (job.from.stride + 1);
  Packed<double> &memory = scratch<double>(0);
  memory.reserve(static_cast<std::size_t>(count) * size);
  const NormalTable *table = normal_table();
  split(columns, 1, count, [&](std::int64_t first, std::int64_t last, int thread) {
    BlocksJob<R> mine = job;
    mine.first = first;
    mine.last = last;
    mine.scratch = memory.data + thread * size;
    run_blocks(table, mine);
  });
}

template <class R>
void factor_systems(std::int64_t n, std::int64_t width, const R *matrices, R *factors) {
  SystemsJob<R> job{};
  job.n = n;
  job.width = width;
  job.matrices = matrices;
  job.factors = factors;
  const NormalTable *table = normal_table();
  split_systems(job, width * width * width, [table](const SystemsJob<R> &mine) { run_factor(table, mine); });
}

template <class R>
void solve_systems(std::int64_t n, std::int64_t width, const R *factors, const R *right, R *solutions) {
  SystemsJob<R> job{};
  job.n = n;
  job.width = width;
  job.factors = const_cast<R *>(factors);
  job.right = right;
  job.solutions = solutions;
  const NormalTable *table = normal_table();
  split_systems(job, 4 * width * width, [table](const SystemsJob<R> &mine) { run_solve(table, mine); });
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
  if (order64_.empty())
    copy(order32_);
  else
    copy(order64_);
}

template <class I>
void row_major_order(const I *rows, const I *cols, std::int64_t m, std::int64_t n1, std::int64_t n2, std::int64_t *order) {
  std::vector<std::int64_t> by_col(m);
  auto sort = [m](const I *key, std::int64_t n, const std::int64_t *in, std::int64_t *out) {
    std::vector<std::int64_t> next(n + 1, 0);
    for (std::int64_t k = 0; k < m; ++k) ++next[static_cast<std::int64_t>(key[k]) + 1];
    for (std::int64_t j = 0; j < n; ++j) next[j + 1] += next[j];
    for (std::int64_t k = 0; k < m; ++k) {
      const std::int64_t at = in ? in[k] : k;
      out[next[key[at]]++] = at;
    }
  };
  for (std::int64_t k = 0; k < m; ++k)
    if (rows[k] < 0 || static_cast<std::int64_t>(rows[k]) >= n1 || cols[k] < 0 || static_cast<std::int64_t>(cols[k]) >= n2)
      throw std::invalid_argument("index out of range at observation " + std::to_string(k));
  sort(cols, n2, nullptr, by_col.data());
  sort(rows, n1, by_col.data(), order);
}

#define LORANK_INSTANTIATE(R, C)                                                                                          \
  template void Pattern::gradient<R, C>(bool, Factor<R>, const R *, Factor<R>, const R *, const R *, R *, double *,       \
                                        double *, bool) const;                                                            \
  template void Pattern::sample<R, C>(Factor<R>, Factor<R>, Factor<R>, Factor<R>, const R *, const R *, R *, double &,    \
                                      double &, bool) const;                                                              \
  template void Pattern::times<R, C>(bool, const R *, Factor<R>, R *) const;                                              \
  template void Pattern::to_columns<R, C>(const R *, R *) const;
#define LORANK_INSTANTIATE_SYSTEMS(R)                                                    \
  template void Pattern::blocks<R>(bool, Factor<R>, const double *, R *) const;          \
  template void factor_systems<R>(std::int64_t, std::int64_t, const R *, R *);           \
  template void solve_systems<R>(std::int64_t, std::int64_t, const R *, const R *, R *);
LORANK_INSTANTIATE_SYSTEMS(float)
LORANK_INSTANTIATE_SYSTEMS(double)
LORANK_INSTANTIATE(float, false)
LORANK_INSTANTIATE(float, true)
LORANK_INSTANTIATE(double, false)
LORANK_INSTANTIATE(double, true)
template void row_major_order(const std::int32_t *, const std::int32_t *, std::int64_t, std::int64_t, std::int64_t, std::int64_t *);
template void row_major_order(const std::int64_t *, const std::int64_t *, std::int64_t, std::int64_t, std::int64_t, std::int64_t *);

}  // namespace lorank
