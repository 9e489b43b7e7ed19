#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace sluice::kernels::testing {

// A backend under test.
struct Subject {
  std::string name;
  bool is_reference = false;
  std::function<std::unique_ptr<Backend>(const BackendOptions&)> create;
};

// The reference, then the fast backends that this machine can run.
const std::vector<Subject>& Subjects();
// What the others are compared with: Subjects()[0].
const Subject& ReferenceSubject();

// Every test of conformance runs once for each of these.
struct SubjectMode {
  Subject subject;
  ActivationMode mode = ActivationMode::kF32;
};
std::vector<SubjectMode> SubjectModes();
std::string NameOf(const SubjectMode& value);
inline std::ostream& operator<<(std::ostream& out, const SubjectMode& v) {
  return out << NameOf(v);
}

}  // namespace sluice::kernels::testing

#define SLUICE_FOR_ALL_SUBJECTS(Suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      Backends, Suite, ::testing::ValuesIn(::sluice::kernels::testing::SubjectModes()), \
      [](const auto& param_info) { return ::sluice::kernels::testing::NameOf(param_info.param); })
