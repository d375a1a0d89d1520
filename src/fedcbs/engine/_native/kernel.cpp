// Entry points: train clients, evaluate examples, sum squared gradients. Threads take whole clients, so that no sum
// depends on their number. They are made for a call and joined at its end, so that a process may fork between calls.
#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "net.hpp"

namespace fedcbs {

struct Job {
  Examples examples;
  int64_t threads, batch;     // images that go through at once, at most
  const volatile int* stop;   // not zero when the caller wants no more; results are void then
};

struct Training {
  int64_t clients, steps, width;
  const int64_t* indices;  // clients x steps x width
  const int64_t* sizes;    // clients x steps
  const int64_t* order;    // in which clients are taken: the longest first
  const float* start;
  float learning_rate, weight_decay, momentum, proximal;
  const float* corrections;    // clients x parameters, or null
  const float* class_weights;  // a row for all or for each client, or null
  int64_t class_weights_pitch;
  float* parameters;  // clients x parameters
  double* losses;
};

class Kernel {
 public:
  Net net;

  float* start(const float* given) {
    start_.resize(static_cast<size_t>(net.packed_size) + LANES);
    net.pack(given, start_.data());
    return start_.data();
  }

  // Call work(workspace, item) for each item. All memory is found before the threads start, where it may be refused.
  template <class F>
  void share(const Job& job, int64_t items, bool training, bool sums, F&& work) {
    const int64_t threads = job.threads < items ? job.threads : items;
    while (static_cast<int64_t>(workspaces_.size()) < threads) workspaces_.push_back(std::make_unique<Workspace>(net));
    for (int64_t i = 0; i < threads; i++) {
      workspaces_[i]->prepare(job.batch, training);
      if (sums) workspaces_[i]->total.resize(static_cast<size_t>(net.packed_size));
    }
    std::atomic<int64_t> next{0};
    const auto run = [&](Workspace& own) {
      for (int64_t item; !*job.stop && (item = next.fetch_add(1)) < items;) work(own, item);
    };
    std::vector<std::thread> others;
    others.reserve(static_cast<size_t>(threads));
    try {
      for (int64_t i = 1; i < threads; i++) others.emplace_back([&, i] { run(*workspaces_[i]); });
    } catch (const std::system_error&) {  // the system gives no more threads: those that there are do all
    }
    if (threads) run(*workspaces_[0]);
    for (std::thread& other : others) other.join();
  }

 private:
  std::vector<float> start_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
};

// One step of a client; a batch too large to go through at once is summed up first.
template <class U>
static float step(const Net& net, Workspace& own, const Job& job, const int64_t* indices, long size,
                  const float* class_weights, const U& update) {
  const float share = 1.0f / static_cast<float>(size);
  if (size <= job.batch) {
    own.forward(job.examples, indices, size);
    const float loss = own.loss(job.examples, indices, size, share, class_weights);
    own.backward(size, update);
    return loss;
  }
  std::vector<float>& total = own.total;
  total.assign(static_cast<size_t>(net.packed_size), 0.0f);
  double loss = 0;
  pieces(size, job.batch, [&](long first, long count) {
    own.forward(job.examples, indices + first, count);
    loss += own.loss(job.examples, indices + first, count, share, class_weights);
    own.backward(count, Accumulate{total.data()});
  });
  for (long at = 0; at < net.packed_size; at += LANES) update(load(total.data() + at), at);
  return static_cast<float>(loss);
}

template <class U>
static double train_client(const Net& net, Workspace& own, const Job& job, const Training& training, int64_t client,
                           const U& update) {
  const int64_t* sizes = training.sizes + client * training.steps;
  const int64_t* indices = training.indices + client * training.steps * training.width;
  const float* class_weights =
      training.class_weights ? training.class_weights + client * training.class_weights_pitch : nullptr;
  double losses = 0;
  int64_t made = 0;
  for (; made < training.steps && sizes[made] && !*job.stop; made++, indices += training.width)
    losses += step(net, own, job, indices, sizes[made], class_weights, update);
  return made ? losses / static_cast<double>(made) : std::nan("");
}

static void train_client(const Net& net, Workspace& own, const Job& job, const Training& training, int64_t client,
                         const float* start) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(net.packed_size);
  std::memcpy(own.weights, start, bytes);
  Rule rule{training.learning_rate, training.weight_decay, training.momentum, training.proximal, start, nullptr, nullptr};
  if (training.corrections) {
    net.pack(training.corrections + client * net.given_size, own.correction);
    rule.correction = own.correction;
  }
  if (training.momentum != 0) {
    std::memset(own.velocity, 0, bytes);
    rule.velocity = own.velocity;
  }
  const bool plain = !rule.correction && !rule.velocity && rule.proximal == 0;
  const double loss = plain ? train_client(net, own, job, training, client, PlainStep(own.weights, rule))
                            : train_client(net, own, job, training, client, FullStep(own.weights, rule));
  float* given = training.parameters + client * net.given_size;
  net.unpack(own.weights, given);
  training.losses[client] = loss;
  if (!std::isfinite(loss)) own.clear();
}

}  // namespace fedcbs

