#include "server/config/settings/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace sluice::server::config {
namespace {

TEST(Units, ReadsSizes) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"64KiB", 65536},
      {"64Ki", 65536},
      {"8 MiB", 8 << 20},
      {"1.5GiB", (int64_t{3} << 30) / 2},
      {"2TiB", int64_t{2} << 40},
      {"1kB", 1000},
      {"1KB", 1000},
      {"3M", 3'000'000},
      {"2GB", 2'000'000'000},
      {"-1", -1},
      {"+7", 7},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"0.5kB", 500},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseBytes(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << engine::Message(parsed.status());
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text :
       {"",           "KiB",     "1.5",   "0.3KiB", "1XiB", "1kib", "1e3",
        "0x10",       "1 2",     "1KiB ", " 1",     "--1",  "+-1",  "9223372036854775808",
        "9999999TiB", "1..5KiB", "inf",   "nan",    "1s",   "1,000"}) {
    const auto parsed = ParseBytes(text);
    EXPECT_FALSE(parsed.ok()) << text << " became " << *parsed;
    if (!parsed.ok()) {
      EXPECT_NE(engine::Message(parsed.status()).find("is not a size"), std::string::npos);
    }
  }
}

TEST(Units, ReadsDurations) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},         {"30", 30'000},    {"0.5", 500},        {"500ms", 500}, {"2s", 2000},
      {"1.5m", 90'000}, {"5min", 300'000}, {"24h", 86'400'000}, {"0.001", 1},   {"0.25 h", 900'000},
  };
  for (const auto& [text, milliseconds] : cases) {
    const auto parsed = ParseMilliseconds(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << engine::Message(parsed.status());
    EXPECT_EQ(*parsed, milliseconds) << text;
  }
  for (const char* text : {"", "s", "0.0001", "1us", "1d", "1S", "1m30s", "1KiB", "1e9", "soon"}) {
    EXPECT_FALSE(ParseMilliseconds(text).ok()) << text;
  }
}

TEST(Units, ReadsNumbers) {
  EXPECT_EQ(*ParseInteger("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* text : {"", "1.0", "1e3", "x", "1x", " 1", "1_000", "true"}) {
    EXPECT_FALSE(ParseInteger(text).ok()) << text;
  }
  EXPECT_NE(engine::Message(ParseInteger("99999999999999999999").status()).find("64 bits"),
            std::string::npos);
  EXPECT_EQ(*ParseReal("0.8"), 0.8);
  EXPECT_EQ(*ParseReal("1e-3"), 0.001);
  for (const char* text : {"", "nan", "inf", "1e999", "0.8x", "0,8", "0x1p3"}) {
    EXPECT_FALSE(ParseReal(text).ok()) << text;
  }
}

TEST(Units, PrintsWithTheGreatestUnitThatDivides) {
  EXPECT_EQ(PrintBytes(0), "0");
  EXPECT_EQ(PrintBytes(1000), "1000");
  EXPECT_EQ(PrintBytes(1536), "1536");
  EXPECT_EQ(PrintBytes(8 << 20), "8MiB");
  EXPECT_EQ(PrintMilliseconds(0), "0s");
  EXPECT_EQ(PrintMilliseconds(1), "1ms");
  EXPECT_EQ(PrintMilliseconds(60'000), "60s");
  EXPECT_EQ(PrintMilliseconds(90'000), "90s");
  EXPECT_EQ(PrintMilliseconds(300'000), "5m");
  EXPECT_EQ(PrintMilliseconds(7'200'000), "2h");
  EXPECT_EQ(PrintReal(0.8), "0.8");
}

// Whatever is printed is read back as the same value.
TEST(Units, PrintedIsReadBack) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    // All magnitudes, and multiples of the units.
    int64_t value = static_cast<int64_t>(random() >> (1 + random() % 63));
    if (i % 3 == 0) value &= ~int64_t{0xFFFFF};
    if (i % 3 == 1) value -= value % 60'000;
    if (i % 2 == 0) value = -value;
    ASSERT_EQ(*ParseBytes(PrintBytes(value)), value);
    ASSERT_EQ(*ParseMilliseconds(PrintMilliseconds(value)), value);
    const double real = static_cast<double>(value) / 1'000'003;
    ASSERT_EQ(*ParseReal(PrintReal(real)), real);
  }
}

}  // namespace
}  // namespace sluice::server::config
