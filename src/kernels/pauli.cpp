// See pauli.h. Compiled once per instruction set (kernels.h).
#include "pauli.h"

#include "kernels.h"

namespace lorank {
namespace {

// The Walsh-Hadamard transform of d numbers, in place.
inline void transform(double *a, std::int64_t d) {
  for (std::int64_t i = 0; i < d; i += kPauliLanes) {
    double *p = a + i, q[8];
    for (int t = 0; t < 4; ++t) {
      q[t] = p[2 * t] + p[2 * t + 1];
      q[t + 4] = p[2 * t] - p[2 * t + 1];
    }
    // q holds the sums of pairs, then the differences; two more levels within each half
    for (int half = 0; half < 8; half += 4) {
      const double x0 = q[half] + q[half + 1], x1 = q[half] - q[half + 1];
      const double x2 = q[half + 2] + q[half + 3], x3 = q[half + 2] - q[half + 3];
      const int low = half / 4;
      p[low] = x0 + x2;
      p[low + 2] = x1 + x3;
      p[low + 4] = x0 - x2;
      p[low + 6] = x1 - x3;
    }
  }
  for (std::int64_t h = kPauliLanes; h < d; h <<= 1)
    for (std::int64_t i = 0; i < d; i += 2 * h) {
      double *p = a + i, *q = a + i + h;
      for (std::int64_t j = 0; j < h; ++j) {
        const double x = p[j], y = q[j];
        p[j] = x + y;
        q[j] = x - y;
      }
    }
}

void expectations(const PauliJob &job) {
  const std::int64_t d = job.d, r = job.r;
  double *re = job.scratch, *im = re + d;
  for (std::int64_t g = job.first; g < job.last; ++g) {
    const std::int64_t f = job.flips[g], high = f & ~(kPauliLanes - 1);
    const double *right = job.right + (f & (kPauliLanes - 1)) * 2 * d * r;
    for (std::int64_t i = 0; i < d; i += kPauliLanes) {  // X(i, i XOR f)
      double x[kPauliLanes] = {}, y[kPauliLanes] = {};
      for (std::int64_t k = 0; k < r; ++k) {
        const double *lr = job.left + 2 * k * d + i, *li = lr + d;
        const double *rr = right + 2 * k * d + (i ^ high), *ri = rr + d;
        for (int t = 0; t < kPauliLanes; ++t) {
          x[t] += lr[t] * rr[t] + li[t] * ri[t];
          y[t] += li[t] * rr[t] - lr[t] * ri[t];
        }
      }
      for (int t = 0; t < kPauliLanes; ++t) {
        re[i + t] = x[t];
        im[i + t] = y[t];
      }
    }
    transform(re, d);
    transform(im, d);
    for (std::int64_t k = job.indptr[g]; k < job.indptr[g + 1]; ++k) {  // times the conjugate phase, i^phase
      const std::int64_t z = job.signs[k];
      switch (job.phases[k]) {
        case 0: job.out[k] = re[z]; break;
        case 1: job.out[k] = -im[z]; break;
        case 2: job.out[k] = -re[z]; break;
        default: job.out[k] = im[z];
      }
    }
  }
}

void times(const PauliJob &job) {
  const std::int64_t d = job.d, r = job.r;
  double *re = job.scratch, *im = re + d;
  for (std::int64_t g = job.first; g < job.last; ++g) {
    for (std::int64_t i = 0; i < 2 * d; ++i) re[i] = 0;
    for (std::int64_t k = job.indptr[g]; k < job.indptr[g + 1]; ++k) {
      const std::int64_t z = job.signs[k];
      const double p = job.p[k];
      switch (job.phases[k]) {
        case 0: re[z] += p; break;
        case 1: im[z] -= p; break;
        case 2: re[z] -= p; break;
        default: im[z] += p;
      }
    }
    transform(re, d);
    transform(im, d);
    const std::int64_t f = job.flips[g], high = f & ~(kPauliLanes - 1);
    const double *right = job.right + (f & (kPauliLanes - 1)) * 2 * d * r;
    for (std::int64_t k = 0; k < r; ++k) {
      double *out_re = job.out + 2 * k * d, *out_im = out_re + d;
      const double *column = right + 2 * k * d;
      for (std::int64_t i = 0; i < d; i += kPauliLanes) {
        const double *vr = column + (i ^ high), *vi = vr + d;
        for (int t = 0; t < kPauliLanes; ++t) {
          out_re[i + t] += re[i + t] * vr[t] - im[i + t] * vi[t];
          out_im[i + t] += re[i + t] * vi[t] + im[i + t] * vr[t];
        }
      }
    }
  }
}

const PauliPasses kPasses = {expectations, times};

}  // namespace

namespace LORANK_ISA {
const PauliPasses *pauli() { return &kPasses; }
}  // namespace LORANK_ISA

}  // namespace lorank
