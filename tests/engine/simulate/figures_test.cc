// Latencies, shares and means of a run whose every event is known.
#include "engine/simulate/figures.h"

#include <gtest/gtest.h>

namespace sluice::testing {
namespace {

using engine::Clock;
using engine::FigureBook;
using engine::FinishReason;
using engine::LatencyHistogram;
using engine::RunFigures;
using engine::SequenceEvent;

Clock::time_point At(int64_t milliseconds) {
  return Clock::time_point(std::chrono::milliseconds(1000 + milliseconds));
}

SequenceEvent Token(uint64_t id, int64_t at, FinishReason finish = FinishReason::kNone) {
  SequenceEvent event;
  event.id = id;
  event.token = 5;
  event.time = At(at);
  event.finish = finish;
  return event;
}

TEST(LatencyHistogramTest, QuantilesAreWithinHalfAPercent) {
  LatencyHistogram times;
  EXPECT_EQ(times.Quantile(0.5), 0);
  for (int i = 1; i <= 1000; ++i) times.Add(i * 1e-3);
  EXPECT_EQ(times.count(), 1000);
  EXPECT_NEAR(times.mean(), 0.5005, 1e-9);
  EXPECT_NEAR(times.Quantile(0.5), 0.5, 0.5 * 0.003);
  EXPECT_NEAR(times.Quantile(0.99), 0.99, 0.99 * 0.003);
  EXPECT_NEAR(times.Quantile(1), 1, 0.003);
  times.Add(0);
  times.Add(1e9);
  EXPECT_GT(times.Quantile(1), 1e6);
  EXPECT_EQ(times.max(), 1e9);
}

TEST(FigureBookTest, CountsWhatCallersGot) {
  FigureBook book({0.15, 0.05});
  book.OnArrival(1, At(0), 10);
  book.OnArrival(2, At(50), 20);
  book.OnRefusal(At(60));
  book.OnEvents({Token(1, 100), Token(2, 300)});
  book.OnEvents({Token(1, 140), Token(2, 320)});
  book.OnEvents({Token(1, 200, FinishReason::kLength), Token(2, 340, FinishReason::kStop)});
  book.OnArrival(3, At(400), 30);
  SequenceEvent cancelled;
  cancelled.id = 3;
  cancelled.finish = FinishReason::kCancelled;
  cancelled.time = At(450);
  book.OnEvents({cancelled});
  book.OnStep(30, 0.1);
  EXPECT_EQ(book.open(), 0);
  const RunFigures figures = book.Close();
  EXPECT_EQ(figures.requests, 4);
  EXPECT_EQ(figures.finished, 2);
  EXPECT_EQ(figures.refused, 1);
  EXPECT_EQ(figures.cut, 1);
  EXPECT_EQ(figures.good, 1) << "the second one's first token came late";
  EXPECT_EQ(figures.prompt_tokens, 60);
  EXPECT_EQ(figures.output_tokens, 6);
  EXPECT_DOUBLE_EQ(figures.seconds, 0.4);
  EXPECT_NEAR(figures.first_token.mean(), (0.1 + 0.25) / 2, 1e-12);
  EXPECT_NEAR(figures.inter_token.mean(), (0.04 + 0.06 + 0.02 + 0.02) / 4, 1e-12);
  EXPECT_NEAR(figures.end_to_end.mean(), (0.2 + 0.29) / 2, 1e-12);
}

TEST(FigureBookTest, MeansAreOverTime) {
  FigureBook book({});
  engine::EngineStats stats;
  stats.kv_blocks_total = 10;
  stats.kv_blocks_used = 4;
  stats.requests_running = 2;
  book.OnState(stats, At(0));
  stats.kv_blocks_used = 8;
  stats.requests_waiting = 3;
  stats.prefix_query_tokens = 50;
  book.OnState(stats, At(30));
  book.OnState({}, At(40));
  const RunFigures figures = book.Close();
  EXPECT_DOUBLE_EQ(figures.kv_mean, 0.75 * 0.4 + 0.25 * 0.8);
  EXPECT_DOUBLE_EQ(figures.kv_peak, 0.8);
  EXPECT_DOUBLE_EQ(figures.running_mean, 2);
  EXPECT_DOUBLE_EQ(figures.waiting_mean, 0.75);
  EXPECT_EQ(figures.waiting_peak, 3);
}

}  // namespace
}  // namespace sluice::testing
