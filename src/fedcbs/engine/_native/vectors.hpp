// Vectors of floats, and the three inner loops that everything else is made of.
//
// Written with the vector extensions of GCC and Clang, so that one source serves AVX-512, AVX2, SSE and NEON. A tile is
// what fits into the registers: ROWS x VECS accumulators, VECS vectors that they share, and one broadcast number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace fedcbs {

#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 6, VECS = 4;
#elif defined(__AVX__)
constexpr int LANES = 8, ROWS = 4, VECS = 3;
#elif defined(__aarch64__)
constexpr int LANES = 4, ROWS = 6, VECS = 4;
#else
constexpr int LANES = 4, ROWS = 4, VECS = 3;
#endif
constexpr int TILE = LANES * VECS;  // lanes of a tile

typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef float LooseVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
typedef uint8_t Bytes __attribute__((vector_size(LANES)));
typedef uint8_t LooseBytes __attribute__((vector_size(LANES), aligned(1), may_alias));

#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

static ALWAYS_INLINE Vec load(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }
static ALWAYS_INLINE void store(float* to, Vec value) { *reinterpret_cast<LooseVec*>(to) = value; }
static ALWAYS_INLINE Vec splat(float value) { return Vec{} + value; }
static ALWAYS_INLINE long round_up(long value, long step) { return (value + step - 1) / step * step; }

static ALWAYS_INLINE Ints lane_numbers() {
  Ints lanes;
  UNROLL
  for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
  return lanes;
}

// The first `count` lanes; the others are zero, and their memory is not touched.
static ALWAYS_INLINE Vec load_first(const float* from, long count) {
  if (count >= LANES) return load(from);
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
  Vec value{};
  std::memcpy(&value, from, static_cast<size_t>(count) * sizeof(float));
  return value;
#endif
}

static ALWAYS_INLINE void store_first(float* to, Vec value, long count) {
  if (count >= LANES) return store(to, value);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)value);
#else
  std::memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
#endif
}

static ALWAYS_INLINE float sum(Vec value) {
  float total = 0;
  UNROLL
  for (int lane = 0; lane < LANES; lane++) total += value[lane];
  return total;
}

// Lane p of the result is a[p] where bit H of p is clear, else b[p - H]; and the same from the other halves.
template <int H>
static ALWAYS_INLINE void exchange(Vec& a, Vec& b) {
#if defined(__clang__)
  Vec low, high;
  UNROLL
  for (int p = 0; p < LANES; p++) {
    low[p] = (p & H) ? b[p & ~H] : a[p];
    high[p] = (p & H) ? b[p] : a[p | H];
  }
#else
  Ints first, second;
  UNROLL
  for (int p = 0; p < LANES; p++) {
    first[p] = (p & H) ? LANES + (p & ~H) : p;
    second[p] = (p & H) ? LANES + p : (p | H);
  }
  Vec low = __builtin_shuffle(a, b, first), high = __builtin_shuffle(a, b, second);
#endif
  a = low, b = high;
}

template <int H>
static ALWAYS_INLINE void transpose_stage(Vec (&block)[LANES]) {
  UNROLL
  for (int row = 0; row < LANES; row++)
    if (!(row & H)) exchange<H>(block[row], block[row | H]);
}

static ALWAYS_INLINE void transpose_block(Vec (&block)[LANES]) {
  if constexpr (LANES >= 16) transpose_stage<8>(block);
  if constexpr (LANES >= 8) transpose_stage<4>(block);
  transpose_stage<2>(block);
  transpose_stage<1>(block);
}

// Sums of up to LANES vectors, as the lanes of one.
static ALWAYS_INLINE Vec sums(Vec (&block)[LANES]) {
  transpose_block(block);
  UNROLL
  for (int half = LANES / 2; half; half /= 2)
    for (int row = 0; row < half; row++) block[row] += block[row + half];
  return block[0];
}

// to[c][r] = from[r][c]; blocks at an edge overlap those before.
static void transpose(const float* from, long rows, long columns, long from_pitch, float* to, long to_pitch) {
  if (rows < LANES || columns < LANES) {
    for (long r = 0; r < rows; r++)
      for (long c = 0; c < columns; c++) to[c * to_pitch + r] = from[r * from_pitch + c];
    return;
  }
  for (long column = 0; column < columns; column += LANES)
    for (long row = 0; row < rows; row += LANES) {
      const long c = column < columns - LANES ? column : columns - LANES;
      const long r = row < rows - LANES ? row : rows - LANES;
      Vec block[LANES];
      UNROLL
      for (int i = 0; i < LANES; i++) block[i] = load(from + (r + i) * from_pitch + c);
      transpose_block(block);
      UNROLL
      for (int i = 0; i < LANES; i++) store(to + (c + i) * to_pitch + r, block[i]);
    }
}

