// A convolution of stride 1, with ReLU after it or not, and max pooling after that or not, in one go.
//
// Activations are [channel][row][column][image], images innermost and without gaps: columns and images together make one
// long run of lanes, which fills vectors whatever the batch's size. The input carries its padding as zeros around it.
#pragma once
#include "update.hpp"

namespace fedcbs {

constexpr uint8_t DEAD = 255;  // where ReLU let nothing through

struct Conv {
  long channels, height, width;  // of the input, without padding
  long outputs, kernel_h, kernel_w, pad_h, pad_w;
  bool bias, relu;
  long pool_h, pool_w;  // 1 where nothing is pooled

  long padded_h() const { return height + 2 * pad_h; }
  long padded_w() const { return width + 2 * pad_w; }
  long pooled_h() const { return (padded_h() - kernel_h + 1) / pool_h; }
  long pooled_w() const { return (padded_w() - kernel_w + 1) / pool_w; }
  long used_h() const { return pooled_h() * pool_h; }  // rows of the convolution that reach the output
  long used_w() const { return pooled_w() * pool_w; }
  long taps() const { return channels * kernel_h * kernel_w; }
  long features() const { return outputs * pooled_h() * pooled_w(); }
  long packed_weights() const { return round_up(outputs * taps(), LANES); }
  long packed_size() const { return packed_weights() + round_up(outputs, LANES); }
  long given_size() const { return outputs * taps() + (bias ? outputs : 0); }

  // Sizes of buffers in floats, for a batch of so many images.
  long row_lanes(long images) const { return round_up(used_w() * images, LANES) + LANES; }
  long input_size(long images) const { return channels * padded_h() * padded_w() * images + TILE; }
  long pool_rows_size(long images) const { return ROWS * pool_h * row_lanes(images); }
  long gradient_size(long images, long rows) const { return rows * outputs * row_lanes(images) + TILE; }
  long dx_pitch(long images) const { return round_up(width * images, LANES) + LANES; }
  long dx_size(long images) const { return channels * height * dx_pitch(images) + TILE; }
  long index_size(long images) const { return features() * round_up(images, LANES) + LANES; }  // in bytes
  long scratch() const { return outputs * taps(); }

  void pack(const float* given, float* packed) const {
    std::memset(packed, 0, sizeof(float) * static_cast<size_t>(packed_size()));
    std::memcpy(packed, given, sizeof(float) * static_cast<size_t>(outputs * taps()));
    if (bias) std::memcpy(packed + packed_weights(), given + outputs * taps(), sizeof(float) * outputs);
  }

  void unpack(const float* packed, float* given) const {
    std::memcpy(given, packed, sizeof(float) * static_cast<size_t>(outputs * taps()));
    if (bias) std::memcpy(given + outputs * taps(), packed + packed_weights(), sizeof(float) * outputs);
  }

  // Pooled outputs at y + output * y_plane + row * y_row; which of a window's values won goes to `index`.
  void forward(long images, const float* x, const float* w, float* y, long y_plane, long y_row, uint8_t* index,
               float* rows_buffer, float* scratch) const {
    const long row = row_lanes(images);
    Walk walk{channels, kernel_h, kernel_w, padded_h() * padded_w() * images, padded_w() * images, images, 0, 0};
    pieces(outputs, ROWS, [&](long o, long count) {
      for (long t = 0; t < taps(); t++)
        for (long r = 0; r < count; r++) scratch[o * taps() + t * count + r] = w[(o + r) * taps() + t];
    });
    for (long q = 0; q < pooled_h(); q++)
      pieces(outputs, ROWS, [&](long o, long count) {
        walk.w_plane = kernel_h * kernel_w * count, walk.w_row = kernel_w * count;
        for (long s = 0; s < pool_h; s++)
          for (long p = 0; p < used_w() * images; p += TILE)
            with_size<ROWS>(count, [&](auto r) {
              forward_tile<r()>(walk, used_w() * images - p, x + (q * pool_h + s) * walk.x_row + p,
                                scratch + o * taps(), w + packed_weights() + o, rows_buffer + s * row + p,
                                pool_h * row);
            });
        for (long r = 0; r < count; r++)
          pool(images, rows_buffer + r * pool_h * row, row, y + (o + r) * y_plane + q * y_row,
               index + ((o + r) * pooled_h() + q) * pooled_w() * round_up(images, LANES));
      });
  }

