#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "server/metrics/buckets.h"
#include "server/metrics/process_stats.h"
#include "tests/server/support/chat_model.h"

namespace sluice::server {
namespace {

using engine::FinishReason;

// One sample of a page; -1: there is none of that name and labels.
double Sample(const std::string& page, const std::string& name) {
  const size_t at = page.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size() + 2));
}

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    registry_.Add(testing::MakeChatModel());
    metrics_ = std::make_unique<Metrics>(&registry_, "1.2.3");
  }
  engine::EngineObserver& observer() { return *metrics_->ObserverOf("test-model"); }
  double Value(const std::string& name) const { return Sample(metrics_->Render(), name); }
  // Of a family that has no label but the model's, under our name and vLLM's alike.
  double Both(const std::string& name) const {
    const std::string page = metrics_->Render();
    const double ours = Sample(page, "sluice_" + name + "{model_name=\"test-model\"}");
    EXPECT_EQ(Sample(page, "vllm:" + name + "{model_name=\"test-model\",engine=\"0\"}"), ours)
        << name;
    return ours;
  }

  ModelRegistry registry_;
  std::unique_ptr<Metrics> metrics_;
};

// Times of an answer, in milliseconds from its arrival; negative: never came so far.
engine::SequenceTimes Times(int scheduled, int first, int last) {
  engine::SequenceTimes times;
  times.arrival = engine::Clock::time_point(std::chrono::seconds(1000));
  const auto at = [&](int ms) {
    return ms < 0 ? engine::Clock::time_point{} : times.arrival + std::chrono::milliseconds(ms);
  };
  times.scheduled = at(scheduled);
  times.first_token = at(first);
  times.last_token = at(last);
  return times;
}

engine::GenerateRequest Request(int prompt, int n, int max_tokens) {
  engine::GenerateRequest request;
  request.prompt.assign(static_cast<size_t>(prompt), 7);
  request.n = n;
  request.stop.max_tokens = max_tokens;
  return request;
}

TEST(Buckets, EdgesAreAtMostOneAndAHalfApartFromHalfAMillisecondToAMinute) {
  for (const auto& edges : {FirstTokenEdges(), InterTokenEdges(), RequestEdges(), StepEdges()}) {
    EXPECT_EQ(edges.front(), 0.0005);
    EXPECT_GE(edges.back(), 60);
    for (size_t i = 1; i < edges.size(); ++i) {
      EXPECT_GT(edges[i], edges[i - 1]);
      if (edges[i - 1] < 60) {
        EXPECT_LE(edges[i] / edges[i - 1], 1.5 + 1e-9) << edges[i - 1];
      }
    }
  }
}

// Alerts and recording rules written for vLLM may name its edges.
TEST(Buckets, IncludeThoseOfVllm) {
  const auto includes = [](const std::vector<double>& edges, const std::vector<double>& wanted) {
    for (const double edge : wanted) {
      EXPECT_TRUE(std::binary_search(edges.begin(), edges.end(), edge)) << edge;
    }
  };
  includes(FirstTokenEdges(), {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                               1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560});
  includes(InterTokenEdges(),
           {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80});
  includes(RequestEdges(), {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                            30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680});
  EXPECT_EQ(TokenCountEdges(2048),
            (std::vector<double>{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}));
  EXPECT_EQ(TokenCountEdges(1), (std::vector<double>{1}));
}

TEST_F(MetricsTest, HasTheNamesThatDashboardsKnowFromTheFirstScrape) {
  const std::string page = metrics_->Render();
  for (const char* name :
       {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
        "prompt_tokens_total", "generation_tokens_total", "num_preemptions_total"}) {
    EXPECT_EQ(Both(name), 0);
  }
  for (const char* name :
       {"time_to_first_token_seconds", "inter_token_latency_seconds",
        "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
        "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
        "request_inference_time_seconds", "request_prompt_tokens", "request_generation_tokens",
        "request_max_num_generation_tokens", "request_params_max_tokens", "request_params_n"}) {
    EXPECT_EQ(Both(std::string(name) + "_count"), 0);
    EXPECT_EQ(Both(std::string(name) + "_sum"), 0);
    EXPECT_NE(page.find(std::string("# TYPE vllm:") + name + " histogram"), std::string::npos);
  }
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    const std::string labels =
        std::string("{finished_reason=\"") + reason + "\",model_name=\"test-model\"";
    EXPECT_EQ(Sample(page, "sluice_request_success_total" + labels + "}"), 0);
    EXPECT_EQ(Sample(page, "vllm:request_success_total" + labels + ",engine=\"0\"}"), 0);
  }
  EXPECT_EQ(
      Sample(page, "vllm:iteration_tokens_total_count{model_name=\"test-model\",engine=\"0\"}"), 0);
  for (const char* name : {"sluice_iteration_tokens_count{model_name=\"test-model\"}",
                           "sluice_step_sequences_count{model_name=\"test-model\"}",
                           "sluice_step_duration_seconds_count{model_name=\"test-model\"}",
                           "sluice_discarded_tokens_total{model_name=\"test-model\"}",
                           "sluice_recomputed_tokens_total{model_name=\"test-model\"}",
                           "sluice_requests_rejected_total{reason=\"queue_full\"}",
                           "sluice_requests_rejected_total{reason=\"loading\"}",
                           "sluice_request_errors_total{kind=\"internal\"}"}) {
    EXPECT_EQ(Sample(page, name), 0) << name;
  }
  EXPECT_EQ(Sample(page, "sluice_build_info{version=\"1.2.3\"}"), 1);
  EXPECT_GT(Sample(page, "process_resident_memory_bytes"), 0);
  EXPECT_GT(Sample(page, "process_max_fds"), 0);
  EXPECT_EQ(metrics_->ObserverOf("another"), nullptr);
}

