#include "server/openai/answer_writer.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace sluice::server::openai {
namespace {

namespace json = boost::json;
using engine::FinishReason;

AnswerFacts Facts(Endpoint endpoint) {
  AnswerFacts facts;
  facts.endpoint = endpoint;
  facts.id = "id-1";
  facts.created = 5;
  facts.model = "a \"model\"";
  facts.fingerprint = "fp";
  return facts;
}

json::value Event(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << event;
  return json::parse(event.substr(6));
}

TEST(AnswerWriter, ChatChunks) {
  const AnswerWriter writer(Facts(Endpoint::kChat));
  std::string out;
  writer.Role(&out, 2, nullptr, {});
  json::value chunk = Event(out);
  EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
  EXPECT_EQ(chunk.at("model"), "a \"model\"");
  const json::value* choice = &chunk.at("choices").at(0);
  EXPECT_EQ(choice->at("index"), 2);
  EXPECT_EQ(choice->at("delta").at("role"), "assistant");
  EXPECT_TRUE(choice->at("finish_reason").is_null());
  EXPECT_FALSE(chunk.as_object().contains("usage"));

  out.clear();
  writer.Text(&out, 0, "a\"\n\xFF", {1, 2}, {});
  chunk = Event(out);
  choice = &chunk.at("choices").at(0);
  EXPECT_EQ(choice->at("delta").at("content"), "a\"\n\xEF\xBF\xBD");
  EXPECT_TRUE(choice->at("finish_reason").is_null());
  EXPECT_FALSE(choice->as_object().contains("token_ids"));

  out.clear();
  writer.Finish(&out, 0, FinishReason::kStop, std::string("end"), {}, {});
  chunk = Event(out);
  choice = &chunk.at("choices").at(0);
  EXPECT_TRUE(choice->at("delta").as_object().empty());
  EXPECT_EQ(choice->at("finish_reason"), "stop");
  EXPECT_EQ(choice->at("stop_reason"), "end");
}

TEST(AnswerWriter, UsageInStreams) {
  AnswerFacts facts = Facts(Endpoint::kChat);
  facts.include_usage = true;
  std::string out;
  AnswerWriter(facts).Text(&out, 0, "x", {}, {3, 1});
  EXPECT_TRUE(Event(out).at("usage").is_null());
  out.clear();
  AnswerWriter(facts).FinalUsage(&out, {3, 4});
  const json::value last = Event(out);
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_EQ(last.at("usage").at("total_tokens"), 7);
  EXPECT_EQ(last.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
  facts.continuous_usage = true;
  out.clear();
  AnswerWriter(facts).Text(&out, 0, "x", {}, {3, 1});
  EXPECT_EQ(Event(out).at("usage").at("completion_tokens"), 1);
}

TEST(AnswerWriter, CompletionChunksAndIds) {
  AnswerFacts facts = Facts(Endpoint::kCompletions);
  facts.return_token_ids = true;
  std::string out;
  AnswerWriter(facts).Text(&out, 1, "x", {7, 8}, {});
  const json::value chunk = Event(out);
  EXPECT_EQ(chunk.at("object"), "text_completion");
  EXPECT_EQ(chunk.at("choices").at(0).at("text"), "x");
  EXPECT_EQ(chunk.at("choices").at(0).at("token_ids").as_array().size(), 2u);
}

TEST(AnswerWriter, Bodies) {
  std::vector<Choice> choices(2);
  choices[0].text = "one";
  choices[0].finish = FinishReason::kLength;
  choices[1].index = 1;
  choices[1].text = "two\xF0\x9F";
  choices[1].finish = FinishReason::kStop;
  choices[1].stop_reason = int32_t{9};
  const json::value chat = json::parse(AnswerWriter(Facts(Endpoint::kChat)).Body(choices, {2, 3}));
  EXPECT_EQ(chat.at("object"), "chat.completion");
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content"), "one");
  EXPECT_EQ(chat.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_TRUE(chat.at("choices").at(0).at("stop_reason").is_null());
  EXPECT_EQ(chat.at("choices").at(1).at("stop_reason"), 9);
  EXPECT_EQ(chat.at("usage").at("total_tokens"), 5);
  AnswerFacts facts = Facts(Endpoint::kCompletions);
  facts.return_token_ids = true;
  const std::vector<int32_t> prompt = {4, 5};
  choices[0].prompt_ids = &prompt;
  const json::value body = json::parse(AnswerWriter(facts).Body(choices, {}));
  EXPECT_EQ(body.at("choices").at(0).at("text"), "one");
  EXPECT_EQ(body.at("choices").at(0).at("prompt_token_ids").as_array().size(), 2u);
}

}  // namespace
}  // namespace sluice::server::openai
