// The wire's fields: what is read, what is refused, and that refusals name field, value and limit.
#include "server/openai/request_fields.h"

#include <gtest/gtest.h>

namespace sluice::server::openai {
namespace {

const RequestCaps kCaps;

std::variant<boost::json::object, ApiError> Body(const std::string& text) {
  return ParseBody(text);
}

std::variant<ChatFields, ApiError> Chat(const std::string& more) {
  auto body = Body(R"({"messages":[{"role":"user","content":"hi"}])" +
                   (more.empty() ? "" : "," + more) + "}");
  if (auto* error = std::get_if<ApiError>(&body)) return *error;
  return ReadChat(std::get<0>(body), kCaps);
}

std::variant<CompletionFields, ApiError> Completion(const std::string& more) {
  auto body = Body("{" + more + "}");
  if (auto* error = std::get_if<ApiError>(&body)) return *error;
  return ReadCompletion(std::get<0>(body), kCaps);
}

TEST(ParseBody, RefusesWhatIsNotOneJsonObject) {
  const std::string deep(3000, '[');
  for (const std::string& text :
       {std::string(), std::string("{:"), std::string("null"), std::string("[]"),
        std::string("\"x\""), std::string("{} x"), std::string("{}{}"),
        std::string("\xEF\xBB\xBF{}"), std::string("{\"a\":"), std::string("{\"a\":NaN}"),
        std::string("{\"a\":Infinity}"), std::string("{\"a\":1,}"),
        std::string("{\"a\":\"\\ud800\"}"), std::string("{\"a\":\"\xFF\"}"),
        std::string("{\"a\":01}"), std::string("{'a':1}"), std::string("// x\n{}"), deep,
        "{\"a\":" + deep + "}"}) {
    const auto body = Body(text);
    ASSERT_TRUE(std::holds_alternative<ApiError>(body)) << text.substr(0, 40);
    EXPECT_EQ(std::get<ApiError>(body).status, 400);
    EXPECT_EQ(std::get<ApiError>(body).code, "invalid_json");
  }
}

TEST(ParseBody, SaysWhereAndHowDeep) {
  EXPECT_NE(std::get<ApiError>(Body("{\"a\":x}")).message.find("byte 5"), std::string::npos);
  EXPECT_NE(std::get<ApiError>(Body("{\"a\":" + std::string(100, '['))).message.find("64"),
            std::string::npos);
  const std::string nested = "{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_TRUE(std::holds_alternative<boost::json::object>(Body(nested)));
}

TEST(ParseBody, LastOfEqualKeysCountsAndSpaceIsFree) {
  const auto body = Body(" \n{\"n\":1,\"n\":2}\t\r\n");
  ASSERT_TRUE(std::holds_alternative<boost::json::object>(body));
  EXPECT_EQ(std::get<0>(body).at("n").as_int64(), 2);
}

TEST(ParseBody, LimitsDepthAndMemory) {
  JsonLimits limits;
  limits.depth = 8;
  limits.memory = 1 << 20;
  const auto deep = ParseBody("{\"a\":" + std::string(9, '[') + std::string(9, ']') + "}", limits);
  EXPECT_NE(std::get<ApiError>(deep).message.find("8 levels"), std::string::npos);
  std::string many = "{\"a\":[1";
  for (int i = 0; i < 100'000; ++i) many += ",1";
  many += "]}";
  const auto large = ParseBody(many, limits);
  ASSERT_TRUE(std::holds_alternative<ApiError>(large));
  EXPECT_EQ(std::get<ApiError>(large).status, 413);
  EXPECT_NE(std::get<ApiError>(large).message.find("1048576"), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<boost::json::object>(ParseBody(many)));
}

TEST(ParseBody, NumbersThatFitNowhereAreNoCrash) {
  for (const std::string& number :
       {std::string("1e400"), std::string("-1e400"), std::string("1e-400"),
        std::string("1e99999999999"), std::string(400, '9'), "-" + std::string(400, '9'),
        "0." + std::string(400, '0') + "1", std::string("18446744073709551615"),
        std::string("18446744073709551616"), std::string("-9223372036854775809")}) {
    for (const char* field : {"temperature", "n", "max_tokens", "top_k", "seed", "prompt"}) {
      const auto body = Body("{\"prompt\":\"x\",\"" + std::string(field) + "\":" + number + "}");
      if (std::holds_alternative<ApiError>(body)) continue;
      const auto read = ReadCompletion(std::get<0>(body), kCaps);
      if (const auto* error = std::get_if<ApiError>(&read)) {
        EXPECT_EQ(error->param, field) << number;
      }
    }
  }
}

struct Refusal {
  const char* fields;
  const char* param;
  const char* message;  // a part of it
};

TEST(ReadChat, RefusalsNameFieldValueAndLimit) {
  const Refusal cases[] = {
      {R"("temperature":"hot")", "temperature", "\"hot\""},
      {R"("temperature":1e400)", "temperature", "32-bit"},
      {R"("temperature":1e39)", "temperature", "32-bit"},
      {R"("top_k":0.01)", "top_k", "whole number"},
      {R"("top_k":-2)", "top_k", "-2 is not in [-1"},
      {R"("top_k":1e30)", "top_k", "is not in [-1"},
      {R"("max_tokens":0)", "max_tokens", "0 is not in [1"},
      {R"("max_tokens":true)", "max_tokens", "true"},
      {R"("max_completion_tokens":5000000000)", "max_completion_tokens", "5000000000"},
      {R"("min_tokens":-1)", "min_tokens", "-1"},
      {R"("n":0)", "n", "[1, 8]"},
      {R"("n":5000000)", "n", "5000000 is not in [1, 8]"},
      {R"("seed":1.5)", "seed", "1.5"},
      {R"("seed":"x")", "seed", "whole number"},
      {R"("stop":3)", "stop", "a string or a list"},
      {R"("stop":[3])", "stop[0]", "a string"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])", "stop",
       "17 entries, at most 16"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]", "-1"},
      {R"("stop_token_ids":["a"])", "stop_token_ids[0]", "token id"},
      {R"("logit_bias":{"abc":5})", "logit_bias", "\"abc\""},
      {R"("logit_bias":{"1":"x"})", "logit_bias", "number"},
      {R"("logit_bias":[1])", "logit_bias", "an object"},
      {R"("stream":"yes")", "stream", "true or false"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "stream: true"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options", "include_usage"},
      {R"("ignore_eos":1)", "ignore_eos", "true or false"},
      {R"("model":7)", "model", "a string"},
      {R"("best_of":3)", "best_of", "must equal n"},
      {R"("response_format":{"type":"json_object"})", "response_format", "json_object"},
      {R"("tools":[{"type":"function"}])", "tools", "not support"},
      {R"("tool_choice":"required")", "tool_choice", "not support"},
      {R"("tool_choice":{"type":"function"})", "tool_choice", "not support"},
      {R"("functions":[{}])", "functions", "not support"},
      {R"("logprobs":true)", "logprobs", "not support"},
      {R"("top_logprobs":5)", "top_logprobs", "not support"},
      {R"("top_logprobs":1e9)", "top_logprobs", "not support"},
      {R"("prompt_logprobs":1)", "prompt_logprobs", "not support"},
      {R"("guided_json":{"a":1})", "guided_json", "not support"},
      {R"("structured_outputs":{"regex":"a"})", "structured_outputs", "not support"},
      {R"("use_beam_search":true)", "use_beam_search", "not support"},
      {R"("chat_template":"{{ 1 }}")", "chat_template", "not support"},
      {R"("chat_template_kwargs":{"chat_template":"x"})", "chat_template_kwargs", "chat_template"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs", "messages"},
      {R"("modalities":["audio"])", "modalities", "audio"},
      {R"("bad_words":["x"])", "bad_words", "not support"},
      {R"("lora_path":"x")", "lora_path", "not support"},
      {R"("continue_final_message":true)", "continue_final_message", "assistant"},
  };
  for (const Refusal& c : cases) {
    const auto read = Chat(c.fields);
    ASSERT_TRUE(std::holds_alternative<ApiError>(read)) << c.fields;
    const ApiError& error = std::get<ApiError>(read);
    EXPECT_EQ(error.status, 400) << c.fields;
    EXPECT_EQ(error.param, c.param) << c.fields;
    EXPECT_TRUE(error.message.starts_with(std::string(c.param) + ": ")) << error.message;
    EXPECT_NE(error.message.find(c.message), std::string::npos) << error.message;
  }
}

TEST(ReadChat, MessagesAreChecked) {
  const Refusal cases[] = {
      {R"({})", "messages", "missing"},
      {R"({"messages":[]})", "messages", "empty"},
      {R"({"messages":"hi"})", "messages", "a list"},
      {R"({"messages":["hi"]})", "messages[0]", "an object"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role", "missing"},
      {R"({"messages":[{"role":"king","content":"x"}]})", "messages[0].role", "\"king\""},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "missing"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", "a string"},
      {R"({"messages":[{"role":"user","content":[5]}]})", "messages[0].content[0]", "an object"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].type", "image_url"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":7}]}]})",
       "messages[0].content[0].text", "a string"},
  };
  for (const Refusal& c : cases) {
    const auto read = ReadChat(std::get<0>(Body(c.fields)), kCaps);
    ASSERT_TRUE(std::holds_alternative<ApiError>(read)) << c.fields;
    const ApiError& error = std::get<ApiError>(read);
    EXPECT_EQ(error.param, c.param) << c.fields;
    EXPECT_TRUE(error.message.starts_with(std::string(c.param) + ": ")) << error.message;
    EXPECT_NE(error.message.find(c.message), std::string::npos) << error.message;
  }
}

