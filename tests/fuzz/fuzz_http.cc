// The bytes of one HTTP connection, with several requests one after another. Wherever the parts
// that arrive begin and end, the requests are the same, and no message with two meanings passes.
//
// Input: a seed for the parts, then the bytes.

#include <memory>

#include "server/http/limits.h"
#include "server/http/request_parser.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using server::HttpLimits;
using server::HttpRequest;
using server::RequestParser;

HttpLimits SmallLimits() {
  HttpLimits limits;
  limits.header_bytes = 2048;
  limits.body_bytes = 4096;
  return limits;
}

// What a connection made of its bytes, in a form that can be compared.
struct Outcome {
  std::string requests;
  int error_status = 0;
};

void CheckFraming(const HttpRequest& request) {
  int lengths = 0, codings = 0, hosts = 0;
  for (const auto& [name, value] : request.headers) {
    lengths += name == "content-length";
    codings += name == "transfer-encoding";
    hosts += name == "host";
    for (const char c : value) {
      Require(c != '\r' && c != '\n' && c != '\0', "header values have one line", value);
    }
    Require(name.find_first_of(" \t\r\n:") == std::string::npos, "names are tokens", name);
  }
  Require(lengths + codings <= 1, "one framing");
  Require(hosts == 1 || (!request.http11 && hosts == 0), "one host");
  Require(request.body.size() <= SmallLimits().body_bytes, "the body keeps its limit");
  Require(lengths + codings > 0 || request.body.empty(), "no body without framing");
}

void Note(const HttpRequest& request, std::string* out) {
  *out += request.method + " " + request.path + "?" + request.query + "\n";
  for (const auto& [name, value] : request.headers) *out += name + "=" + value + "\n";
  *out += std::to_string(request.keep_alive) + std::to_string(request.http11) + "\n" +
          std::to_string(request.body.size()) + ":" + request.body + "\n";
}

// Feeds the bytes as a connection does: what a part leaves over comes again before the next one.
template <class Source>
Outcome Run(Source& source) {
  Outcome outcome;
  std::string pending;
  auto parser = std::make_unique<RequestParser>(SmallLimits());
  while (!source.done()) {
    pending += source.Next();
    for (size_t used = 1; used > 0 && !pending.empty() && !parser->failed();) {
      const bool had_header = parser->header_done();
      used = parser->Put(pending);
      Require(used <= pending.size(), "no more is taken than there is");
      pending.erase(0, used);
      if (!had_header && parser->header_done() && used == 0) used = 1;
      if (!parser->done()) continue;
      const HttpRequest request = parser->Release();
      CheckFraming(request);
      Note(request, &outcome.requests);
      if (!request.keep_alive) return outcome;
      parser = std::make_unique<RequestParser>(SmallLimits());
      used = 1;
    }
    if (parser->failed()) {
      Require(!parser->error_message().empty(), "errors say what is wrong");
      outcome.error_status = parser->error_status();
      return outcome;
    }
  }
  return outcome;
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::testing;
  FuzzInput input(data, size);
  const uint8_t seed = input.Byte();
  // Ends of lines at the end: what is malformed is seen at once, or when its end or some more
  // comes.
  const std::string bytes = std::string(input.Rest()) + "\r\n\r\n\r\n\r\n";
  Parts single(bytes, 0, 1);
  Parts parts(bytes, seed, 1 + seed % 64u);
  const Outcome one = Run(single);
  const Outcome two = Run(parts);
  Require(one.requests == two.requests, "requests do not depend on how they arrive",
          one.requests + "\nagainst\n" + two.requests);
  // Which of several faults is seen first may differ.
  Require((one.error_status == 0) == (two.error_status == 0),
          "errors do not depend on how they arrive",
          std::to_string(one.error_status) + " against " + std::to_string(two.error_status));
  return 0;
}
