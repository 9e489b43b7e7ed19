#include "tests/kernels/subjects.h"

#include <cctype>

#ifdef SLUICE_HAS_CPU_BACKEND
#include "kernels/cpu/cpu_backend.h"
#endif

namespace sluice::kernels::testing {
namespace {

std::vector<Subject> MakeSubjects() {
  std::vector<Subject> subjects{{"reference", true, CreateReferenceBackend}};
#ifdef SLUICE_HAS_CPU_BACKEND
  for (const CpuIsa isa : SupportedCpuIsas()) {
    std::string name = "cpu_";
    for (const char c : kernels::NameOf(isa)) {
      if (std::isalnum(static_cast<unsigned char>(c))) name += c;
    }
    subjects.push_back({name, false, [isa](const BackendOptions& options) {
                          return CreateCpuBackend(options, isa);
                        }});
  }
#endif
  return subjects;
}

}  // namespace

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject>* subjects = new std::vector<Subject>(MakeSubjects());
  return *subjects;
}

const Subject& ReferenceSubject() { return Subjects().front(); }

std::vector<SubjectMode> SubjectModes() {
  std::vector<SubjectMode> modes;
  for (const Subject& subject : Subjects()) {
    modes.push_back({subject, ActivationMode::kF32});
    modes.push_back({subject, ActivationMode::kInt8});
  }
  return modes;
}

std::string NameOf(const SubjectMode& value) {
  return value.subject.name + (value.mode == ActivationMode::kF32 ? "_f32" : "_int8");
}

}  // namespace sluice::kernels::testing