// acc[r][lanes] += sum over k of a[r * row + k * step] * b[k * pitch + lanes]
template <int R, int V>
static ALWAYS_INLINE void multiply(Vec (&acc)[R][V], long count, const float* a, long row, long step, const float* b,
                                   long pitch) {
  for (long k = 0; k < count; k++, a += step, b += pitch) {
    Vec shared[V];
    UNROLL
    for (int v = 0; v < V; v++) shared[v] = load(b + v * LANES);
    UNROLL
    for (int r = 0; r < R; r++) {
      const Vec factor = splat(a[r * row]);
      UNROLL
      for (int v = 0; v < V; v++) acc[r][v] += factor * shared[v];
    }
  }
}

// Strides of a correlation: of its planes, of the rows in a plane, of the taps in a row.
struct Walk {
  long planes, rows, taps;
  long x_plane, x_row, x_tap;
  long w_plane, w_row;
};

// acc[r][lanes] += sum over planes, rows and taps of w[...][r] * x[... + lanes]
template <int R, int V>
static ALWAYS_INLINE void correlate(Vec (&acc)[R][V], const Walk& walk, const float* x, const float* w) {
  for (long plane = 0; plane < walk.planes; plane++)
    for (long line = 0; line < walk.rows; line++) {
      const float* from = x + plane * walk.x_plane + line * walk.x_row;
      const float* weights = w + plane * walk.w_plane + line * walk.w_row;
      for (long tap = 0; tap < walk.taps; tap++, from += walk.x_tap, weights += R) {
        Vec shared[V];
        UNROLL
        for (int v = 0; v < V; v++) shared[v] = load(from + v * LANES);
        UNROLL
        for (int r = 0; r < R; r++) {
          const Vec factor = splat(weights[r]);
          UNROLL
          for (int v = 0; v < V; v++) acc[r][v] += factor * shared[v];
        }
      }
    }
}

// acc[r][t] += d[r * row + lanes] * x[offsets[t] + lanes], lane by lane over `count` lanes
template <int R, int T>
static ALWAYS_INLINE void contract(Vec (&acc)[R][T], long count, const float* d, long row, const float* x,
                                   const long* offsets) {
  const float* taps[T];
  UNROLL
  for (int t = 0; t < T; t++) taps[t] = x + offsets[t];
  for (long p = 0; p < count; p += LANES) {
    Vec shared[T];
    UNROLL
    for (int t = 0; t < T; t++) shared[t] = load(taps[t] + p);
    UNROLL
    for (int r = 0; r < R; r++) {
      const Vec own = load(d + r * row + p);
      UNROLL
      for (int t = 0; t < T; t++) acc[r][t] += own * shared[t];
    }
  }
}

// e to the x for x <= 0, to about one unit in the last place; NaN stays NaN.
static ALWAYS_INLINE Vec exponential(Vec x) {
  const Vec lowest = splat(-87.0f);
  x = x < lowest ? lowest : x;
  const Vec shifted = x * 1.44269504f + 12582912.0f;  // rounds to a whole number in the low bits
  const Vec whole = shifted - 12582912.0f;
  const Vec r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Ints power = ((Ints)shifted << 23) + (127 << 23);
  return p * (Vec)power;
}

template <int N>
using Size = std::integral_constant<int, N>;

// Call f with `value`, from 1 to MOST, as a compile-time number.
template <int MOST, class F>
static ALWAYS_INLINE void with_size(long value, F&& f) {
  if constexpr (MOST > 1) {
    if (value < MOST) return with_size<MOST - 1>(value, f);
  }
  f(Size<MOST>{});
}

// Cut 0..total into pieces of at most `most`, as equal as can be.
template <class F>
static ALWAYS_INLINE void pieces(long total, long most, F&& f) {
  const long count = (total + most - 1) / most;
  for (long piece = 0, start = 0; piece < count; piece++) {
    const long size = total / count + (piece < total % count);
    f(start, size);
    start += size;
  }
}

}  // namespace fedcbs
