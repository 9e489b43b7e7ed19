// A reader of a Snapshot never sees half of a write.
#include "engine/base/snapshot.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace sluice::engine {
namespace {

struct Value {
  std::array<int64_t, 9> parts{};
};

TEST(SnapshotTest, StartsWithZeroesAndGivesTheLastValue) {
  Snapshot<Value> snapshot;
  EXPECT_EQ(snapshot.Read().parts, Value().parts);
  Value value;
  value.parts[8] = -1;
  snapshot.Publish(value);
  EXPECT_EQ(snapshot.Read().parts, value.parts);
}

TEST(SnapshotTest, ReadersSeeWholeValuesInOrder) {
  constexpr int64_t kWrites = 100000;
  Snapshot<Value> snapshot;
  std::thread writer([&] {
    Value value;
    for (int64_t i = 1; i <= kWrites; ++i) {
      value.parts.fill(i);
      snapshot.Publish(value);
    }
  });
  int64_t last = 0;
  while (last < kWrites) {
    const Value value = snapshot.Read();
    for (const int64_t part : value.parts) ASSERT_EQ(part, value.parts[0]);
    ASSERT_GE(value.parts[0], last);
    last = value.parts[0];
  }
  writer.join();
}

}  // namespace
}  // namespace sluice::engine