using namespace fedcbs;

// Layers as rows of 14 numbers: kind (0 convolution, 1 fully connected), where its parameters begin in the model's
// vector, then the fields of Conv or Dense in order.
extern "C" Kernel* fedcbs_open(const int64_t* layers, int64_t count) {
  try {
    auto kernel = std::make_unique<Kernel>();
    for (int64_t i = 0; i < count; i++, layers += 14) {
      const int64_t* f = layers + 2;
      kernel->net.given_at.push_back(layers[1]);
      if (*layers == 0)
        kernel->net.convs.push_back({f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8] != 0, f[9] != 0, f[10], f[11]});
      else
        kernel->net.denses.push_back({f[0], f[1], f[2] != 0, f[3] != 0});
    }
    kernel->net.place();
    return kernel.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

extern "C" void fedcbs_close(Kernel* kernel) { delete kernel; }

extern "C" int fedcbs_train(Kernel* kernel, const Job* job, const Training* training) {
  try {
    const float* start = kernel->start(training->start);
    kernel->share(*job, training->clients, true, training->width > job->batch, [&](Workspace& own, int64_t item) {
      train_client(kernel->net, own, *job, *training, training->order[item], start);
    });
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

extern "C" int fedcbs_outcomes(Kernel* kernel, const Job* job, const float* parameters, const int64_t* indices,
                               int64_t count, float* losses, int64_t* predictions) {
  try {
    const float* start = kernel->start(parameters);
    const int64_t blocks = (count + job->batch - 1) / job->batch;
    const size_t bytes = sizeof(float) * static_cast<size_t>(kernel->net.packed_size);
    std::vector<Workspace*> ready;
    std::mutex guard;
    ready.reserve(static_cast<size_t>(job->threads));
    kernel->share(*job, blocks, false, false, [&](Workspace& own, int64_t block) {
      {
        std::lock_guard<std::mutex> lock(guard);
        bool known = false;
        for (Workspace* other : ready) known = known || other == &own;
        if (!known) std::memcpy(own.weights, start, bytes), ready.push_back(&own);
      }
      const int64_t first = block * job->batch, size = count - first < job->batch ? count - first : job->batch;
      own.outcomes(job->examples, indices + first, size, losses + first, predictions + first);
    });
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

// Gradient of the mean loss for each model and group of examples: squares[model][group] is the sum over tensors of its
// mean square. Group g is indices[bounds[g]] to indices[bounds[g + 1]]; none is empty.
extern "C" int fedcbs_squares(Kernel* kernel, const Job* job, const float* parameters, int64_t models,
                              const int64_t* indices, const int64_t* bounds, int64_t groups, double* squares) {
  try {
    const Net& net = kernel->net;
    kernel->share(*job, models * groups, true, false, [&](Workspace& own, int64_t item) {
      const int64_t model = item / groups, group = item % groups, first = bounds[group], size = bounds[group + 1] - first;
      net.pack(parameters + model * net.given_size, own.weights);
      std::memset(own.velocity, 0, sizeof(float) * static_cast<size_t>(net.packed_size));
      pieces(size, job->batch, [&](long start, long count) {
        own.forward(job->examples, indices + first + start, count);
        own.loss(job->examples, indices + first + start, count, 1.0f / static_cast<float>(size), nullptr);
        own.backward(count, Accumulate{own.velocity});
      });
      double total = 0;
      const auto add = [&](long from, long count, long real) {
        double own_total = 0;
        for (long i = from; i < from + count; i++) own_total += static_cast<double>(own.velocity[i]) * own.velocity[i];
        total += own_total / static_cast<double>(real);
      };
      net.each([&](const auto& layer, long at, long) {
        const long weights = layer.packed_weights();
        add(at, weights, layer.given_size() - (layer.bias ? layer.outputs : 0));
        if (layer.bias) add(at + weights, layer.packed_size() - weights, layer.outputs);
      });
      squares[item] = total;
      if (!std::isfinite(total)) own.clear();
    });
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}
