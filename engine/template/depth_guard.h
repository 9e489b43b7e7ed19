#pragma once

#include "engine/template/evaluator.h"

namespace sluice::engine::jinja {

// Evaluation recurses over the syntax tree and through calls: so deep, and no deeper. All of it
// fits in 512 KiB of stack in an optimised build, and in 2 MiB under AddressSanitizer.
constexpr int kEvaluationDepthMax = 1200;

class Evaluator::DepthGuard {
 public:
  explicit DepthGuard(Evaluator* evaluator) : evaluator_(evaluator) {
    if (++evaluator_->depth_ > kEvaluationDepthMax) {
      evaluator_->runtime_.Exhausted("evaluation nests deeper than " +
                                     std::to_string(kEvaluationDepthMax) + " levels");
    }
  }
  ~DepthGuard() { --evaluator_->depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Evaluator* evaluator_;
};

}  // namespace sluice::engine::jinja
