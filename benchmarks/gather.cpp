// The machine's yardstick for benchmarks/passes.py: rows gathered and added up, with nothing else done.
//
//   c++ -O3 -march=native benchmarks/gather.cpp -o gather && ./gather ROWS DOUBLES_A_ROW GATHERS
//
// Prints the nanoseconds a gathered row and GB/s, the best of nine rounds.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

template <int WIDTH>
double round_of(const double *table, const std::int32_t *index, std::int64_t count) {
  double sum[WIDTH] = {};
  for (std::int64_t k = 0; k < count; ++k) {
    const double *ahead = table + std::int64_t(index[k + 24]) * WIDTH, *row = table + std::int64_t(index[k]) * WIDTH;
    for (int b = 0; b < WIDTH; b += 8) __builtin_prefetch(ahead + b);
    for (int i = 0; i < WIDTH; ++i) sum[i] += row[i];
  }
  double total = 0;
  for (double x : sum) total += x;
  return total;
}

int main(int argc, char **argv) {
  const std::int64_t rows = argc > 1 ? std::atoll(argv[1]) : 10000, width = argc > 2 ? std::atoll(argv[2]) : 16,
                     count = argc > 3 ? std::atoll(argv[3]) : 1000000;
  if (width < 4 || width > 32 || width % 4) {
    std::fprintf(stderr, "rows of 4, 8, .. 32 doubles\n");
    return 2;
  }
  double (*const rounds[])(const double *, const std::int32_t *, std::int64_t) = {
      round_of<4>, round_of<8>, round_of<12>, round_of<16>, round_of<20>, round_of<24>, round_of<28>, round_of<32>};
  double *table = static_cast<double *>(std::aligned_alloc(64, (rows * width * sizeof(double) + 63) / 64 * 64));
  for (std::int64_t i = 0; i < rows * width; ++i) table[i] = 1e-3 * (i % 1000);
  std::vector<std::int32_t> index(count + 24, 0);
  std::uint64_t state = 88172645463325252ull;
  for (std::int64_t k = 0; k < count; ++k) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    index[k] = static_cast<std::int32_t>(state % rows);
  }
  double best = 1e300, sink = 0;
  for (int round = 0; round < 9; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    sink += rounds[width / 4 - 1](table, index.data(), count);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds < best) best = seconds;
  }
  std::printf("%.3f %.3f %d\n", 1e9 * best / count, count * width * sizeof(double) / best / 1e9, sink > 0);
  std::free(table);
}
