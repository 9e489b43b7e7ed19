#pragma once

#include <sstream>

// CHECK for our own errors: a broken shape contract, a leak. Never reachable by input: what a
// caller or a file can cause is reported as a status by the tiers above.
namespace sluice::kernels {

// Collects the message and ends the process when destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace sluice::kernels

#define SLUICE_CHECK(condition) \
  if (condition) [[likely]] {   \
  } else                        \
    ::sluice::kernels::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define SLUICE_CHECK_OP(a, op, b) SLUICE_CHECK((a)op(b)) << "(" << (a) << " against " << (b) << ") "
#define SLUICE_CHECK_EQ(a, b) SLUICE_CHECK_OP(a, ==, b)
#define SLUICE_CHECK_LE(a, b) SLUICE_CHECK_OP(a, <=, b)
#define SLUICE_CHECK_LT(a, b) SLUICE_CHECK_OP(a, <, b)
#define SLUICE_CHECK_GE(a, b) SLUICE_CHECK_OP(a, >=, b)
#define SLUICE_CHECK_GT(a, b) SLUICE_CHECK_OP(a, >, b)