TEST_F(MetricsTest, VllmsNamesCanBeLeftOut) {
  const Metrics plain(&registry_, "v", {.vllm_names = false});
  EXPECT_EQ(plain.Render().find("vllm"), std::string::npos);
}

// Autoscalers and pickers take the first series of a name that they find.
TEST_F(MetricsTest, LoadGaugesHaveOneSeriesAModel) {
  const std::string page = metrics_->Render();
  for (const char* name : {"vllm:num_requests_running", "vllm:num_requests_waiting",
                           "vllm:kv_cache_usage_perc", "sluice_num_requests_running"}) {
    const std::string begin = std::string("\n") + name + "{";
    const size_t at = page.find(begin);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(page.find(begin, at + 1), std::string::npos);
  }
}

TEST_F(MetricsTest, ACompleteAnswerIsCountedInAllItsPhases) {
  const engine::GenerateRequest request = Request(30, 1, 64);
  observer().OnFirstToken(0.250, 0.100);
  for (int i = 0; i < 4; ++i) observer().OnNextToken(0.050);
  observer().OnFinished({FinishReason::kStop, Times(100, 250, 450), 5, &request});
  EXPECT_EQ(Both("generation_tokens_total"), 5);
  EXPECT_EQ(Both("time_to_first_token_seconds_sum"), 0.25);
  EXPECT_EQ(Both("request_queue_time_seconds_sum"), 0.1);
  EXPECT_EQ(Both("inter_token_latency_seconds_count"), 4);
  EXPECT_DOUBLE_EQ(Both("e2e_request_latency_seconds_sum"), 0.45);
  EXPECT_DOUBLE_EQ(Both("request_prefill_time_seconds_sum"), 0.15);
  EXPECT_DOUBLE_EQ(Both("request_decode_time_seconds_sum"), 0.2);
  EXPECT_DOUBLE_EQ(Both("request_inference_time_seconds_sum"), 0.35);
  EXPECT_DOUBLE_EQ(Both("request_time_per_output_token_seconds_sum"), 0.05);
  EXPECT_EQ(Both("request_prompt_tokens_sum"), 30);
  EXPECT_EQ(Both("request_generation_tokens_sum"), 5);
  EXPECT_EQ(Both("request_params_max_tokens_sum"), 64);
  EXPECT_EQ(Both("request_params_n_sum"), 1);
}

