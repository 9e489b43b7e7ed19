#include "server/http/request_parser.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

constexpr char kHost[] = "Host: h\r\n";

// Feeds `bytes` in pieces of `step`, as connection.cc does; what is left over goes to *rest.
int Feed(RequestParser& parser, std::string bytes, size_t step, std::string* rest = nullptr) {
  std::string waiting;
  size_t next = 0;
  while (!parser.done() && !parser.failed()) {
    const size_t used = parser.Put(waiting);
    waiting.erase(0, used);
    if (used > 0) continue;
    if (next >= bytes.size()) break;
    waiting += bytes.substr(next, step);
    next += step;
  }
  if (rest != nullptr) *rest = waiting + (next < bytes.size() ? bytes.substr(next) : "");
  return parser.error_status();
}

int StatusOf(const std::string& bytes, HttpLimits limits = {}) {
  RequestParser parser(limits);
  const int status = Feed(parser, bytes, bytes.size());
  return status != 0 ? status : (parser.done() ? 200 : -1);
}

std::string Post(const std::string& headers, const std::string& body) {
  return "POST /x?q=1 HTTP/1.1\r\n" + std::string(kHost) + headers + "\r\n" + body;
}

TEST(RequestParser, ReadsARequestWhateverThePieces) {
  const std::string bytes = Post("Content-Length: 5\r\nX-Y:  v \r\n", "helloNEXT");
  for (const size_t step : {1u, 2u, 3u, 7u, 1000u}) {
    RequestParser parser{HttpLimits()};
    std::string rest;
    EXPECT_EQ(Feed(parser, bytes, step, &rest), 0);
    ASSERT_TRUE(parser.done()) << step;
    const HttpRequest request = parser.Release();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/x");
    EXPECT_EQ(request.query, "q=1");
    EXPECT_EQ(request.Header("x-y"), "v");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(rest, "NEXT");
  }
}

TEST(RequestParser, ReadsChunkedBodies) {
  const std::string body = "1;ext=\"a\"\r\nh\r\n4\r\nello\r\n0\r\nTrailer: t\r\n\r\nNEXT";
  for (const size_t step : {1u, 1000u}) {
    RequestParser parser{HttpLimits()};
    std::string rest;
    EXPECT_EQ(Feed(parser, Post("Transfer-Encoding: chunked\r\n", body), step, &rest), 0);
    ASSERT_TRUE(parser.done());
    EXPECT_EQ(parser.Release().body, "hello");
    EXPECT_EQ(rest, "NEXT");
  }
}

TEST(RequestParser, TakesAnEmptyChunkedBodyByteByByte) {
  RequestParser parser{HttpLimits()};
  EXPECT_EQ(Feed(parser, Post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), 1), 0);
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(parser.Release().body, "");
}

TEST(RequestParser, BoundsWhatChunksSayBesidesTheirData) {
  HttpLimits limits;
  limits.header_bytes = 512;
  const std::string many(600, 'a');
  for (const std::string& body :
       {"5;" + many, "5;x=\"" + many, "0\r\nTrailer: " + many, "1\r\nh\r\n0;" + many}) {
    for (const size_t step : {1u, 7u, 5000u}) {
      RequestParser parser{limits};
      EXPECT_EQ(Feed(parser, Post("Transfer-Encoding: chunked\r\n", body), step), 431) << body;
    }
  }
}

TEST(RequestParser, RefusesAChunkExtensionThatEndsInQuotes) {
  for (const size_t step : {1u, 7u, 5000u}) {
    RequestParser parser{HttpLimits()};
    EXPECT_EQ(
        Feed(parser, Post("Transfer-Encoding: chunked\r\n", "5;x=\"y\r\nhello\r\n0\r\n\r\n"), step),
        400);
  }
}

TEST(RequestParser, RefusesMoreThanOneTransferEncoding) {
  for (const char* headers :
       {"Transfer-Encoding: \r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: \r\n",
        "Transfer-Encoding: \r\nTransfer-Encoding: chunky\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: \r\n",
        "Transfer-Encoding: \r\nContent-Length: 5\r\n"}) {
    const int status = StatusOf(Post(headers, "0\r\n\r\n"));
    EXPECT_TRUE(status == 501 || status == 400) << headers << status;
  }
}

TEST(RequestParser, TakesAbsoluteTargets) {
  RequestParser parser{HttpLimits()};
  Feed(parser, "GET http://h:1/p/q?x HTTP/1.1\r\nHost: h\r\n\r\n", 1000);
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(parser.Release().path, "/p/q");
}

// Shapes on whose end two parsers may disagree.
TEST(RequestParser, RefusesSmugglingShapes) {
  EXPECT_EQ(StatusOf(Post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
            400);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")),
            400);
  EXPECT_EQ(StatusOf(Post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello")), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length: +5\r\n", "hello")), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length: 5, 5\r\n", "hello")), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length: -1\r\n", "")), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length: 99999999999999999999\r\n", "")), 400);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: identity\r\n", "")), 501);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: chunked, identity\r\n", "")), 501);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")), 501);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: xchunked\r\n", "")), 501);
  EXPECT_EQ(StatusOf("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length : 5\r\n", "hello")), 400);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding: chunked\r\n", "zz\r\n\r\n")), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
}

TEST(RequestParser, NamesLimits) {
  HttpLimits limits;
  limits.header_bytes = 1024;
  limits.body_bytes = 10;
  EXPECT_EQ(StatusOf(Post("X: " + std::string(2000, 'x') + "\r\n", ""), limits), 431);
  EXPECT_EQ(StatusOf(Post("Content-Length: 11\r\n", ""), limits), 413);
  EXPECT_EQ(
      StatusOf(Post("Transfer-Encoding: chunked\r\n", "b\r\nhello world\r\n0\r\n\r\n"), limits),
      413);
  EXPECT_EQ(StatusOf(Post("Content-Length: 10\r\n", "0123456789"), limits), 200);
}

TEST(RequestParser, RefusesWhatItDoesNotSpeak) {
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(std::string("\0\1\2\3\r\n\r\n", 8)), 400);
  EXPECT_EQ(StatusOf(Post("Content-Encoding: gzip\r\nContent-Length: 0\r\n", "")), 415);
  EXPECT_EQ(StatusOf(Post("Expect: magic\r\nContent-Length: 0\r\n", "")), 417);
}

TEST(RequestParser, KnowsWhoKeepsTheConnection) {
  const auto keeps = [](const std::string& bytes) {
    RequestParser parser{HttpLimits()};
    Feed(parser, bytes, bytes.size());
    return parser.Release().keep_alive;
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestParser, ExpectsContinueOnlyWhileTheBodyIsOut) {
  RequestParser parser{HttpLimits()};
  parser.Put(Post("Expect: 100-Continue\r\nContent-Length: 5\r\n", ""));
  EXPECT_TRUE(parser.header_done());
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_EQ(parser.Put("hello"), 5u);
  EXPECT_FALSE(parser.expects_continue());
  EXPECT_TRUE(parser.done());
}

}  // namespace
}  // namespace sluice::server
