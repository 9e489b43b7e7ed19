// A model file: everything that reads one up to the plan of its weights, and the vocabulary and
// chat template that come out of it.

#include <memory>
#include <span>
#include <utility>

#include "boost/json.hpp"
#include "engine/load_tokenizer.h"
#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "engine/template/chat_template.h"
#include "kernels/backend.h"
#include "tests/fuzz/input.h"

namespace {

using namespace sluice::engine;
using sluice::testing::Require;

constexpr std::string_view kText = "Hello, World! <|im_end|> x1 \xC3\xA9\xFF\n\n  42";

void UseTokenizer(const GgufFile& file) {
  auto spec = TokenizerSpecFromGguf(file);
  if (!spec.ok()) return;
  const auto tokenizer = Tokenizer::Create(std::move(*spec));
  if (!tokenizer.ok()) return;
  for (const ControlTokens control : {ControlTokens::kPlainText, ControlTokens::kParse}) {
    const auto ids = (*tokenizer)->Encode(kText, control, 1000);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      Require(id >= 0 && id < (*tokenizer)->vocab_size(), "ids are in the vocabulary");
    }
    (*tokenizer)->Decode(*ids, true);
  }
}

void UseTemplate(const GgufFile& file) {
  const auto source = ChatTemplateFromGguf(file);
  if (!source.ok()) return;
  TemplateLimits limits;
  limits.work_max = 50'000;
  const auto compiled = ChatTemplate::Compile(*source, limits);
  if (compiled.ok()) (void)(*compiled)->Render({{"messages", boost::json::array()}});
}

void UseWeights(const GgufFile& file) {
  static const auto backend = sluice::kernels::CreateReferenceBackend({});
  const auto config = ModelConfigFromGguf(file);
  if (!config.ok()) return;
  const auto plan = WeightPlan::Create(file, *config);
  if (!plan.ok()) return;
  Require(plan->Bytes(*backend) > 0, "accepted models have weights");
  (void)plan->DescribeFormats();
  (void)plan->Uses(*backend, sluice::kernels::ActivationFormat::kF32);
  // Packing reads every byte of every tensor.
  if (plan->Bytes(*backend) < (1 << 20)) (void)plan->Load(*backend, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own, so that a read past its end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "fuzz.gguf");
  if (!file.ok()) return 0;
  for (const GgufTensor& tensor : (*file)->tensors()) {
    const auto* begin = reinterpret_cast<const uint8_t*>(tensor.data);
    Require(begin >= bytes.data() && tensor.bytes >= 0 &&
                static_cast<size_t>(tensor.bytes) <= size &&
                begin + tensor.bytes <= bytes.data() + size,
            "tensors lie within the file", tensor.name);
  }
  UseTokenizer(**file);
  UseTemplate(**file);
  UseWeights(**file);
  return 0;
}
