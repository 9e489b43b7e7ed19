#include "tests/server/config/round_trip.h"

#include <gtest/gtest.h>

#include "tests/server/config/sample_schema.h"

namespace sluice::server::config {
namespace {

TEST(RoundTrip, OfEveryKindOfSetting) { CheckRoundTrips(SampleSchema(), 3000); }

}  // namespace
}  // namespace sluice::server::config
