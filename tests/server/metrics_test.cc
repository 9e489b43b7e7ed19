#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include "server/metrics/buckets.h"
#include "server/metrics/process_stats.h"
#include "tests/server/support/chat_model.h"

namespace sluice::server {
namespace {

TEST(Buckets, EdgesAreAtMostOneAndAHalfApart) {
  const std::vector<double> edges = LatencyBuckets(0.0005, 60);
  EXPECT_DOUBLE_EQ(edges.front(), 0.0005);
  EXPECT_GE(edges.back(), 60);
  for (size_t i = 1; i < edges.size(); ++i) {
    EXPECT_GT(edges[i], edges[i - 1]);
    EXPECT_LE(edges[i] / edges[i - 1], 1.5 + 1e-9);
  }
  EXPECT_LT(edges[edges.size() - 2], 60);
}

TEST(Metrics, LongAnswersAreNotLumpedTogether) {
  ModelRegistry registry;
  registry.Add(testing::MakeChatModel());
  Metrics metrics(&registry, "v");
  engine::EngineObserver* observer = metrics.ObserverOf("test-model");
  ASSERT_NE(observer, nullptr);
  for (const double seconds : {0.5, 70.0, 400.0}) {
    engine::SequenceTimes times;
    times.arrival = engine::Clock::time_point(std::chrono::seconds(1000));
    times.last_token = times.arrival + std::chrono::milliseconds(static_cast<int>(seconds * 1000));
    observer->OnFinished(engine::FinishReason::kStop, times, 3, 4);
  }
  const std::string text = metrics.Render();
  // The last finite edge holds all three.
  const size_t inf = text.find(
      "sluice_e2e_request_latency_seconds_bucket{model_name=\"test-model\",le=\"+Inf\"} 3");
  EXPECT_NE(inf, std::string::npos) << text;
  const size_t line = text.rfind("\n", inf - 2);
  EXPECT_EQ(text.substr(line + 1, inf - line - 2)
                .substr(text.substr(line + 1, inf - line - 2).rfind(' ')),
            " 3");
  EXPECT_NE(
      text.find(
          "sluice_request_success_total{finished_reason=\"stop\",model_name=\"test-model\"} 3"),
      std::string::npos);
}

TEST(Metrics, HasTheNamesThatDashboardsKnow) {
  ModelRegistry registry;
  registry.Add(testing::MakeChatModel());
  Metrics metrics(&registry, "1.2.3");
  metrics.CountRequest("/v1/models", 200);
  metrics.CountRequest("other", 404);
  metrics.ObserverOf("test-model")->OnFirstToken(-1, 0.001);  // clocks may disagree: clamped
  const std::string text = metrics.Render();
  for (const char* name : {"sluice_num_requests_running{model_name=\"test-model\"} 0",
                           "sluice_num_requests_waiting{model_name=\"test-model\"} 0",
                           "sluice_kv_cache_usage_perc{model_name=\"test-model\"} 0",
                           "sluice_prompt_tokens_total{model_name=\"test-model\"} 0",
                           "sluice_generation_tokens_total{model_name=\"test-model\"} 0",
                           "sluice_num_preemptions_total{model_name=\"test-model\"} 0",
                           "# TYPE sluice_prompt_tokens_total counter",
                           "# TYPE sluice_time_to_first_token_seconds histogram",
                           "# TYPE sluice_inter_token_latency_seconds histogram",
                           "# TYPE sluice_request_queue_time_seconds histogram",
                           "sluice_http_requests_total{path=\"/v1/models\",status=\"200\"} 1",
                           "sluice_http_requests_total{path=\"other\",status=\"404\"} 1",
                           "sluice_build_info{version=\"1.2.3\"} 1",
                           "process_resident_memory_bytes ", "process_start_time_seconds "}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(metrics.ObserverOf("another"), nullptr);
}

TEST(ProcessStats, SaysSomethingTrue) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GT(stats.resident_bytes, 1 << 20);
  EXPECT_GE(stats.open_fds, 3);
  EXPECT_GE(stats.threads, 1);
  EXPECT_GT(stats.start_time_seconds, 1.0e9);
}

}  // namespace
}  // namespace sluice::server
