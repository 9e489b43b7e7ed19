#include "server/http/router.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

Router MakeRouter() {
  Router router;
  router.Add("GET", "/a", [](std::shared_ptr<Exchange>) {});
  router.Add("POST", "/a", [](std::shared_ptr<Exchange>) {});
  router.Add("POST", "/b", [](std::shared_ptr<Exchange>) {});
  router.Add("GET", "/m/*", [](std::shared_ptr<Exchange>) {});
  return router;
}

TEST(Router, FindsByPathAndMethod) {
  const Router router = MakeRouter();
  EXPECT_NE(router.Find("GET", "/a").handler, nullptr);
  EXPECT_NE(router.Find("POST", "/a").handler, router.Find("GET", "/a").handler);
  EXPECT_EQ(router.Find("HEAD", "/a").handler, router.Find("GET", "/a").handler);
}

TEST(Router, StarMatchesLongerPathsOnly) {
  const Router router = MakeRouter();
  EXPECT_NE(router.Find("GET", "/m/x/y").handler, nullptr);
  EXPECT_EQ(router.Find("GET", "/m/x").label, "/m/*");
  EXPECT_EQ(router.Find("GET", "/m/").handler, nullptr);
  EXPECT_EQ(router.Find("GET", "/mx").handler, nullptr);
}

TEST(Router, UnknownPathIs404UnderOneLabel) {
  const Router router = MakeRouter();
  const auto match = router.Find("GET", "/" + std::string(5000, 'x'));
  EXPECT_EQ(match.handler, nullptr);
  EXPECT_EQ(match.refusal.status, 404);
  EXPECT_EQ(match.label, "other");
  EXPECT_LT(match.refusal.body.size(), 400u);
}

TEST(Router, WrongMethodIs405WithAllow) {
  const Router router = MakeRouter();
  const auto match = router.Find("DELETE", "/a");
  EXPECT_EQ(match.refusal.status, 405);
  ASSERT_EQ(match.refusal.headers.size(), 1u);
  EXPECT_EQ(match.refusal.headers[0].first, "Allow");
  EXPECT_EQ(match.refusal.headers[0].second, "GET, HEAD, POST");
  EXPECT_EQ(router.Find("HEAD", "/b").refusal.status, 405);
}

}  // namespace
}  // namespace sluice::server
