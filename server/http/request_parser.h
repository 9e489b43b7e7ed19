#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/limits.h"
#include "server/http/message.h"

namespace sluice::server {

// Bytes in, one HTTP/1.x request out; knows no socket. Strict where leniency lets two parsers
// disagree on where a request ends (RFC 9112, 6.3): a message with both Transfer-Encoding and
// Content-Length, or with a transfer coding other than "chunked", is refused.
class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes in what it can of `bytes` and says how many that were. Stops after the headers, so that
  // the caller may look at them, and at the request's end.
  size_t Put(std::string_view bytes);

  bool header_done() const;
  bool done() const;
  // Once true, the connection can't be used for another request.
  bool failed() const { return error_status_ != 0; }
  int error_status() const { return error_status_; }
  const std::string& error_message() const { return error_message_; }

  // Of the body, so far.
  size_t body_bytes() const;

  // The request without its body, once header_done().
  const HttpRequest& head() const { return head_; }
  bool expects_continue() const;
  // Once done(). The parser is spent afterwards.
  HttpRequest Release();

 private:
  struct Impl;
  void Fail(int status, std::string message);
  void OnHeader();
  void CheckFraming();
  void CheckChunkLine(std::string_view rest);

  const HttpLimits limits_;
  std::unique_ptr<Impl> impl_;
  HttpRequest head_;
  bool head_taken_ = false;
  size_t header_bytes_ = 0;  // taken so far of request line and headers
  bool in_chunks_ = false;   // more of a chunked body is awaited
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace sluice::server
