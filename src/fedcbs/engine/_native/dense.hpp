// A fully connected layer, with ReLU after it or not. Activations are rows of features, one row an image.
#pragma once
#include "update.hpp"

namespace fedcbs {

// Pitch of rows: whole vectors, and not a multiple of so many that rows fall on the same lines of the cache.
static long row_pitch(long features) {
  const long lines = round_up(features, LANES) / LANES;
  return (lines % 8 ? lines : lines + 1) * LANES;
}

// Weights are kept in panels of at most TILE outputs: [panel][input][output], then the biases; zero where padded.
struct Dense {
  static constexpr long DEPTH = 512;  // inputs summed over in one go, so that a panel's part stays in the cache

  long inputs, outputs;
  bool bias, relu;

  long in_pitch() const { return row_pitch(inputs); }
  long out_pitch() const { return row_pitch(outputs); }
  long width() const { return round_up(outputs, LANES); }
  long packed_weights() const { return inputs * width(); }
  long packed_size() const { return packed_weights() + width(); }
  long given_size() const { return inputs * outputs + (bias ? outputs : 0); }
  long scratch() const { return TILE * (DEPTH + LANES); }

  template <class F>
  ALWAYS_INLINE void panels(F&& f) const {
    for (long first = 0; first < outputs; first += TILE) {
      const long lanes = width() - first < TILE ? width() - first : TILE;
      f(first, lanes, first * inputs);  // first output, lanes of the panel, where it lies
    }
  }

  void pack(const float* given, float* packed) const {
    std::memset(packed, 0, sizeof(float) * static_cast<size_t>(packed_size()));
    panels([&](long first, long lanes, long at) {
      const long real = outputs - first < lanes ? outputs - first : lanes;
      transpose(given + first * inputs, real, inputs, inputs, packed + at, lanes);
    });
    if (bias) std::memcpy(packed + packed_weights(), given + inputs * outputs, sizeof(float) * outputs);
  }

  void unpack(const float* packed, float* given) const {
    panels([&](long first, long lanes, long at) {
      const long real = outputs - first < lanes ? outputs - first : lanes;
      transpose(packed + at, inputs, real, lanes, given + first * inputs, inputs);
    });
    if (bias) std::memcpy(given + inputs * outputs, packed + packed_weights(), sizeof(float) * outputs);
  }

  void forward(long images, const float* x, const float* w, float* y) const {
    const float* biases = w + packed_weights();
    panels([&](long first, long lanes, long at) {
      pieces(inputs, DEPTH, [&](long k, long depth) {
        const bool last = k + depth == inputs;
        pieces(images, ROWS, [&](long n, long rows) {
          with_size<ROWS>(rows, [&](auto r) {
            with_size<VECS>(lanes / LANES, [&](auto v) {
              forward_tile<r(), v()>(depth, x + n * in_pitch() + k, w + at + k * lanes, k ? nullptr : biases + first,
                                     last && relu, y + n * out_pitch() + first);
            });
          });
        });
      });
    });
  }

  // Gradient of the inputs, zero where `mask` is not above zero if there is one.
  void backward_inputs(long images, const float* dy, const float* w, const float* mask, float* dx,
                       float* scratch) const {
    pieces(round_up(inputs, LANES) / LANES, VECS, [&](long vec, long vecs) {
      const long k = vec * LANES, lanes = vecs * LANES;
      for (long o = 0; o < outputs; o += DEPTH) {
        const long depth = outputs - o < DEPTH ? outputs - o : DEPTH;
        turn(w, k, lanes, o, depth, scratch);
        const bool last = o + depth == outputs;
        pieces(images, ROWS, [&](long n, long rows) {
          with_size<ROWS>(rows, [&](auto r) {
            with_size<VECS>(vecs, [&](auto v) {
              const long to = n * in_pitch() + k;
              inputs_tile<r(), v()>(depth, dy + n * out_pitch() + o, scratch, o > 0,
                                    last && mask ? mask + to : nullptr, dx + to);
            });
          });
        });
      }
    });
  }

  // Gradients of weights and biases, each vector of them handed to `update` with its place.
  template <class U>
  void backward_weights(long images, const float* x, const float* dy, const U& update, long base) const {
    panels([&](long first, long lanes, long at) {
      pieces(inputs, ROWS, [&](long k, long rows) {
        with_size<ROWS>(rows, [&](auto r) {
          with_size<VECS>(lanes / LANES, [&](auto v) {
            weights_tile<r(), v()>(images, x + k, dy + first, update, base + at + k * lanes);
          });
        });
      });
    });
    if (!bias) return;
    for (long o = 0; o < width(); o += LANES) {
      Vec total{};
      for (long n = 0; n < images; n++) total += load(dy + n * out_pitch() + o);
      update(total, base + packed_weights() + o);
    }
  }

 private:
  template <int R, int V>
  __attribute__((noinline)) void forward_tile(long depth, const float* x, const float* w, const float* biases,
                                              bool clip, float* y) const {
    Vec acc[R][V];
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) acc[r][v] = load((biases ? biases : y + r * out_pitch()) + v * LANES);
    }
    multiply<R, V>(acc, depth, x, in_pitch(), 1, w, V * LANES);
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) {
        if (clip) acc[r][v] = acc[r][v] < 0.0f ? Vec{} : acc[r][v];  // NaN stays NaN
        store(y + r * out_pitch() + v * LANES, acc[r][v]);
      }
    }
  }

  template <int R, int V>
  __attribute__((noinline)) void inputs_tile(long depth, const float* dy, const float* turned, bool more,
                                             const float* mask, float* dx) const {
    Vec acc[R][V];
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) acc[r][v] = more ? load(dx + r * in_pitch() + v * LANES) : Vec{};
    }
    multiply<R, V>(acc, depth, dy, out_pitch(), 1, turned, V * LANES);
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) {
        if (mask) acc[r][v] = load(mask + r * in_pitch() + v * LANES) > 0.0f ? acc[r][v] : Vec{};
        store(dx + r * in_pitch() + v * LANES, acc[r][v]);
      }
    }
  }

  template <int R, int V, class U>
  __attribute__((noinline)) void weights_tile(long images, const float* x, const float* dy, const U& update,
                                              long at) const {
    Vec acc[R][V]{};
    multiply<R, V>(acc, images, x, 1, in_pitch(), dy, out_pitch());
    UNROLL
    for (int r = 0; r < R; r++) {
      UNROLL
      for (int v = 0; v < V; v++) update(acc[r][v], at + (r * V + v) * LANES);
    }
  }

  // Weights of `depth` outputs from o on and of the inputs from k on, as [output][input], zero past the last input.
  void turn(const float* w, long k, long lanes, long o, long depth, float* turned) const {
    const long real = inputs - k < lanes ? inputs - k : lanes;
    if (real < lanes) std::memset(turned, 0, sizeof(float) * static_cast<size_t>(depth * lanes));
    panels([&](long first, long own, long at) {
      const long from = first > o ? first : o, to = first + own < o + depth ? first + own : o + depth;
      if (from < to) transpose(w + at + k * own + (from - first), real, to - from, own, turned + (from - o) * lanes, lanes);
    });
  }
};

}  // namespace fedcbs