TEST(ReadChat, ReadsEveryField) {
  const auto read = Chat(
      R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"presence_penalty":1,)"
      R"("frequency_penalty":-1,"repetition_penalty":1.1,"seed":-7,"logit_bias":{"5":-100,"6":2.5},)"
      R"("stop":["a","b"],"stop_token_ids":[1,2],"include_stop_str_in_output":true,)"
      R"("skip_special_tokens":false,"ignore_eos":true,"min_tokens":2,"max_tokens":9,"n":3,)"
      R"("best_of":3,"stream":true,"stream_options":{"include_usage":true,)"
      R"("continuous_usage_stats":true},"return_token_ids":true,"add_special_tokens":false,)"
      R"("chat_template_kwargs":{"enable_thinking":false},"tools":[],"tool_choice":"auto",)"
      R"("response_format":{"type":"text"},"logprobs":false,"user":"u","metadata":{"a":"b"})");
  ASSERT_TRUE(std::holds_alternative<ChatFields>(read)) << std::get<ApiError>(read).message;
  const ChatFields& chat = std::get<ChatFields>(read);
  const CommonFields& f = chat.common;
  EXPECT_EQ(f.model, "m");
  EXPECT_FLOAT_EQ(f.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(f.sampling.top_p, 0.9f);
  EXPECT_EQ(f.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(f.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(f.seed, static_cast<uint64_t>(-7));
  EXPECT_EQ(f.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(f.stop.strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(f.stop.token_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(f.stop.include_stop_string);
  EXPECT_FALSE(f.stop.skip_special_tokens);
  EXPECT_TRUE(f.stop.ignore_eos);
  EXPECT_EQ(f.stop.min_tokens, 2);
  EXPECT_EQ(f.max_tokens, 9);
  EXPECT_EQ(f.n, 3);
  EXPECT_TRUE(f.stream && f.include_usage && f.continuous_usage && f.return_token_ids);
  EXPECT_EQ(f.add_special_tokens, false);
  EXPECT_EQ(chat.prompt.template_arguments.at("enable_thinking").as_bool(), false);
}

TEST(ReadChat, NullsAndUnknownFieldsMeanNothing) {
  const auto read = Chat(
      R"("temperature":null,"stop":null,"n":null,"max_tokens":null,"tools":null,"logprobs":null,)"
      R"("stream_options":null,"response_format":null,"wonder":[{"a":1}],"top_k":-1)");
  ASSERT_TRUE(std::holds_alternative<ChatFields>(read)) << std::get<ApiError>(read).message;
  const CommonFields& f = std::get<ChatFields>(read).common;
  EXPECT_EQ(f.sampling.temperature, 1.0f);
  EXPECT_EQ(f.sampling.top_k, 0);
  EXPECT_FALSE(f.max_tokens.has_value());
}

TEST(ReadChat, PartsAreJoinedAndRolesMapped) {
  const auto read = ReadChat(std::get<0>(Body(R"({"messages":[{"role":"developer","content":"s"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
          "function":{"name":"f","arguments":"{\"x\":1}"}}]},
        {"role":"tool","content":"r","tool_call_id":"1"},
        {"role":"assistant","content":"x","reasoning":"why","refusal":null}]})")),
                             kCaps);
  ASSERT_TRUE(std::holds_alternative<ChatFields>(read)) << std::get<ApiError>(read).message;
  const auto& messages = std::get<ChatFields>(read).prompt.messages;
  EXPECT_EQ(messages[0].at("role"), "system");
  EXPECT_EQ(messages[1].at("content"), "ab");
  EXPECT_EQ(messages[2].at("content"), "");
  EXPECT_EQ(messages[2].at("tool_calls").at(0).at("function").at("arguments").at("x"), 1);
  EXPECT_EQ(messages[3].at("tool_call_id"), "1");
  EXPECT_EQ(messages[4].at("reasoning_content"), "why");
}

TEST(ReadCompletion, TakesEveryFormOfPrompt) {
  const auto prompts = [](const std::string& json) {
    const auto read = Completion("\"prompt\":" + json);
    EXPECT_TRUE(std::holds_alternative<CompletionFields>(read)) << json;
    return std::get<CompletionFields>(read).prompts;
  };
  EXPECT_EQ(std::get<std::string>(prompts("\"a\"").at(0)), "a");
  EXPECT_EQ(prompts(R"(["a","b"])").size(), 2u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(prompts("[1,2,3]").at(0)).size(), 3u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(prompts("[[1],[2,3]]").at(1)).size(), 2u);
}

TEST(ReadCompletion, Refusals) {
  std::string many = "\"prompt\":[\"x\"";
  for (int i = 0; i < 200; ++i) many += ",\"x\"";
  std::string pairs = "\"n\":8,\"prompt\":[\"x\"";
  for (int i = 0; i < 99; ++i) pairs += ",\"x\"";
  const std::vector<Refusal> cases = {
      {"\"x\":1", "prompt", "missing"},
      {R"("prompt":[])", "prompt", "empty"},
      {R"("prompt":{})", "prompt", "a string"},
      {R"("prompt":[true])", "prompt[0]", "a string or a list"},
      {R"("prompt":[1,"a"])", "prompt[1]", "token id"},
      {R"("prompt":[2147483648])", "prompt[0]", "2147483648"},
      {R"("prompt":[[1.5]])", "prompt[0][0]", "1.5"},
      {R"("prompt":"a","suffix":"b")", "suffix", "not support"},
      {R"("prompt":"a","logprobs":0)", "logprobs", "not support"},
      {R"("prompt":"a","echo":"yes")", "echo", "true or false"},
      {R"("prompt":"a","max_tokens":0)", "max_tokens", "0 is not in [1"},
  };
  for (const Refusal& c : cases) {
    const auto read = Completion(c.fields);
    ASSERT_TRUE(std::holds_alternative<ApiError>(read)) << c.fields;
    EXPECT_EQ(std::get<ApiError>(read).param, c.param) << c.fields;
    EXPECT_NE(std::get<ApiError>(read).message.find(c.message), std::string::npos)
        << std::get<ApiError>(read).message;
  }
  EXPECT_EQ(std::get<ApiError>(Completion(many + "]")).message, "prompt: 201 prompts, at most 128");
  EXPECT_EQ(std::get<ApiError>(Completion(pairs + "]")).message,
            "n: 800 answers for all prompts together, at most 256");
}

TEST(ApiErrors, OneMapOfStatuses) {
  EXPECT_EQ(FromStatus(engine::InvalidArgument("top_p: 0 is not in (0, 1]"), 0).param, "top_p");
  EXPECT_EQ(FromStatus(engine::InvalidArgument("Odd text: here"), 0).param, "");
  const ApiError full = FromStatus(engine::ResourceExhausted("too many"), 7);
  EXPECT_EQ(full.status, 429);
  const HttpResponse response = ErrorResponse(full);
  EXPECT_EQ(response.headers.at(0).second, "7");
  EXPECT_EQ(FromStatus(engine::Unavailable("draining"), 1).status, 503);
  EXPECT_EQ(FromStatus(engine::Internal("x"), 0).status, 500);
}

TEST(ApiErrors, ClipNeverCutsACharacter) {
  for (size_t n = 0; n < 12; ++n) {
    const std::string clipped = Clip("añ日🦙xyz", n);
    boost::system::error_code error;
    boost::json::object object;
    object["x"] = clipped;
    EXPECT_TRUE(
        std::holds_alternative<boost::json::object>(ParseBody("{\"x\":\"" + clipped + "\"}")))
        << n;
  }
}

}  // namespace
}  // namespace sluice::server::openai
