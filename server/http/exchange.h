#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace sluice::server {

// One request and the way to answer it: a mailbox between whoever makes the answer (a handler, the
// frontend pool, the engine's output thread) and the connection that writes it. Answering methods
// may be called from any thread and never wait. What piles up while a write is under way leaves in
// the next write, as one HTTP chunk.
class Exchange {
 public:
  // `backlog_bytes`: most bytes of a stream that may wait. `wake`: called, on any thread, when
  // there is something new for the connection to take. `answers`: what large answers in one piece
  // are counted against until the exchange ends; null: not counted.
  Exchange(HttpRequest request, size_t backlog_bytes, std::function<void()> wake,
           std::shared_ptr<ByteBudget> answers = nullptr);

  const HttpRequest& request() const { return request_; }
  // The body, which need not be kept for as long as its answer takes. For the handler.
  HeldBody TakeBody() { return {std::move(request_.body), std::move(request_.body_hold)}; }

  // Answers in one piece, once. With 503 instead when the answers that wait for their clients take
  // up all that they may.
  void Reply(HttpResponse response);

  // Answers with server-sent events: the head now, then Write, then Finish.
  void StartEvents();
  // Whole events, each ending in a blank line. False: the client is gone or has fallen behind by
  // more than the backlog; nothing more will be sent.
  bool Write(std::string_view events);
  void Finish();

  // `gone` is called once, on any thread, if the client leaves or is given up before the answer is
  // complete; at once if that has happened already.
  void OnGone(std::function<void()> gone);
  bool gone() const;
  int status() const;        // 0: none sent yet
  std::string code() const;  // HttpResponse::code of the answer

  // For the connection. What is to be written next: `bytes` may be empty.
  struct Outgoing {
    std::string bytes;
    bool complete = false;   // nothing follows
    bool abandoned = false;  // fell behind: close without the rest
  };
  Outgoing Take();
  // The client left, or the server gives it up. Ends the exchange.
  void Abandon();
  bool KeepAlive() const;

 private:
  std::string Head(int status, std::string_view content_type) const;
  void Render(const HttpResponse& response);
  void Wake(std::unique_lock<std::mutex>& lock);

  HttpRequest request_;
  const bool head_only_;  // HEAD
  const bool chunked_;    // HTTP/1.1; a 1.0 client's stream ends with the connection
  const size_t backlog_bytes_;
  const std::function<void()> wake_;
  const std::shared_ptr<ByteBudget> answers_;

  mutable std::mutex mutex_;
  std::string raw_;  // framed bytes
  std::unique_ptr<ByteHold> answer_hold_;
  std::string events_;  // not yet framed
  int status_ = 0;
  std::string code_;
  bool streaming_ = false;
  bool ended_ = false;      // by the answering side
  bool abandoned_ = false;  // by the connection, or by falling behind
  bool woken_ = false;
  std::function<void()> gone_;
};

}  // namespace sluice::server
