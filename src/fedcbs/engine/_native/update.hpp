// What becomes of a gradient: a step of SGD, or a sum that is used later.
#pragma once
#include "vectors.hpp"

namespace fedcbs {

// A client's numbers of the local rule; null where a term is absent. Vectors are packed as the weights are.
struct Rule {
  float learning_rate, weight_decay, momentum, proximal;
  const float* start;
  const float* correction;
  float* velocity;
};

struct PlainStep {
  float* weights;
  float keep, rate;
  PlainStep(float* w, const Rule& rule)
      : weights(w), keep(1.0f - rule.learning_rate * rule.weight_decay), rate(rule.learning_rate) {}
  ALWAYS_INLINE void operator()(Vec gradient, long at) const {
    store(weights + at, load(weights + at) * keep - gradient * rate);
  }
};

struct FullStep {
  float* weights;
  Rule rule;
  FullStep(float* w, const Rule& r) : weights(w), rule(r) {}
  ALWAYS_INLINE void operator()(Vec gradient, long at) const {
    const Vec w = load(weights + at);
    Vec d = gradient + w * rule.weight_decay;
    if (rule.proximal != 0) d += (w - load(rule.start + at)) * rule.proximal;
    if (rule.correction) d += load(rule.correction + at);
    if (rule.velocity) {
      d += load(rule.velocity + at) * rule.momentum;
      store(rule.velocity + at, d);
    }
    store(weights + at, w - d * rule.learning_rate);
  }
};

struct Accumulate {
  float* total;
  ALWAYS_INLINE void operator()(Vec gradient, long at) const { store(total + at, load(total + at) + gradient); }
};

}  // namespace fedcbs