// Its queue and first token are as real as any; its length and duration say when the caller left.
TEST_F(MetricsTest, WhatIsCutOffDoesNotShortenTheDurations) {
  const engine::GenerateRequest request = Request(30, 1, 64);
  observer().OnFirstToken(0.250, 0.100);
  observer().OnFinished({FinishReason::kCancelled, Times(100, 250, 250), 1, &request});
  // Cut off in its prompt: out of the queue, but no token.
  observer().OnFinished({FinishReason::kCancelled, Times(200, -1, -1), 0, &request});
  // Cut off in the queue, and failed in the prompt.
  observer().OnFinished({FinishReason::kCancelled, Times(-1, -1, -1), 0, &request});
  observer().OnFinished({FinishReason::kError, Times(300, -1, -1), 0, &request});
  EXPECT_EQ(Both("generation_tokens_total"), 1);
  EXPECT_EQ(Both("time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(Both("request_queue_time_seconds_count"), 3);
  EXPECT_DOUBLE_EQ(Both("request_queue_time_seconds_sum"), 0.6);
  for (const char* name : {"e2e_request_latency_seconds", "request_prefill_time_seconds",
                           "request_decode_time_seconds", "request_inference_time_seconds",
                           "request_time_per_output_token_seconds", "request_generation_tokens"}) {
    EXPECT_EQ(Both(std::string(name) + "_count"), 0) << name;
  }
  EXPECT_EQ(
      Value("sluice_request_success_total{finished_reason=\"abort\",model_name=\"test-model\"}"),
      3);
  EXPECT_EQ(
      Value("sluice_request_success_total{finished_reason=\"error\",model_name=\"test-model\"}"),
      1);
}

TEST_F(MetricsTest, ARequestForSeveralAnswersIsOneRequest) {
  const engine::GenerateRequest request = Request(10, 3, 9);
  for (const int tokens : {4, 9, 2}) {
    EXPECT_EQ(Both("request_params_n_count"), 0);
    observer().OnFinished({FinishReason::kStop, Times(0, 1, 2), tokens, &request});
  }
  EXPECT_EQ(Both("request_params_n_count"), 1);
  EXPECT_EQ(Both("request_params_n_sum"), 3);
  EXPECT_EQ(Both("request_max_num_generation_tokens_sum"), 9);
  EXPECT_EQ(Both("request_generation_tokens_count"), 3);
  EXPECT_EQ(Both("request_generation_tokens_sum"), 15);
}

TEST_F(MetricsTest, BucketsAreCumulativeAndInclusive) {
  for (const double seconds : {-1.0, 0.0005, 0.00051, 75.0, 1e9}) observer().OnNextToken(seconds);
  const auto bucket = [&](const std::string& edge) {
    return Value("sluice_inter_token_latency_seconds_bucket{model_name=\"test-model\",le=\"" +
                 edge + "\"}");
  };
  EXPECT_EQ(bucket("0.0005"), 2);  // clocks that disagree count as no time at all
  EXPECT_EQ(bucket("0.00075"), 3);
  EXPECT_EQ(bucket("50"), 3);
  EXPECT_EQ(bucket("75"), 4);
  EXPECT_EQ(bucket("+Inf"), 5);
}

// Whatever the engine tells, and in whatever order: no answer ends because a figure is odd,
// counters never fall, and nothing becomes NaN, which would stay.
TEST_F(MetricsTest, OddFiguresHarmNobody) {
  std::mt19937_64 random(31);
  const double odd[] = {-1,     -1e300, std::numeric_limits<double>::quiet_NaN(), 1e300, -0.0, 0,
                        5e-324, 0.01};
  const auto pick = [&] { return odd[random() % std::size(odd)]; };
  const engine::GenerateRequest request = Request(3, 1, 9);
  std::map<std::string, double> before;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 500; ++i) {
      const auto ms = [&] { return static_cast<int>(random() % 2000) - 1000; };
      observer().OnFirstToken(pick(), pick());
      observer().OnNextToken(pick());
      observer().OnStep({static_cast<int32_t>(random() % 9) - 4,
                         static_cast<int32_t>(random() % 99) - 50, pick()});
      const auto reason = static_cast<FinishReason>(random() % 6);
      observer().OnFinished({reason, Times(ms(), ms(), ms()), ms(), &request});
    }
    std::istringstream page(metrics_->Render());
    for (std::string line; std::getline(page, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      const std::string name = line.substr(0, space);
      const double value = std::stod(line.substr(space + 1));
      ASSERT_FALSE(std::isnan(value)) << line;
      const std::string family = name.substr(0, name.find('{'));
      if (!family.ends_with("_total") && !family.ends_with("_count") &&
          !family.ends_with("_bucket") && !family.ends_with("_sum")) {
        continue;
      }
      ASSERT_GE(value, before[name]) << line;
      before[name] = value;
    }
  }
  EXPECT_EQ(Both("inter_token_latency_seconds_count"), 10'000);
  EXPECT_EQ(Both("generation_tokens_total"), 20'000);
}

TEST_F(MetricsTest, StepsTellBatchTokensAndTime) {
  observer().OnStep({3, 40, 0.02});
  observer().OnStep({1, 1, 0.01});
  observer().OnDiscardedToken();
  const std::string model = "{model_name=\"test-model\"}";
  EXPECT_EQ(Value("sluice_step_sequences_sum" + model), 4);
  EXPECT_EQ(Value("sluice_iteration_tokens_sum" + model), 41);
  EXPECT_EQ(Value("vllm:iteration_tokens_total_sum{model_name=\"test-model\",engine=\"0\"}"), 41);
  EXPECT_DOUBLE_EQ(Value("sluice_step_duration_seconds_sum" + model), 0.03);
  EXPECT_EQ(Value("sluice_discarded_tokens_total" + model), 1);
}

TEST_F(MetricsTest, CallsAreCountedByOutcomeWhateverTheProtocol) {
  RequestCounts& counts = metrics_->requests();
  counts.CountHttp("/v1/models", 200, "");
  counts.CountHttp("other", 404, "");
  counts.CountHttp("/v1/completions", 429, "queue_full");
  counts.CountHttp("/v1/completions", 499, "");
  counts.CountHttp("/readyz", 503, "");  // a probe: nobody was turned away
  counts.CountGrpc("sluice.v1.Inference/Generate", 0, "");
  counts.CountGrpc("sluice.v1.Inference/Generate", 8, "queue_full");
  counts.CountGrpc("sluice.v1.Inference/Generate", 4, "");
  counts.CountGrpc("sluice.v1.Inference/Generate", 99, "");
  EXPECT_EQ(Value("sluice_http_requests_total{path=\"/v1/models\",status=\"200\"}"), 1);
  EXPECT_EQ(Value("sluice_http_requests_total{path=\"/readyz\",status=\"503\"}"), 1);
  EXPECT_EQ(Value("sluice_grpc_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"sluice.v1."
                  "Inference/Generate\"}"),
            1);
  EXPECT_EQ(Value("sluice_requests_rejected_total{reason=\"queue_full\"}"), 2);
  const auto errors = [&](const std::string& kind) {
    return Value("sluice_request_errors_total{kind=\"" + kind + "\"}");
  };
  EXPECT_EQ(errors("rejected"), 2);
  EXPECT_EQ(errors("not_found"), 1);
  EXPECT_EQ(errors("cancelled"), 1);
  EXPECT_EQ(errors("timeout"), 1);
  EXPECT_EQ(errors("internal"), 1);
}

// The fronts pass words of their own; if one ever passed on a caller's, memory stays bounded.
TEST_F(MetricsTest, SeriesDoNotGrowWithoutEnd) {
  const auto lines = [&] {
    const std::string page = metrics_->Render();
    return std::count(page.begin(), page.end(), '\n');
  };
  const auto flood = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string name = "/path" + std::to_string(i);
      metrics_->requests().CountHttp(name, 503,
                                     std::string(1, static_cast<char>('a' + i % 26)) +
                                         std::string(1, static_cast<char>('a' + i / 26 % 26)));
      metrics_->requests().CountHttp(name, 429, name);
      metrics_->requests().CountGrpc(name, 0, "");
    }
  };
  flood(0, 1000);
  const auto before = lines();
  flood(1000, 3000);
  EXPECT_EQ(lines(), before);
}

// Prometheus refuses a whole page for one byte that is no UTF-8, and a quote or a line break in a
// name must not end the label.
TEST(Metrics, AnyModelNameGivesASoundPage) {
  ModelRegistry registry;
  testing::ChatModelOptions options;
  options.name =
      "a\"b\\c\nd\xFF"
      "e";
  registry.Add(testing::MakeChatModel(options));
  const Metrics metrics(&registry, "v");
  const std::string page = metrics.Render();
  EXPECT_EQ(Sample(page,
                   "sluice_num_requests_running{model_name=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD"
                   "e\"}"),
            0);
}

TEST_F(MetricsTest, ScrapesAndObservationsDoNotDisturbEachOther) {
  const engine::GenerateRequest request = Request(3, 1, 9);
  std::thread output([&] {
    for (int i = 0; i < 20000; ++i) observer().OnNextToken(0.001 * (i % 100));
    for (int i = 0; i < 100; ++i) {
      observer().OnFinished({FinishReason::kStop, Times(0, 1, 2), 3, &request});
    }
  });
  std::thread front([&] {
    for (int i = 0; i < 2000; ++i) metrics_->requests().CountHttp("/x", 200 + i % 7, "");
  });
  for (int i = 0; i < 20; ++i) {
    const std::string page = metrics_->Render();
    const std::string model = "{model_name=\"test-model\"}";
    EXPECT_EQ(Sample(page, "sluice_inter_token_latency_seconds_count" + model),
              Sample(page,
                     "sluice_inter_token_latency_seconds_bucket{model_name=\"test-model\",le="
                     "\"+Inf\"}"));
  }
  output.join();
  front.join();
  EXPECT_EQ(Both("inter_token_latency_seconds_count"), 20000);
  EXPECT_EQ(Both("e2e_request_latency_seconds_count"), 100);
}

TEST(ProcessStats, SaysSomethingTrue) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GT(stats.resident_bytes, 1 << 20);
  EXPECT_GE(stats.open_fds, 3);
  EXPECT_GE(stats.max_fds, stats.open_fds);
  EXPECT_GE(stats.threads, 1);
  EXPECT_GT(stats.start_time_seconds, 1.0e9);
}

}  // namespace
}  // namespace sluice::server
