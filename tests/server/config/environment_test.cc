#include "server/config/settings/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/config/sample_schema.h"

namespace sluice::server::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Environment, VariablesAreThePathInUpperCase) {
  const Reading read = ReadEnvironment(
      SampleSchema(), {"SLUICE_WEB_PORT=81", "SLUICE_WEB_HOST=a=b", "SLUICE_WEB_MODE=", "PATH=/bin",
                       "SLUICE_TEST_MODEL=x", "SLUICE_CONFIG=file", "NOT_SLUICE_WEB_PORT=1"});
  ASSERT_EQ(read.assignments.size(), 2u);  // what is empty counts as not set
  EXPECT_EQ(read.assignments[0].text, "81");
  EXPECT_EQ(read.assignments[0].place, "SLUICE_WEB_PORT");
  EXPECT_EQ(read.assignments[0].origin, "env SLUICE_WEB_PORT");
  EXPECT_EQ(read.assignments[1].text, "a=b");
  EXPECT_THAT(read.warnings, IsEmpty());
  EXPECT_THAT(read.errors, IsEmpty());
}

TEST(Environment, UnknownNamesWarnAndSuggest) {
  const Reading read =
      ReadEnvironment(SampleSchema(), {"SLUICE_WEB_PROT=81", "SLUICE_QQQQQQQQQ=1", "SLUICE_=2"});
  EXPECT_THAT(read.assignments, IsEmpty());
  EXPECT_THAT(read.warnings,
              ElementsAre(HasSubstr("SLUICE_:"), HasSubstr("SLUICE_QQQQQQQQQ: ignored"),
                          HasSubstr("SLUICE_WEB_PROT: ignored; did you mean SLUICE_WEB_PORT?")));
}

// What Kubernetes sets for Services named sluice, sluice-web (whose address has the name of a
// setting) and sluice-web-admin must neither end the start nor fill the log.
TEST(Environment, KubernetesServiceLinksAreIgnored) {
  const Reading read = ReadEnvironment(
      SampleSchema(),
      {"SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_SERVICE_PORT=8000", "SLUICE_SERVICE_PORT_HTTP=8000",
       "SLUICE_PORT=tcp://10.0.0.1:8000", "SLUICE_PORT_8000_TCP=tcp://10.0.0.1:8000",
       "SLUICE_PORT_8000_TCP_PROTO=tcp", "SLUICE_PORT_8000_TCP_PORT=8000",
       "SLUICE_PORT_8000_TCP_ADDR=10.0.0.1", "SLUICE_WEB_SERVICE_HOST=10.0.0.2",
       "SLUICE_WEB_SERVICE_PORT=80", "SLUICE_WEB_PORT=tcp://10.0.0.2:80",
       "SLUICE_WEB_PORT_80_TCP_ADDR=10.0.0.2", "SLUICE_WEB_ADMIN_PORT=udp://10.0.0.3:53",
       "SLUICE_WEB_ADMIN_PORT_53_UDP=udp://10.0.0.3:53"});
  EXPECT_THAT(read.assignments, IsEmpty());
  EXPECT_THAT(read.errors, IsEmpty());
  // The one that hides a setting is worth a line.
  EXPECT_THAT(read.warnings, ElementsAre(HasSubstr("SLUICE_WEB_PORT: \"tcp://10.0.0.2:80\" is a "
                                                   "Kubernetes service link")));
}

TEST(Environment, AnAddressWhereNoLinkCouldBeIsAValue) {
  const Reading read = ReadEnvironment(SampleSchema(), {"SLUICE_WEB_HOST=tcp://10.0.0.1:1"});
  EXPECT_EQ(read.assignments.size(), 1u);
}

TEST(Environment, TheLastOfTwoVariablesCounts) {
  EXPECT_EQ(VariableIn({"A=1", "B=2", "A=3", "AB=4"}, "A"), "3");
  EXPECT_EQ(VariableIn({"A=1"}, "C"), "");
}

}  // namespace
}  // namespace sluice::server::config
