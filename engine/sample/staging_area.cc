#include "engine/sample/staging_area.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice::engine {

StagingArea::~StagingArea() {
  if (device_ != nullptr) backend_.Free(device_);
}

void StagingArea::Reset(size_t bytes) {
  used_ = 0;
  if (bytes <= host_.size()) return;
  const size_t capacity = Padded(std::max(bytes, 2 * host_.size()));
  if (device_ != nullptr) backend_.Free(device_);
  device_ = backend_.Allocate(capacity);
  SLUICE_CHECK(device_ != nullptr) << "no memory for " << capacity << " bytes of step input";
  host_.assign(capacity, std::byte{0});
}

size_t StagingArea::Cut(size_t bytes) {
  const size_t at = used_;
  used_ += bytes;
  SLUICE_CHECK_LE(used_, host_.size()) << "more taken than Reset was told of";
  return at;
}

void StagingArea::Send() {
  if (used_ > 0) backend_.CopyIn(device_, host_.data(), used_);
}

}  // namespace sluice::engine
