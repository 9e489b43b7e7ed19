#include "engine/tenant_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::engine {
namespace {

Clock::time_point At(double seconds) {
  return Clock::time_point() + std::chrono::hours(1) +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// As many as it gets, one by one.
int32_t TakeAll(TenantPlaces* places, const std::string& tenant, double at) {
  int32_t taken = 0;
  while (places->Take(tenant, 1, At(at)).ok()) ++taken;
  return taken;
}

TEST(TenantPlacesTest, OneAloneMayHaveAll) {
  for (const char* tenant : {"", "one"}) {
    TenantPlaces places({}, {}, 100);
    EXPECT_EQ(TakeAll(&places, tenant, 0), 100);
    const absl::Status refused = places.Take(tenant, 1, At(0));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(Message(refused).find("100 answers run or wait, at most 100 may"), std::string::npos)
        << refused;
    places.Return(tenant, 30);
    EXPECT_FALSE(places.Take(tenant, 31, At(0)).ok()) << "all or none";
    EXPECT_EQ(TakeAll(&places, tenant, 0), 30);
  }
}

// Tenants that always want more, while answers end one by one: how many each has at last.
std::map<std::string, int32_t> AfterMuchChurn(TenantPlaces* places, int32_t floods) {
  std::mt19937_64 random(1);
  std::map<std::string, int32_t> taken;
  std::vector<std::string> holders;
  for (int32_t step = 0; step < 50000; ++step) {
    if (!holders.empty() && places->taken() > 900) {
      std::swap(holders[random() % holders.size()], holders.back());
      places->Return(holders.back(), 1);
      --taken[holders.back()];
      holders.pop_back();
    }
    for (int32_t tries = 0; tries < 2 * floods; ++tries) {
      const std::string tenant = "flood " + std::to_string(random() % floods);
      if (!places->Take(tenant, 1, At(0)).ok()) continue;
      ++taken[tenant];
      holders.push_back(tenant);
    }
  }
  return taken;
}

TEST(TenantPlacesTest, SeveralFloodsLeaveSomeForWhoeverComes) {
  for (const int32_t floods : {1, 2, 5, 20}) {
    TenantPlaces places({}, {}, 1000);
    EXPECT_TRUE(places.Take("light", 1, At(0)).ok());
    const auto taken = AfterMuchChurn(&places, floods);
    EXPECT_GE(places.taken(), 940) << floods << ": little is kept";
    EXPECT_GE(1000 - places.taken(), 2) << floods;
    for (const auto& [tenant, count] : taken)
      EXPECT_NEAR(count, places.taken() / floods, 600.0 / floods) << tenant;
    const absl::Status refused = places.Take("flood 0", 1, At(300));
    EXPECT_NE(Message(refused).find("tenant 'flood 0'"), std::string::npos) << refused;
    EXPECT_TRUE(places.Take("light", 1, At(301)).ok()) << floods;
    EXPECT_TRUE(places.Take("new", 1, At(301)).ok()) << floods;
  }
}

// It takes all while it is alone; from the first that another was refused on places come free.
TEST(TenantPlacesTest, WhoeverComesToAFullQueueFindsAPlaceSoon) {
  TenantPlaces places({}, {}, 50);
  EXPECT_EQ(TakeAll(&places, "flood", 0), 50);
  EXPECT_FALSE(places.Take("light", 1, At(1)).ok());
  places.Return("flood", 1);
  EXPECT_FALSE(places.Take("flood", 1, At(2)).ok());
  EXPECT_TRUE(places.Take("light", 1, At(3)).ok());
  places.Return("light", 1);
  EXPECT_FALSE(places.Take("flood", 1, At(500)).ok());
  EXPECT_TRUE(places.Take("flood", 1, At(1200)).ok()) << "nobody else has come for long";
}

TEST(TenantPlacesTest, WeightsCount) {
  TenantShare heavy;
  heavy.weight = 4;
  TenantPlaces places({{"flood 0", heavy}}, {}, 1000);
  auto taken = AfterMuchChurn(&places, 2);
  EXPECT_NEAR(taken["flood 0"] / taken["flood 1"], 4, 1);
}

TEST(TenantPlacesTest, AWaitIsForWhatIsOnesOwn) {
  TenantShare heavy;
  heavy.weight = 3;
  TenantPlaces places({{"gold", heavy}}, {}, 1000);
  EXPECT_EQ(places.ShareOfWait("any", 8), 1);
  ASSERT_TRUE(places.Take("flood", 408, At(0)).ok());
  EXPECT_EQ(places.ShareOfWait("flood", 8), 1) << "all that waits is its own";
  EXPECT_NEAR(places.ShareOfWait("light", 8), 2.0 / 401, 1e-9) << "its first, by half";
  EXPECT_NEAR(places.ShareOfWait("gold", 8), 4.0 / 3 / 401, 1e-9);
  ASSERT_TRUE(places.Take("light", 54, At(0)).ok());
  EXPECT_NEAR(places.ShareOfWait("light", 8), 2.0 * 51 / 455, 1e-9);
  EXPECT_EQ(places.ShareOfWait("flood", 8), 1);
}

// Against plain books: whatever comes and goes, in any order.
TEST(TenantPlacesTest, BooksBalance) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  TenantPlaces places({}, {}, 200);
  std::vector<std::pair<std::string, int32_t>> taken;
  int32_t sum = 0, most = 0;
  for (int32_t i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const std::string tenant = std::to_string(random() % 10);
      const auto answers = static_cast<int32_t>(1 + random() % 8);
      if (places.Take(tenant, answers, At(i)).ok()) {
        taken.emplace_back(tenant, answers);
        sum += answers;
      }
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      places.Return(taken.back().first, taken.back().second);
      sum -= taken.back().second;
      taken.pop_back();
    }
    ASSERT_EQ(places.taken(), sum);
    most = std::max(most, sum);
  }
  EXPECT_GT(most, 150);
  EXPECT_LE(most, 200);
}

}  // namespace
}  // namespace sluice::engine
