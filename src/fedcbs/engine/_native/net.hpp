// A sequence of convolutions, then fully connected layers, and the softmax cross-entropy after them.
#pragma once
#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "conv.hpp"
#include "dense.hpp"
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fedcbs {

// Features as they are stored, and what turns them into what the model sees: scale * stored + shift, by channel.
struct Examples {
  const void* features;
  const int64_t* labels;
  const float* scale;
  const float* shift;
  long channel_size;  // features of one channel
  int bytes;          // whether features are bytes, or floats
};

struct Net {
  std::vector<Conv> convs;
  std::vector<Dense> denses;
  long packed_size = 0, given_size = 0;
  std::vector<long> packed_at, given_at;  // of each layer, convolutions first; given_at comes from outside

  long inputs() const { return convs.empty() ? denses[0].inputs : convs[0].channels * convs[0].height * convs[0].width; }
  long classes() const { return denses.back().outputs; }

  void place() {
    const auto add = [&](const auto& layer) {
      packed_at.push_back(packed_size);
      packed_size += layer.packed_size(), given_size += layer.given_size();
    };
    for (const Conv& layer : convs) add(layer);
    for (const Dense& layer : denses) add(layer);
  }

  template <class F>
  void each(F&& f) const {
    size_t number = 0;
    for (const Conv& layer : convs) f(layer, packed_at[number], given_at[number]), number++;
    for (const Dense& layer : denses) f(layer, packed_at[number], given_at[number]), number++;
  }

  void pack(const float* given, float* packed) const {
    each([&](const auto& layer, long to, long from) { layer.pack(given + from, packed + to); });
  }
  void unpack(const float* packed, float* given) const {
    each([&](const auto& layer, long from, long to) { layer.unpack(packed + from, given + to); });
  }
};

// Zeroed memory, in one piece.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { std::free(base_); }

  void reset(size_t bytes) {
    std::free(base_);
    base_ = nullptr, size_ = 0, used_ = 0;
    const size_t whole = bytes < HUGE_PAGE ? 4096 : HUGE_PAGE;
    bytes = (bytes + whole - 1) / whole * whole;
    if (posix_memalign(&base_, whole, bytes)) throw std::bad_alloc();
    size_ = bytes;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (whole == HUGE_PAGE) madvise(base_, bytes, MADV_HUGEPAGE);
#endif
    clear();
  }
  void clear() { std::memset(base_, 0, size_); }

  float* floats(long count) { return reinterpret_cast<float*>(bytes(count * static_cast<long>(sizeof(float)))); }
  uint8_t* bytes(long count) {
    uint8_t* found = static_cast<uint8_t*>(base_) + used_;
    used_ += static_cast<size_t>(round_up(count, 64) + 64);  // a gap, so that not all buffers fall on the same lines
    return found;
  }
  static size_t room(long count) { return static_cast<size_t>(round_up(count, 64) + 64); }

 private:
  static constexpr size_t HUGE_PAGE = 2 << 20;
  void* base_ = nullptr;
  size_t size_ = 0, used_ = 0;
};

// One thread's buffers, for batches of up to so many images.
class Workspace {
 public:
  explicit Workspace(const Net& net) : net_(net), convs_(net.convs.size()), denses_(net.denses.size()) {}

  float *weights = nullptr, *velocity = nullptr, *correction = nullptr;
  std::vector<float> total;  // of a batch's gradients, where it goes through in parts

  // Make room: for gradients only where something is trained.
  void prepare(long images, bool training) {
    if (images <= capacity_ && (training_ || !training)) return;
    capacity_ = images > capacity_ ? images : capacity_, training_ = training_ || training, laid_out_ = 0;
    size_t bytes = 0;
    lay([&](long count) { return bytes += Arena::room(count * 4), static_cast<float*>(nullptr); },
        [&](long count) { return bytes += Arena::room(count), static_cast<uint8_t*>(nullptr); });
    arena_.reset(bytes);
    lay([&](long count) { return arena_.floats(count); }, [&](long count) { return arena_.bytes(count); });
  }