  // Gradient of the convolution's outputs for pooled rows q0 to q1: d[row][output][lanes], zero after the last lane.
  void spread(long images, const float* dy, long dy_plane, long dy_row, const uint8_t* index, long q0, long q1,
              float* d, float* dbias) const {
    const long row = row_lanes(images), bytes = round_up(images, LANES);
    for (long q = q0; q < q1; q++)
      for (long o = 0; o < outputs; o++) {
        Vec total{};
        for (long s = 0; s < pool_h; s++) {
          float* to = d + ((q - q0) * pool_h + s) * outputs * row + o * row;
          for (long x = 0; x < pooled_w(); x++) {
            const float* from = dy + o * dy_plane + q * dy_row + x * images;
            const uint8_t* won = index + ((o * pooled_h() + q) * pooled_w() + x) * bytes;
            for (long t = 0; t < pool_w; t++)
              for (long n = 0; n < images; n += LANES) {
                const Ints which = __builtin_convertvector(*reinterpret_cast<const LooseBytes*>(won + n), Ints);
                const Vec own = which == static_cast<int32_t>(s * pool_w + t) ? load_first(from + n, images - n) : Vec{};
                total += own;
                store(to + (x * pool_w + t) * images + n, own);  // what is too much is written over, or cleared
              }
          }
          std::memset(to + used_w() * images, 0, sizeof(float) * static_cast<size_t>(row - used_w() * images));
        }
        dbias[o] += sum(total);
      }
  }

  // Add to dw[output][tap] what rows y0 to y0 + rows of the gradient d give.
  void backward_weights(long images, const float* x, const float* d, long y0, long rows, float* dw) const {
    const long row = row_lanes(images), lanes = round_up(used_w() * images, LANES);
    pieces(outputs, ROWS, [&](long o, long count) {
      pieces(taps(), VECS, [&](long t, long width_) {
        long offsets[VECS];
        for (long i = 0; i < width_; i++) offsets[i] = tap_offset(images, t + i);
        with_size<ROWS>(count, [&](auto r) {
          with_size<VECS>(width_, [&](auto v) {
            weights_tile<r(), v()>(rows, lanes, d + o * row, outputs * row, row, x + y0 * padded_w() * images,
                                   padded_w() * images, offsets, dw + o * taps() + t);
          });
        });
      });
    });
  }

  // Gradient of the input, [channel][row] with rows of dx_pitch lanes.
  void backward_inputs(long images, const float* d, const float* w, float* dx, float* scratch) const {
    const long row = row_lanes(images), pitch = dx_pitch(images), area = kernel_h * kernel_w;
    pieces(channels, ROWS, [&](long c, long count) {
      for (long o = 0; o < outputs; o++)
        for (long t = 0; t < area; t++)
          for (long r = 0; r < count; r++)
            scratch[(c * outputs + o * count) * area + t * count + r] = w[o * taps() + (c + r) * area + t];
    });
    for (long y = 0; y < height; y++) {
      // The convolution's row y + pad_h - i saw input row y through tap i.
      const long i0 = y + pad_h - used_h() + 1 > 0 ? y + pad_h - used_h() + 1 : 0;
      const long i1 = y + pad_h < kernel_h - 1 ? y + pad_h : kernel_h - 1;
      for (long x = 0, next; x < width; x = next) {
        const long j0 = first_tap(x), j1 = last_tap(x);
        for (next = x + 1; next < width && first_tap(next) == j0 && last_tap(next) == j1;) next++;
        const long lanes = (next - x) * images;
        pieces(channels, ROWS, [&](long c, long count) {
          const Walk walk{outputs, i1 - i0 + 1, j1 - j0 + 1, row, -outputs * row, -images, area * count, kernel_w * count};
          const float* from = d + (y + pad_h - i0) * outputs * row + (x + pad_w - j0) * images;
          const float* weights = scratch + c * outputs * area + (i0 * kernel_w + j0) * count;
          for (long p = 0; p < lanes; p += TILE)
            with_size<ROWS>(count, [&](auto r) {
              forward_tile<r()>(walk, lanes - p, from + p, weights, nullptr,
                                dx + c * height * pitch + y * pitch + x * images + p, height * pitch);
            });
        });
      }
    }
  }

