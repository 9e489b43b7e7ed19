#include "server/http/exchange.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

HttpRequest Request(std::string method = "GET", bool http11 = true, bool keep_alive = true) {
  HttpRequest request;
  request.method = std::move(method);
  request.http11 = http11;
  request.keep_alive = keep_alive;
  request.id = "rid";
  return request;
}

std::string HeaderLine(const std::string& bytes, const std::string& name) {
  const size_t at = bytes.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + 4 + name.size();
  return bytes.substr(begin, bytes.find("\r\n", begin) - begin);
}

TEST(Exchange, FramesAReply) {
  int wakes = 0;
  Exchange exchange(Request(), 1000, [&] { ++wakes; });
  HttpResponse response;
  response.status = 404;
  response.body = "{}";
  response.headers.emplace_back("Allow", "GET");
  exchange.Reply(response);
  exchange.Reply(response);  // only the first counts
  EXPECT_EQ(wakes, 1);
  const auto out = exchange.Take();
  EXPECT_TRUE(out.complete);
  EXPECT_TRUE(out.bytes.starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_TRUE(out.bytes.ends_with("\r\n\r\n{}"));
  EXPECT_EQ(HeaderLine(out.bytes, "Content-Length"), "2");
  EXPECT_EQ(HeaderLine(out.bytes, "X-Request-Id"), "rid");
  EXPECT_EQ(HeaderLine(out.bytes, "Allow"), "GET");
  EXPECT_EQ(HeaderLine(out.bytes, "Connection"), "");
  EXPECT_TRUE(exchange.KeepAlive());
  EXPECT_TRUE(exchange.Take().bytes.empty());
}

TEST(Exchange, HeadGetsNoBodyButItsLength) {
  Exchange exchange(Request("HEAD"), 1000, [] {});
  HttpResponse response;
  response.body = "hello";
  exchange.Reply(response);
  const auto out = exchange.Take();
  EXPECT_EQ(HeaderLine(out.bytes, "Content-Length"), "5");
  EXPECT_TRUE(out.bytes.ends_with("\r\n\r\n"));
}

TEST(Exchange, WhatPilesUpLeavesAsOneChunk) {
  Exchange exchange(Request(), 1000, [] {});
  exchange.StartEvents();
  const auto head = exchange.Take();
  EXPECT_EQ(HeaderLine(head.bytes, "Transfer-Encoding"), "chunked");
  EXPECT_FALSE(head.complete);
  EXPECT_TRUE(exchange.Write("data: a\n\n"));
  EXPECT_TRUE(exchange.Write("data: b\n\n"));
  EXPECT_EQ(exchange.Take().bytes, "12\r\ndata: a\n\ndata: b\n\n\r\n");
  EXPECT_TRUE(exchange.Write("data: c\n\n"));
  exchange.Finish();
  const auto end = exchange.Take();
  EXPECT_EQ(end.bytes, "9\r\ndata: c\n\n\r\n0\r\n\r\n");
  EXPECT_TRUE(end.complete);
  EXPECT_FALSE(exchange.Write("data: late\n\n"));
}

TEST(Exchange, AnOldClientsStreamEndsWithItsConnection) {
  Exchange exchange(Request("POST", false, true), 1000, [] {});
  exchange.StartEvents();
  exchange.Write("data: a\n\n");
  exchange.Finish();
  const auto out = exchange.Take();
  EXPECT_EQ(HeaderLine(out.bytes, "Transfer-Encoding"), "");
  EXPECT_EQ(HeaderLine(out.bytes, "Connection"), "close");
  EXPECT_TRUE(out.bytes.ends_with("\r\n\r\ndata: a\n\n"));
  EXPECT_FALSE(exchange.KeepAlive());
}

TEST(Exchange, FallingBehindGivesTheClientUp) {
  int wakes = 0;
  Exchange exchange(Request(), 10, [&] { ++wakes; });
  int gone = 0;
  exchange.OnGone([&] { ++gone; });
  exchange.StartEvents();
  EXPECT_TRUE(exchange.Write("0123456789"));
  EXPECT_EQ(wakes, 1);
  EXPECT_FALSE(exchange.Write("x"));
  EXPECT_EQ(wakes, 2);  // though nothing was taken since the first
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(exchange.Take().abandoned);
  EXPECT_FALSE(exchange.Write("y"));
  EXPECT_EQ(gone, 1);
}

TEST(Exchange, ToldOnceWhenTheClientLeaves) {
  Exchange exchange(Request(), 10, [] {});
  int gone = 0;
  exchange.Abandon();
  exchange.OnGone([&] { ++gone; });
  EXPECT_EQ(gone, 1);
  exchange.Abandon();
  EXPECT_EQ(gone, 1);
  exchange.Reply({});
  EXPECT_TRUE(exchange.Take().bytes.empty());
}

TEST(Exchange, ACompleteAnswerIsNotGone) {
  Exchange exchange(Request(), 10, [] {});
  int gone = 0;
  exchange.OnGone([&] { ++gone; });
  exchange.Reply({});
  exchange.Abandon();
  EXPECT_EQ(gone, 0);
}

TEST(Exchange, WakesOnceUntilTaken) {
  int wakes = 0;
  Exchange exchange(Request(), 1000, [&] { ++wakes; });
  exchange.StartEvents();
  exchange.Write("a");
  exchange.Write("b");
  EXPECT_EQ(wakes, 1);
  exchange.Take();
  exchange.Write("c");
  EXPECT_EQ(wakes, 2);
}

}  // namespace
}  // namespace sluice::server
