#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/support/raw_client.h"

namespace sluice::testing {

inline boost::json::value Parsed(const std::string& text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << error.message() << " in " << text;
  return value;
}

// A chat body with one user message and more fields.
inline std::string ChatBody(std::string_view content, const std::string& more = "") {
  boost::json::object message{{"role", "user"}, {"content", std::string(content)}};
  return "{\"messages\":[" + boost::json::serialize(message) + "]" +
         (more.empty() ? "" : "," + more) + "}";
}

// A stream taken apart as strict clients do.
struct Stream {
  std::vector<boost::json::value> chunks;
  std::string text;  // of choice 0, without what comes with the finish reason
  std::string finish;
  boost::json::value stop_reason;
  bool done = false;
  bool error = false;

  static Stream Read(RawClient& client) {
    Stream stream;
    for (const std::string& event : client.ReadEvents()) {
      EXPECT_FALSE(stream.done) << "after [DONE]: " << event;
      if (event == "[DONE]") {
        stream.done = true;
        continue;
      }
      stream.chunks.push_back(Parsed(event));
      const boost::json::object& chunk = stream.chunks.back().as_object();
      if (chunk.contains("error")) {
        stream.error = true;
        continue;
      }
      for (const auto& choice : chunk.at("choices").as_array()) {
        EXPECT_TRUE(choice.as_object().contains("finish_reason"));
        if (choice.at("index") != 0) continue;
        if (choice.at("finish_reason").is_string()) {
          stream.finish = choice.at("finish_reason").as_string().c_str();
          stream.stop_reason = choice.at("stop_reason");
          continue;
        }
        const boost::json::object& holder = choice.as_object().contains("delta")
                                                ? choice.at("delta").as_object()
                                                : choice.as_object();
        const char* key = choice.as_object().contains("delta") ? "content" : "text";
        if (holder.contains(key)) stream.text += holder.at(key).as_string().c_str();
      }
    }
    return stream;
  }
};

inline Stream StreamChat(uint16_t port, const std::string& body) {
  RawClient client(port);
  client.SendPost("/v1/chat/completions", body);
  const auto head = client.ReceiveHead();
  EXPECT_TRUE(head && head->status == 200);
  return Stream::Read(client);
}

inline boost::json::value PostJson(uint16_t port, std::string_view path, const std::string& body,
                                   int status = 200) {
  const RawResponse response = Fetch(port, RawClient::Post(path, body));
  EXPECT_EQ(response.status, status) << response.body;
  return Parsed(response.body);
}

}  // namespace sluice::testing
