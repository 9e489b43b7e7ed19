#include "server/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <utility>

namespace sluice::server {
namespace {

namespace http = boost::beast::http;

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

unsigned char Byte(char c) { return static_cast<unsigned char>(c); }

// The shortest end of a chunked body.
constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

// "http://host/path?x" (RFC 9112, 3.2.2) to "/path?x"; other forms stay as they are.
std::string_view OriginForm(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find('/', scheme.size());
    return slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  return target;
}

}  // namespace

struct RequestParser::Impl {
  http::request_parser<http::string_body> parser;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : limits_(limits), impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

bool RequestParser::header_done() const { return head_taken_; }
bool RequestParser::done() const { return !failed() && head_taken_ && impl_->parser.is_done(); }

size_t RequestParser::body_bytes() const { return impl_->parser.get().body().size(); }

void RequestParser::Fail(int status, std::string message) {
  error_status_ = status;
  error_message_ = std::move(message);
}

size_t RequestParser::Put(std::string_view bytes) {
  size_t used = 0;
  // Beast, having seen the first three bytes of an only chunk, asserts that next it gets all five.
  if (in_chunks_ && bytes.size() < kLastChunk.size() && bytes.starts_with('0') &&
      bytes.find("\r\n") != std::string_view::npos) {
    return 0;
  }
  // Beast takes the body only when asked to be eager; until the headers were seen it is not, so
  // that a refusal can come before the body does.
  while (!failed() && !impl_->parser.is_done() && used < bytes.size()) {
    boost::system::error_code error;
    const size_t n = impl_->parser.put(
        boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += n;
    if (!head_taken_) header_bytes_ += n;
    if (error == http::error::need_more) {
      in_chunks_ = head_taken_ && impl_->parser.chunked();
      if (in_chunks_) CheckChunkLine(bytes.substr(used));
      break;
    }
    if (error == http::error::body_limit) {
      Fail(413,
           "the body is larger than the limit of " + std::to_string(limits_.body_bytes) + " bytes");
    } else if (error == http::error::header_limit) {
      Fail(431, "the headers are larger than the limit of " + std::to_string(limits_.header_bytes) +
                    " bytes");
    } else if (error == http::error::bad_version) {
      Fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    } else if (error) {
      Fail(400, "malformed HTTP: " + error.message());
    }
    if (!failed() && !head_taken_ && impl_->parser.is_header_done()) {
      OnHeader();
      impl_->parser.eager(true);
      break;
    }
    if (n == 0) break;
  }
  return used;
}

// Beast sets no limit to a chunk's extensions and to trailers, and waits on after the end of a
// chunk's line that breaks off in a quoted extension.
void RequestParser::CheckChunkLine(std::string_view rest) {
  if (rest.size() > limits_.header_bytes) {
    return Fail(431, "a chunk's extensions or the trailers are larger than the limit of " +
                         std::to_string(limits_.header_bytes) + " bytes");
  }
  if (rest.starts_with("\r\n")) rest.remove_prefix(2);
  const std::string_view line = rest.substr(0, rest.find("\r\n"));
  const size_t digit = line.find_first_not_of('0');
  const bool last = digit == std::string_view::npos || !std::isxdigit(Byte(line[digit]));
  if (line.size() < rest.size() && !last) Fail(400, "malformed HTTP: bad chunk extension");
}

// Whatever two parsers could read in two ways.
void RequestParser::CheckFraming() {
  const auto count = [this](std::string_view name) {
    return std::count_if(head_.headers.begin(), head_.headers.end(),
                         [name](const auto& header) { return header.first == name; });
  };
  const auto codings = count("transfer-encoding"), lengths = count("content-length"),
             hosts = count("host");
  if (codings > 1 || (codings == 1 && (Lower(head_.Header("transfer-encoding")) != "chunked" ||
                                       !impl_->parser.chunked()))) {
    return Fail(501, "Transfer-Encoding: only chunked is understood");
  }
  const std::string_view length_text = head_.Header("content-length");
  if (lengths > 1 || length_text.find_first_not_of("0123456789") != std::string_view::npos) {
    return Fail(400, "Content-Length must be one number");
  }
  if (codings > 0 && lengths > 0) {
    return Fail(400, "Transfer-Encoding and Content-Length may not come together");
  }
  if (codings > 0 && !head_.http11) {
    return Fail(400, "Transfer-Encoding does not belong to HTTP/1.0");
  }
  if (hosts > 1 || (head_.http11 && hosts == 0)) {
    return Fail(400, "an HTTP/1.1 request has exactly one Host header");
  }
}

void RequestParser::OnHeader() {
  head_taken_ = true;
  const auto& message = impl_->parser.get();
  head_.method = std::string(View(message.method_string()));
  const std::string_view target = OriginForm(View(message.target()));
  const size_t mark = target.find('?');
  head_.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) head_.query = std::string(target.substr(mark + 1));
  head_.http11 = message.version() >= 11;
  head_.keep_alive = impl_->parser.keep_alive();
  for (const auto& field : message) {
    head_.headers.emplace_back(Lower(View(field.name_string())), std::string(View(field.value())));
  }
  // Beast's limit is a little wider when the request line comes before the rest.
  if (header_bytes_ > limits_.header_bytes) {
    return Fail(431, "the headers are larger than the limit of " +
                         std::to_string(limits_.header_bytes) + " bytes");
  }
  if (head_.headers.size() > static_cast<size_t>(limits_.header_count)) {
    return Fail(431, std::to_string(head_.headers.size()) + " headers, at most " +
                         std::to_string(limits_.header_count));
  }
  CheckFraming();
  if (failed()) return;
  for (const auto& [name, value] : head_.headers) {
    if (name != "content-encoding" || value.empty() || Lower(value) == "identity") continue;
    return Fail(415, "Content-Encoding: " + value + " is not understood; send the body plain");
  }
  const std::string expect = Lower(head_.Header("expect"));
  if (!expect.empty() && expect != "100-continue") {
    return Fail(417, "Expect: only 100-continue is understood");
  }
  if (const auto length = impl_->parser.content_length(); length && *length > limits_.body_bytes) {
    Fail(413, "the body of " + std::to_string(*length) + " bytes is larger than the limit of " +
                  std::to_string(limits_.body_bytes));
  }
}

bool RequestParser::expects_continue() const {
  return head_taken_ && head_.http11 && !head_.Header("expect").empty() && !impl_->parser.is_done();
}

HttpRequest RequestParser::Release() {
  head_.body = std::move(impl_->parser.get().body());
  return std::move(head_);
}

}  // namespace sluice::server