  // What a diverged client left must not reach the next one.
  void clear() { arena_.clear(), laid_out_ = 0; }

  // Logits of a batch, as rows of denses.back().out_pitch().
  const float* forward(const Examples& examples, const int64_t* indices, long images) {
    if (net_.convs.empty()) {
      gather_rows(examples, indices, images);
    } else {
      if (laid_out_ != images) clear_padding(images);
      gather_planes(examples, indices, images);
      for (size_t i = 0; i < net_.convs.size(); i++) forward_conv(i, images);
      const Conv& last = net_.convs.back();
      transpose(flat_, last.features(), images, images, denses_[0].x, net_.denses[0].in_pitch());
    }
    for (size_t i = 0; i < net_.denses.size(); i++)
      net_.denses[i].forward(images, denses_[i].x, weights_of(i), denses_[i].y);
    return denses_.back().y;
  }

  // The batch's loss, the sum over images times `share`; the gradient of the logits is left for backward().
  float loss(const Examples& examples, const int64_t* indices, long images, float share, const float* class_weights) {
    const long classes = net_.classes(), pitch = net_.denses.back().out_pitch();
    double total = 0;
    for (long n = 0; n < images; n++) {
      const int64_t label = examples.labels[indices[n]];
      const float* logits = denses_.back().y + n * pitch;
      float* d = denses_.back().dy + n * pitch;
      const float factor = share * (class_weights ? class_weights[label] : 1.0f);
      float largest, sum_;
      softmax(logits, classes, d, largest, sum_);
      const Vec scale = splat(factor / sum_);
      for (long c = 0; c < classes; c += LANES) store(d + c, load(d + c) * scale);
      total += static_cast<double>(factor) * (std::log(sum_) + largest - logits[label]);
      d[label] -= factor;
    }
    return static_cast<float>(total);
  }

  template <class U>
  void backward(long images, const U& update) {
    const long convs = static_cast<long>(net_.convs.size());
    for (long i = static_cast<long>(net_.denses.size()) - 1; i >= 0; i--) {
      const Dense& layer = net_.denses[i];
      if (i > 0)
        layer.backward_inputs(images, denses_[i].dy, weights_of(i), net_.denses[i - 1].relu ? denses_[i].x : nullptr,
                              denses_[i - 1].dy, scratch_);
      else if (convs)
        layer.backward_inputs(images, denses_[0].dy, weights_of(0), nullptr, flat_rows_, scratch_);
      layer.backward_weights(images, denses_[i].x, denses_[i].dy, update, net_.packed_at[convs + i]);
    }
    if (convs) transpose(flat_rows_, images, net_.convs.back().features(), net_.denses[0].in_pitch(), flat_, images);
    for (long i = convs - 1; i >= 0; i--) backward_conv(i, images, update);
  }

  // Loss and most likely class of each image.
  void outcomes(const Examples& examples, const int64_t* indices, long images, float* losses, int64_t* predictions) {
    const float* logits = forward(examples, indices, images);
    const long classes = net_.classes();
    for (long n = 0; n < images; n++, logits += net_.denses.back().out_pitch()) {
      float largest, sum_;
      softmax(logits, classes, scratch_, largest, sum_);
      losses[n] = std::log(sum_) + largest - logits[examples.labels[indices[n]]];
      long best = 0;
      for (long c = 1; c < classes; c++)
        if (logits[c] > logits[best] || (logits[c] != logits[c] && logits[best] == logits[best])) best = c;
      predictions[n] = best;
    }
  }

 private:
  struct ConvBuffers {
    float *x, *d, *dx, *dw;
    uint8_t* index;
  };
  struct DenseBuffers {
    float *x, *y, *dy;
  };

  const Net& net_;
  Arena arena_;
  std::vector<ConvBuffers> convs_;
  std::vector<DenseBuffers> denses_;
  float *scratch_ = nullptr, *rows_ = nullptr, *flat_ = nullptr, *flat_rows_ = nullptr;
  long capacity_ = 0, laid_out_ = 0;
  bool training_ = false;

