#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/served_model.h"

namespace sluice::server {

// Served name to model. Filled before the port opens, constant afterwards.
class ModelRegistry {
 public:
  void Add(std::shared_ptr<ServedModel> model) { models_.push_back(std::move(model)); }

  // Null when there is none of that name. An empty name means the only model there is.
  std::shared_ptr<ServedModel> Find(std::string_view name) const {
    if (name.empty() && models_.size() == 1) return models_.front();
    for (const auto& model : models_) {
      if (model->facts.name == name) return model;
    }
    return nullptr;
  }

  const std::vector<std::shared_ptr<ServedModel>>& models() const { return models_; }

  // "a, b": for error messages.
  std::string Names() const {
    std::string names;
    for (const auto& model : models_) {
      if (!names.empty()) names += ", ";
      names += model->facts.name;
    }
    return names;
  }

 private:
  std::vector<std::shared_ptr<ServedModel>> models_;
};

}  // namespace sluice::server
