// Shared by the files that run passes: scratch memory that outlives a call, and the division of rows among threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels.h"
#include "pattern.h"

namespace lorank {

inline std::int64_t lines_for(std::int64_t width, std::size_t size) {
  const std::int64_t lanes = kLineBytes / size;
  return std::max<std::int64_t>(1, (width + lanes - 1) / lanes);
}

inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

constexpr std::int64_t kGrain = 65536;  // observations a thread at the least: below that, waking it costs more than it does

// Scratch memory that outlives the call, which saves page faults in each iteration; one set per calling thread.
template <class R>
struct Packed {
  R *data = nullptr;
  std::size_t capacity = 0;
  std::unique_ptr<char[]> memory;

  void reserve(std::size_t count) {
    if (count <= capacity) return;
    release();  // before the new one is allocated: factors are large
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

constexpr int kBuffers = 3;

template <class R>
Packed<R> &scratch(int which) {
  thread_local Packed<R> buffers[kBuffers];
  return buffers[which];
}

// Ranges of majors with an equal share of the observations, many a thread: the last one that a thread takes is what the others
// wait for. A major index belongs to one range, so results do not depend on the number of threads.
template <class F>
void Pattern::split(bool columns, std::int64_t load, int count, const F &pass) const {
  const std::int64_t *ptr = columns ? col_ptr_ : row_ptr_;
  const std::int64_t majors = columns ? n2 : n1, total = m + load * majors;
  const int ranges = count > 1 ? 32 * count : 1;
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

template <class J, class F>
void Pattern::split_job(bool columns, std::int64_t load, std::int64_t size, const J &job, const F &pass) const {
  using R = std::remove_pointer_t<decltype(job.scratch)>;
  const int count = share(columns, load);
  Packed<R> &memory = scratch<R>(0);
  memory.reserve(static_cast<std::size_t>(count) * size);
  split(columns, load, count, [&](std::int64_t first, std::int64_t last, int thread) {
    J mine = job;
    mine.first = first;
    mine.last = last;
    mine.scratch = memory.data + thread * size;
    pass(mine);
  });
}

}  // namespace lorank