  template <class F, class B>
  void lay(F&& floats, B&& bytes) {
    const long n = capacity_;
    weights = floats(net_.packed_size);
    velocity = training_ ? floats(net_.packed_size) : nullptr;
    correction = training_ ? floats(net_.packed_size) : nullptr;
    long scratch = round_up(net_.classes(), LANES), rows = 0;
    for (size_t i = 0; i < net_.convs.size(); i++) {
      const Conv& layer = net_.convs[i];
      scratch = scratch > layer.scratch() ? scratch : layer.scratch();
      rows = rows > layer.pool_rows_size(n) ? rows : layer.pool_rows_size(n);
      convs_[i] = {floats(layer.input_size(n)), nullptr, nullptr, nullptr, bytes(layer.index_size(n))};
      if (training_) {
        convs_[i].d = floats(layer.gradient_size(n, i ? layer.used_h() : layer.pool_h));
        convs_[i].dx = i ? floats(layer.dx_size(n)) : nullptr;
        convs_[i].dw = floats(layer.packed_size());
      }
    }
    rows_ = floats(rows + TILE);
    if (!net_.convs.empty()) {
      flat_ = floats(net_.convs.back().features() * n + TILE);
      flat_rows_ = training_ ? floats(net_.denses[0].in_pitch() * n) : nullptr;
    }
    for (size_t i = 0; i < net_.denses.size(); i++) {
      const Dense& layer = net_.denses[i];
      scratch = scratch > layer.scratch() ? scratch : layer.scratch();
      denses_[i].x = i ? denses_[i - 1].y : floats(layer.in_pitch() * n);
      denses_[i].y = floats(layer.out_pitch() * n);
      denses_[i].dy = training_ ? floats(layer.out_pitch() * n) : nullptr;
    }
    scratch_ = floats(scratch);
  }

  const float* weights_of(size_t dense) const { return weights + net_.packed_at[net_.convs.size() + dense]; }

  void clear_padding(long images) {
    for (size_t i = 0; i < net_.convs.size(); i++)
      std::memset(convs_[i].x, 0, sizeof(float) * static_cast<size_t>(net_.convs[i].input_size(images)));
    laid_out_ = images;
  }

  void forward_conv(size_t i, long images) {
    const Conv& layer = net_.convs[i];
    float* y = flat_;
    long plane = layer.pooled_h() * layer.pooled_w() * images, row = layer.pooled_w() * images;
    if (i + 1 < net_.convs.size()) {  // into the middle of the next one's padded input
      const Conv& next = net_.convs[i + 1];
      plane = next.padded_h() * next.padded_w() * images, row = next.padded_w() * images;
      y = convs_[i + 1].x + next.pad_h * row + next.pad_w * images;
    }
    layer.forward(images, convs_[i].x, weights + net_.packed_at[i], y, plane, row, convs_[i].index, rows_, scratch_);
  }

  template <class U>
  void backward_conv(long i, long images, const U& update) {
    const Conv& layer = net_.convs[i];
    const ConvBuffers& own = convs_[i];
    const bool last = i + 1 == static_cast<long>(net_.convs.size());
    const float* dy = last ? flat_ : convs_[i + 1].dx;
    const long row = last ? layer.pooled_w() * images : net_.convs[i + 1].dx_pitch(images);
    float *dw = own.dw, *dbias = own.dw + layer.packed_weights();
    std::memset(dw, 0, sizeof(float) * static_cast<size_t>(layer.packed_size()));
    const long step = i ? layer.pooled_h() : 1;
    for (long q = 0; q < layer.pooled_h(); q += step) {
      layer.spread(images, dy, layer.pooled_h() * row, row, own.index, q, q + step, own.d, dbias);
      const long fit = CACHED / (ROWS * layer.row_lanes(images)), rows = step * layer.pool_h;
      pieces(rows, fit > 1 ? fit : 1, [&](long y, long count) {
        layer.backward_weights(images, own.x, own.d + y * layer.outputs * layer.row_lanes(images), q * layer.pool_h + y,
                               count, dw);
      });
    }
    if (i) layer.backward_inputs(images, own.d, weights + net_.packed_at[i], own.dx, scratch_);
    const long size = layer.bias ? layer.packed_size() : layer.packed_weights();
    for (long at = 0; at < size; at += LANES) update(load(dw + at), net_.packed_at[i] + at);
  }

