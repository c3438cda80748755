// Passes that end in small symmetric matrices: normal equations, blocks, and many systems at a time (see normal.h).
#include <algorithm>
#include <vector>

#include "packed.h"
#include "pattern.h"

namespace lorank {

template <class R>
Gathered<R> Pattern::gather_rows(bool columns, Factor<R> other, const double *weights) const {
  Gathered<R> from{};
  from.indptr = columns ? col_ptr_ : row_ptr_;
  from.index = columns ? row_index_ : col_index_;
  from.width = other.width;
  const std::int64_t lines = lines_for(other.width, sizeof(R));
  from.stride = lines * kLineBytes / static_cast<std::int64_t>(sizeof(R));
  Packed<R> &b = scratch<R>(1);
  b.template pack<false>(other, static_cast<const R *>(nullptr), Factor<R>{nullptr, other.rows, 0}, 2 * lines);
  from.other = b.data;
  from.weights = weights;
  return from;
}
template Gathered<double> Pattern::gather_rows<double>(bool, Factor<double>, const double *) const;

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
    run(columns, active()->passes->f64.times[0], job);
  }
}

void Pattern::normal(bool columns, Factor<double> other, const double *moments, const double *weights, const Sides *sides,
                     NormalJob job) const {
  if (sides) {
    Packed<double> &both = scratch<double>(2);
    both.reserve(static_cast<std::size_t>(m));
    multiply(columns, *sides, weights, both.data);
    weights = both.data;
  }
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
  split_job(columns, load, normal_scratch(job.from.width, job.from.stride), job, active()->normal->normal);
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
  const NormalTable *table = active()->normal;
  split_job(columns, 1, job.from.stride * job.from.stride, job, [table](const BlocksJob<R> &mine) { run_blocks(table, mine); });
}

namespace {
inline void run_solve_blocks(const NormalTable *table, const SolveBlocksJob<float> &job) { table->solve_blocks_f32(job); }
inline void run_solve_blocks(const NormalTable *table, const SolveBlocksJob<double> &job) { table->solve_blocks_f64(job); }
}  // namespace

template <class R>
void Pattern::solve_blocks(bool columns, Factor<R> other, const double *weights, double shift, const R *right, R *solutions) const {
  SolveBlocksJob<R> job{};
  job.from = gather_rows(columns, other, weights);
  job.shift = shift;
  job.right = right;
  job.solutions = solutions;
  const std::int64_t load = 1 + other.width;  // solving takes about as long as adding that many observations
  const std::int64_t size = solve_blocks_scratch(job.from.width, job.from.stride);
  const NormalTable *table = active()->normal;
  split_job(columns, load, size, job, [table](const SolveBlocksJob<R> &mine) { run_solve_blocks(table, mine); });
}

namespace {
inline void run_steps(const NormalTable *table, const StepsJob<float> &job) { table->steps_f32(job); }
inline void run_steps(const NormalTable *table, const StepsJob<double> &job) { table->steps_f64(job); }
}  // namespace

template <class R>
void Pattern::steps(bool columns, Factor<R> other, StepsJob<R> job) const {
  job.indptr = columns ? col_ptr_ : row_ptr_;
  job.index = columns ? row_index_ : col_index_;
  job.width = other.width;
  const std::int64_t lines = lines_for(other.width, sizeof(R));
  job.stride = lines * kLineBytes / static_cast<std::int64_t>(sizeof(R));
  Packed<R> &packed = scratch<R>(1);
  packed.template pack<false>(other, static_cast<const R *>(nullptr), Factor<R>{nullptr, other.rows, 0}, 2 * lines);
  job.other = packed.data;
  const NormalTable *table = active()->normal;
  split_job(columns, 2, steps_scratch(job.stride), job, [table](const StepsJob<R> &mine) { run_steps(table, mine); });
}

template <class R>
void factor_systems(std::int64_t n, std::int64_t width, const R *matrices, R *factors) {
  SystemsJob<R> job{};
  job.n = n;
  job.width = width;
  job.matrices = matrices;
  job.factors = factors;
  const NormalTable *table = active()->normal;
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
  const NormalTable *table = active()->normal;
  split_systems(job, 4 * width * width, [table](const SystemsJob<R> &mine) { run_solve(table, mine); });
}

#define LORANK_INSTANTIATE_SYSTEMS(R)                                                    \
  template void Pattern::blocks<R>(bool, Factor<R>, const double *, R *) const;          \
  template void Pattern::solve_blocks<R>(bool, Factor<R>, const double *, double, const R *, R *) const; \
  template void Pattern::steps<R>(bool, Factor<R>, StepsJob<R>) const;                   \
  template void factor_systems<R>(std::int64_t, std::int64_t, const R *, R *);           \
  template void solve_systems<R>(std::int64_t, std::int64_t, const R *, const R *, R *);
LORANK_INSTANTIATE_SYSTEMS(float)
LORANK_INSTANTIATE_SYSTEMS(double)

}  // namespace lorank
