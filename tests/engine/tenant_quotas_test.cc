#include "engine/tenant_quotas.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sluice::engine {
namespace {

Clock::time_point At(double seconds) {
  return Clock::time_point() + std::chrono::hours(1) +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

GenerateRequest Request(const std::string& tenant, size_t prompt_tokens, int32_t n = 1) {
  GenerateRequest request;
  request.tenant = tenant;
  request.prompt.assign(prompt_tokens, 1);
  request.n = n;
  return request;
}

TenantShare Minute(int64_t tokens) {
  TenantShare share;
  share.tokens_per_minute = tokens;
  return share;
}

TEST(TenantQuotasTest, AMinutesTokensAreLetInAndThenSaidToComeBack) {
  TenantQuotas quotas({{"small", Minute(600)}}, {});
  const GenerateRequest request = Request("small", 400);
  EXPECT_TRUE(quotas.Take(request, At(0)).ok());
  EXPECT_TRUE(quotas.Take(request, At(0)).ok()) << "200 are left";
  const absl::Status refused = quotas.Take(request, At(0));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(Message(refused).find("'small' has used up its 600 tokens a minute"), std::string::npos)
      << refused;
  EXPECT_EQ(RetryAfterOf(refused), 21) << "a debt of 200 and one more, ten a second";
  EXPECT_FALSE(quotas.Take(request, At(20)).ok());
  EXPECT_TRUE(quotas.Take(request, At(21)).ok());
  EXPECT_TRUE(quotas.Take(Request("other", 1'000'000), At(0)).ok());
}

TEST(TenantQuotasTest, GeneratedTokensCountWhenTheyAreThere) {
  TenantQuotas quotas({}, Minute(60));
  const GenerateRequest request = Request("any", 10, 2);
  ASSERT_TRUE(quotas.Take(request, At(0)).ok());
  quotas.Return(request, 70, At(1));
  quotas.Return(request, 0, At(1));
  const absl::Status refused = quotas.Take(request, At(1));
  EXPECT_EQ(RetryAfterOf(refused), 20) << "60 - 10 + 1 - 70 = -19: " << refused;
  EXPECT_TRUE(quotas.Take(Request("else", 10), At(1)).ok()) << "each tenant has its own";
}

TEST(TenantQuotasTest, NobodySavesUpMoreThanAMinute) {
  TenantQuotas quotas({}, Minute(60));
  ASSERT_TRUE(quotas.Take(Request("any", 10), At(0)).ok());
  ASSERT_TRUE(quotas.Take(Request("any", 60), At(100'000)).ok());
  EXPECT_FALSE(quotas.Take(Request("any", 1), At(100'000)).ok());
}

TEST(TenantQuotasTest, PromptsInFlightHaveALimit) {
  TenantShare share;
  share.prompt_tokens_max = 100;
  TenantQuotas quotas({}, share);
  const GenerateRequest request = Request("any", 30, 2);
  ASSERT_TRUE(quotas.Take(request, At(0)).ok());
  const absl::Status refused = quotas.Take(request, At(0));
  EXPECT_NE(Message(refused).find("have 60 and this one 60, at most 100 may be"), std::string::npos)
      << refused;
  EXPECT_EQ(RetryAfterOf(refused), 0) << "nobody knows when answers end";
  EXPECT_TRUE(quotas.Take(Request("any", 40), At(0)).ok());
  quotas.Return(request, 5, At(0));
  EXPECT_TRUE(quotas.Take(Request("any", 30), At(0)).ok());
}

// Against plain books: whatever comes and ends, in any order, is counted once.
TEST(TenantQuotasTest, BooksBalance) {
  std::mt19937_64 random(5);
  TenantShare share;
  share.open_max = 7;
  share.prompt_tokens_max = 200;
  TenantQuotas quotas({}, share);
  std::vector<GenerateRequest> open;  // one entry an answer
  for (int step = 0; step < 20'000; ++step) {
    const double now = step * 1e-3;
    if (!open.empty() && random() % 2 == 0) {
      const size_t which = random() % open.size();
      quotas.Return(open[which], static_cast<int32_t>(random() % 50), At(now));
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    const GenerateRequest request =
        Request("tenant " + std::to_string(random() % 3), 1 + random() % 60,
                1 + static_cast<int32_t>(random() % 3));
    size_t answers = static_cast<size_t>(request.n);
    size_t tokens = answers * request.prompt.size();
    for (const GenerateRequest& other : open) {
      if (other.tenant != request.tenant) continue;
      ++answers;
      tokens += other.prompt.size();
    }
    const bool fits = answers <= 7 && tokens <= 200;
    ASSERT_EQ(quotas.Take(request, At(now)).ok(), fits) << "step " << step;
    if (fits) open.insert(open.end(), static_cast<size_t>(request.n), request);
  }
  for (const GenerateRequest& request : open) quotas.Return(request, 0, At(100));
  EXPECT_EQ(quotas.size(), 0u);
}

TEST(TenantQuotasTest, TenantsThatAreGoneLeaveNothing) {
  TenantQuotas quotas({}, Minute(6000));
  for (int i = 0; i < 10'000; ++i) {
    const GenerateRequest request = Request("tenant " + std::to_string(i), 10);
    ASSERT_TRUE(quotas.Take(request, At(i)).ok());
    quotas.Return(request, 10, At(i));
  }
  EXPECT_LE(quotas.size(), 128u) << "a bucket is full again after 0.2 seconds";
}

}  // namespace
}  // namespace sluice::engine
