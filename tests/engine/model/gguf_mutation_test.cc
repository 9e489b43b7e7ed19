// Hostile model files: a small valid one and the head of the real one, changed at random, go
// through everything that reads a file: nothing crashes and nothing large is allocated. Every
// change comes from a printed seed.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/load_tokenizer.h"
#include "engine/model/decoder.h"
#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "tests/support/small_model.h"
#include "tests/support/test_paths.h"
#include "tests/support/test_scale.h"

namespace {
// The largest single allocation and the sum of all since the last reset.
std::atomic<size_t> g_largest{0}, g_sum{0};
void Count(size_t size) {
  g_sum.fetch_add(size, std::memory_order_relaxed);
  size_t largest = g_largest.load(std::memory_order_relaxed);
  while (size > largest && !g_largest.compare_exchange_weak(largest, size)) {
  }
}
}  // namespace

// Not inlined: the compiler would see malloc meet delete, and free meet new.
#define SLUICE_NOINLINE __attribute__((noinline))
SLUICE_NOINLINE void* operator new(size_t size) {
  Count(size);
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
SLUICE_NOINLINE void* operator new[](size_t size) { return operator new(size); }
SLUICE_NOINLINE void operator delete(void* data) noexcept { std::free(data); }
SLUICE_NOINLINE void operator delete[](void* data) noexcept { std::free(data); }
SLUICE_NOINLINE void operator delete(void* data, size_t) noexcept { std::free(data); }
SLUICE_NOINLINE void operator delete[](void* data, size_t) noexcept { std::free(data); }

namespace sluice::engine {
namespace {

using sluice::testing::Scaled;
using sluice::testing::SmallModel;

// Changes bytes and can undo it, so that a large file need not be copied each time.
class Mutator {
 public:
  Mutator(std::span<char> bytes, uint64_t seed) : bytes_(bytes), random_(seed) {}

  // One to four changes at places chosen by `place`; returns the length to which the file is cut.
  template <typename Place>
  size_t Mutate(const Place& place) {
    const int changes = 1 + static_cast<int>(random_() % 4);
    size_t length = bytes_.size();
    for (int i = 0; i < changes; ++i) {
      const size_t at = place(random_);
      switch (random_() % 6) {
        case 0:
          Write(at, static_cast<char>(bytes_[at] ^ (1 << (random_() % 8))));
          break;
        case 1:
          Write(at, static_cast<char>(random_()));
          break;
        case 2:
          Write(at, Number());
          break;
        case 3:
          Write(at, static_cast<uint32_t>(Number()));
          break;
        case 4:
          Write(at, static_cast<uint32_t>(random_() % 40));  // types, ranks, small counts
          break;
        default:
          if (random_() % 4 == 0) length = std::min(length, at);
      }
    }
    return length;
  }
  void Undo() {
    for (; !undo_.empty(); undo_.pop_back()) {
      std::memcpy(bytes_.data() + undo_.back().at, undo_.back().old.data(),
                  undo_.back().old.size());
    }
  }

 private:
  struct Change {
    size_t at;
    std::string old;
  };
  uint64_t Number() {
    static constexpr uint64_t kNumbers[] = {0,          1,          31,         32,
                                            255,        65536,      65537,      0x7FFFFFFF,
                                            0x80000000, 0xFFFFFFFF, 1ull << 32, 1ull << 40,
                                            1ull << 61, 1ull << 62, 1ull << 63, ~0ull};
    const uint64_t number = kNumbers[random_() % std::size(kNumbers)];
    return number + random_() % 3 - 1;
  }
  template <typename T>
  void Write(size_t at, T value) {
    const size_t n = std::min(sizeof value, bytes_.size() - at);
    undo_.push_back({at, std::string(bytes_.data() + at, n)});
    std::memcpy(bytes_.data() + at, &value, n);
  }

  std::span<char> bytes_;
  std::mt19937_64 random_;
  std::vector<Change> undo_;
};

// Runs one step of a model that was accepted, on the reference backend.
void RunModel(const ModelConfig& stated, const WeightPlan& plan) {
  ModelConfig config = stated;
  config.context_tokens = std::min(config.context_tokens, 16);
  const auto backend = kernels::CreateReferenceBackend({});
  const auto weights = plan.Load(*backend, {});
  if (!weights.ok()) return;
  const auto model =
      Model::Create({backend.get(), &config, &plan, weights->get()}, {2, 1, config.context_tokens});
  ASSERT_TRUE(model.ok());
  const int64_t area = 16 * config.head_dim * int64_t{sizeof(float)};
  const int64_t layer_bytes = 2 * config.kv_heads * area;
  std::vector<std::byte> kv(static_cast<size_t>(layer_bytes * config.layers));
  std::vector<kernels::KvLayerView> layers;
  for (int64_t i = 0; i < config.layers; ++i) {
    layers.push_back({kv.data(), 1, layer_bytes * config.layers, i * layer_bytes,
                      kernels::DType::kF32, 16, config.kv_heads, config.head_dim});
  }
  const int32_t ids[] = {0, config.vocabulary - 1}, begin[] = {0, 2}, positions[] = {0, 1},
                zero[] = {0}, last[] = {1};
  ModelStep step;
  step.ids = kernels::Vector<kernels::ConstTensorView>(+ids, 2, kernels::DType::kI32);
  step.layout = {1, 2, begin, zero, positions, positions, zero, 1, 2, 2};
  step.kv = layers;
  if (config.context_tokens < 2) return;
  (*model)->Forward(step);
  (*model)->Head(kernels::Vector<kernels::ConstTensorView>(+last, 1, kernels::DType::kI32));
}

// Everything that is done with a file up to its memory plan. Returns whether it was accepted.
bool ReadAll(std::span<const char> bytes, bool run) {
  const auto file = GgufFile::Parse(std::as_bytes(bytes), "hostile.gguf");
  if (!file.ok()) return false;
  const auto spec = TokenizerSpecFromGguf(**file);
  const auto text = ChatTemplateFromGguf(**file);
  const auto config = ModelConfigFromGguf(**file);
  if (!config.ok()) return false;
  const auto plan = WeightPlan::Create(**file, *config);
  if (!plan.ok()) return false;
  if (run) RunModel(*config, *plan);
  return spec.ok() && text.ok();
}

// Where the parts of a valid file lie.
struct Layout {
  size_t table = 0;  // the first tensor's entry
  size_t data = 0;   // the first tensor's data
  static Layout Of(std::span<const char> bytes) {
    const auto file = GgufFile::Parse(std::as_bytes(bytes), "valid.gguf");
    const GgufTensor& first = (*file)->tensors().at(0);
    return {static_cast<size_t>(first.name.data() - bytes.data()), first.offset};
  }
};

struct Limits {
  size_t largest, sum;
};
// Every iteration has its own seed: to see one again, start from it.
template <typename Place>
void MutateOften(std::span<char> bytes, int iterations, bool run, Limits limits,
                 const Place& place) {
  const char* chosen = std::getenv("SLUICE_TEST_SEED");
  const uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 0) : 20240101;
  int accepted = 0;
  size_t largest = 0, sum = 0;
  for (int i = 0; i < iterations; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    Mutator mutator(bytes, seed);
    const size_t length = mutator.Mutate(place);
    g_largest = 0, g_sum = 0;
    accepted += ReadAll(bytes.first(length), run);
    largest = std::max(largest, g_largest.load()), sum = std::max(sum, g_sum.load());
    ASSERT_LE(g_largest, limits.largest) << "seed " << seed;
    ASSERT_LE(g_sum, limits.sum) << "seed " << seed;
    mutator.Undo();
  }
  std::printf("%d mutations from seed %llu: %d accepted; at most %zu bytes at once, %zu in all\n",
              iterations, static_cast<unsigned long long>(first), accepted, largest, sum);
}

TEST(GgufMutationTest, SmallFile) {
  SmallModel model;
  model.layers = 1, model.width = 32, model.heads = 2, model.kv_heads = 1, model.ffn = 32;
  model.vocabulary = 72, model.context = 16;
  std::string bytes = model.Write().Finish();
  ASSERT_TRUE(ReadAll(bytes, true));
  // Most changes in the header.
  const size_t header = Layout::Of(bytes).data;
  MutateOften(bytes, Scaled(100'000), true, {1 << 20, 4 << 20}, [&](std::mt19937_64& random) {
    const size_t end = random() % 16 == 0 ? bytes.size() : header;
    return random() % end;
  });
}

// The real file's size, with the head real and the weights zero: pages never touched cost nothing.
TEST(GgufMutationTest, HeadOfTheRealFile) {
  std::ifstream in(sluice::testing::DefaultModelPath(), std::ios::binary | std::ios::ate);
  ASSERT_TRUE(in) << "no model at " << sluice::testing::DefaultModelPath();
  const auto size = static_cast<size_t>(in.tellg());
  void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  char* bytes = static_cast<char*>(map);
  constexpr size_t kHead = 3 << 20;
  in.seekg(0);
  in.read(bytes, std::min(kHead, size));
  ASSERT_TRUE(ReadAll({bytes, size}, false));
  const Layout layout = Layout::Of({bytes, size});
  const size_t after_vocabulary = layout.table - 800;
  // The keys before the vocabulary, the keys and the table of tensors after it, and anything.
  MutateOften({bytes, size}, Scaled(20'000), false, {16 << 20, 64 << 20},
              [&](std::mt19937_64& random) -> size_t {
                switch (random() % 4) {
                  case 0:
                    return random() % 1100;
                  case 1:
                  case 2:
                    return after_vocabulary + random() % (layout.data - after_vocabulary);
                  default:
                    return random() % kHead;
                }
              });
  munmap(map, size);
}

}  // namespace
}  // namespace sluice::engine