  static constexpr long CACHED = 6 << 10;  // floats of a convolution's gradient that should stay in the first cache

  // d = exp(logits - largest), zero past the last class.
  static void softmax(const float* logits, long classes, float* d, float& largest, float& total) {
    largest = logits[0];
    for (long c = 1; c < classes; c++)
      if (logits[c] > largest || logits[c] != logits[c]) largest = logits[c];
    Vec totals{};
    for (long c = 0; c < classes; c += LANES) {
      const Ints real = lane_numbers() + static_cast<int32_t>(c) < static_cast<int32_t>(classes);
      const Vec e = real ? exponential(load(logits + c) - largest) : Vec{};
      totals += e;
      store(d + c, e);
    }
    total = sum(totals);
  }

  template <class T>
  static ALWAYS_INLINE Vec read(const T* from) {
    if constexpr (std::is_same_v<T, uint8_t>)
      return __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const LooseBytes*>(from), Ints), Vec);
    else
      return load(from);
  }

  void gather_rows(const Examples& examples, const int64_t* indices, long images) {
    if (examples.bytes) gather_rows_of<uint8_t>(examples, indices, images);
    else gather_rows_of<float>(examples, indices, images);
  }
  void gather_planes(const Examples& examples, const int64_t* indices, long images) {
    if (examples.bytes) gather_planes_of<uint8_t>(examples, indices, images);
    else gather_planes_of<float>(examples, indices, images);
  }

  template <class T>
  void gather_rows_of(const Examples& examples, const int64_t* indices, long images) {
    const long size = net_.inputs(), pitch = net_.denses[0].in_pitch(), whole = examples.channel_size / LANES * LANES;
    for (long n = 0; n < images; n++) {
      const T* from = static_cast<const T*>(examples.features) + indices[n] * size;
      float* to = denses_[0].x + n * pitch;
      for (long start = 0, c = 0; start < size; start += examples.channel_size, c++) {
        const float scale = examples.scale[c], shift = examples.shift[c];
        for (long k = start; k < start + whole; k += LANES) store(to + k, read(from + k) * scale + shift);
        for (long k = start + whole; k < start + examples.channel_size; k++)
          to[k] = static_cast<float>(from[k]) * scale + shift;
      }
    }
  }

  template <class T>
  void gather_planes_of(const Examples& examples, const int64_t* indices, long images) {
    const Conv& first = net_.convs[0];
    const long size = net_.inputs();
    const T* features = static_cast<const T*>(examples.features);
    for (long c = 0; c < first.channels; c++)
      for (long y = 0; y < first.height; y++) {
        float* to = convs_[0].x + ((c * first.padded_h() + y + first.pad_h) * first.padded_w() + first.pad_w) * images;
        const T* from = features + (c * first.height + y) * first.width;
        gather_row<T>(from, indices, size, first.width, images, examples.scale[c], examples.shift[c], to);
      }
  }

  // to[column][image] from one row of each image; blocks at an edge overlap those before.
  template <class T>
  static void gather_row(const T* from, const int64_t* indices, long size, long width, long images, float scale,
                         float shift, float* to) {
    if (width < LANES || images < LANES) {
      for (long n = 0; n < images; n++)
        for (long x = 0; x < width; x++)
          to[x * images + n] = static_cast<float>(from[indices[n] * size + x]) * scale + shift;
      return;
    }
    for (long block = 0; block < images; block += LANES)
      for (long column = 0; column < width; column += LANES) {
        const long n = block < images - LANES ? block : images - LANES;
        const long x = column < width - LANES ? column : width - LANES;
        Vec some[LANES];
        UNROLL
        for (int i = 0; i < LANES; i++) some[i] = read(from + indices[n + i] * size + x) * scale + shift;
        transpose_block(some);
        UNROLL
        for (int i = 0; i < LANES; i++) store(to + (x + i) * images + n, some[i]);
      }
  }
};

}  // namespace fedcbs