 private:
  long first_tap(long x) const { return x + pad_w - used_w() + 1 > 0 ? x + pad_w - used_w() + 1 : 0; }
  long last_tap(long x) const { return x + pad_w < kernel_w - 1 ? x + pad_w : kernel_w - 1; }

  long tap_offset(long images, long tap) const {
    const long j = tap % kernel_w, i = tap / kernel_w % kernel_h, c = tap / kernel_w / kernel_h;
    return ((c * padded_h() + i) * padded_w() + j) * images;
  }

  // One tile of a correlation; fewer vectors where fewer lanes are left.
  template <int R>
  static ALWAYS_INLINE void forward_tile(const Walk& walk, long lanes, const float* x, const float* w,
                                         const float* biases, float* y, long y_pitch) {
    with_size<VECS>((lanes + LANES - 1) / LANES,
                    [&](auto v) { correlate_tile<R, v()>(walk, x, w, biases, y, y_pitch); });
  }

  template <int R, int V>
  static __attribute__((noinline)) void correlate_tile(const Walk& walk, const float* x, const float* w,
                                                       const float* biases, float* y, long y_pitch) {
    Vec acc[R][V];
    UNROLL
    for (int r = 0; r < R; r++) {
      const Vec first = biases ? splat(biases[r]) : Vec{};
      UNROLL
      for (int v = 0; v < V; v++) acc[r][v] = first;
    }
    correlate<R, V>(acc, walk, x, w);
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) store(y + r * y_pitch + v * LANES, acc[r][v]);
    }
  }

  template <int R, int T>
  __attribute__((noinline)) void weights_tile(long rows, long lanes, const float* d, long d_row, long d_output,
                                              const float* x, long x_row, const long* offsets, float* dw) const {
    Vec acc[R][T]{};
    for (long row = 0; row < rows; row++) contract<R, T>(acc, lanes, d + row * d_row, d_output, x + row * x_row, offsets);
    constexpr int BLOCKS = (R * T + LANES - 1) / LANES;
    UNROLL
    for (int block = 0; block < BLOCKS; block++) {
      Vec some[LANES];
      UNROLL
      for (int i = 0; i < LANES; i++) {
        const int at = block * LANES + i;
        some[i] = at < R * T ? acc[at < R * T ? at / T : 0][at < R * T ? at % T : 0] : Vec{};
      }
      const Vec totals = sums(some);
      UNROLL
      for (int i = 0; i < LANES; i++) {
        const int at = block * LANES + i;
        if (at < R * T) dw[at / T * taps() + at % T] += totals[i];
      }
    }
  }

  // One pooled row of one output, from `pool_h` rows of the convolution.
  void pool(long images, const float* rows, long row, float* y, uint8_t* index) const {
    for (long x = 0; x < pooled_w(); x++)
      for (long n = 0; n < images; n += LANES) {
        const float* from = rows + x * pool_w * images + n;
        Vec best = load(from);
        Ints which{};
        for (long s = 0; s < pool_h; s++)
          for (long t = s ? 0 : 1; t < pool_w; t++) {
            const Vec own = load(from + s * row + t * images);
            const Ints better = (own > best) | (own != own);  // the first of equals, and NaN wins, as in PyTorch
            best = better ? own : best;
            which = better ? Ints{} + static_cast<int32_t>(s * pool_w + t) : which;
          }
        if (relu) {
          which = best > 0.0f ? which : Ints{} + DEAD;
          best = best < 0.0f ? Vec{} : best;
        }
        store_first(y + x * images + n, best, images - n);
        *reinterpret_cast<LooseBytes*>(index + x * round_up(images, LANES) + n) = __builtin_convertvector(which, Bytes);
      }
  }
};

}  // namespace fedcbs
