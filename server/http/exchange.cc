#include "server/http/exchange.h"

#include <cstdio>
#include <ctime>
#include <utility>

namespace sluice::server {
namespace {

// RFC 9110, 5.6.7.
std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, n);
}

void AppendChunk(std::string& out, std::string_view body) {
  char size[20];
  const int n = std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  out.append(size, static_cast<size_t>(n)).append(body).append("\r\n");
}

}  // namespace

Exchange::Exchange(HttpRequest request, size_t backlog_bytes, std::function<void()> wake,
                   std::shared_ptr<ByteBudget> answers)
    : request_(std::move(request)),
      head_only_(request_.method == "HEAD"),
      chunked_(request_.http11),
      backlog_bytes_(backlog_bytes),
      wake_(std::move(wake)),
      answers_(std::move(answers)) {}

std::string Exchange::Head(int status, std::string_view content_type) const {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head += ReasonPhrase(status);
  head += "\r\nDate: " + HttpDate() + "\r\n";
  if (status != 204) head.append("Content-Type: ").append(content_type).append("\r\n");
  head += "X-Request-Id: " + request_.id + "\r\n" + request_.answer_headers;
  return head;
}

void Exchange::Wake(std::unique_lock<std::mutex>& lock) {
  const bool wake = !woken_;
  woken_ = true;
  lock.unlock();
  if (wake) wake_();
}

void Exchange::Reply(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (ended_ || abandoned_ || streaming_) return;
  if (answers_ != nullptr && response.body.size() > answers_->free_bytes()) {
    answer_hold_ = std::make_unique<ByteHold>(answers_);
    if (!answer_hold_->GrowTo(response.body.size())) {
      response = HttpError(503,
                           "an answer of " + std::to_string(response.body.size()) +
                               " bytes does not fit beside those that wait for their clients: " +
                               std::to_string(answers_->used()) + " bytes, at most " +
                               std::to_string(answers_->bytes_max()) + " may",
                           "answers_full");
      response.headers.emplace_back("Retry-After", "1");
    }
  }
  Render(response);
  ended_ = true;
  gone_ = nullptr;
  Wake(lock);
}

void Exchange::Render(const HttpResponse& response) {
  status_ = response.status;
  code_ = response.code;
  raw_ += Head(response.status, response.content_type);
  for (const auto& [name, value] : response.headers) raw_ += name + ": " + value + "\r\n";
  if (response.status != 204) {
    raw_ += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  }
  // To a client of HTTP/1.0 keeping the connection must be said, to one of 1.1 closing it.
  if (!request_.keep_alive) {
    raw_ += "Connection: close\r\n";
  } else if (!request_.http11) {
    raw_ += "Connection: keep-alive\r\n";
  }
  raw_ += "\r\n";
  if (!head_only_) raw_ += response.body;
}

void Exchange::StartEvents() {
  std::unique_lock lock(mutex_);
  if (ended_ || abandoned_ || streaming_) return;
  streaming_ = true;
  status_ = 200;
  raw_ += Head(200, "text/event-stream; charset=utf-8");
  // X-Accel-Buffering: reverse proxies pass the events on as they come.
  raw_ += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (chunked_) raw_ += "Transfer-Encoding: chunked\r\n";
  if (!request_.keep_alive || !chunked_) raw_ += "Connection: close\r\n";
  raw_ += "\r\n";
  Wake(lock);
}

bool Exchange::Write(std::string_view events) {
  std::unique_lock lock(mutex_);
  if (ended_ || abandoned_) return false;
  std::function<void()> gone;
  if (events_.size() + events.size() > backlog_bytes_) {
    abandoned_ = true;
    // The connection may have used up an earlier wake-up while it waited for its socket.
    woken_ = false;
    gone = std::exchange(gone_, nullptr);
  } else {
    events_ += events;
  }
  const bool kept = !abandoned_;
  Wake(lock);
  if (gone) gone();
  return kept;
}

void Exchange::Finish() {
  std::unique_lock lock(mutex_);
  if (ended_ || abandoned_) return;
  ended_ = true;
  gone_ = nullptr;
  Wake(lock);
}

void Exchange::OnGone(std::function<void()> gone) {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  if (!abandoned_) {
    gone_ = std::move(gone);
    return;
  }
  lock.unlock();
  gone();
}

bool Exchange::gone() const {
  std::lock_guard lock(mutex_);
  return abandoned_;
}

std::string Exchange::code() const {
  std::lock_guard lock(mutex_);
  return code_;
}

int Exchange::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

Exchange::Outgoing Exchange::Take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  Outgoing out;
  out.abandoned = abandoned_;
  if (abandoned_) return out;
  out.bytes = std::exchange(raw_, {});
  if (!events_.empty()) {
    if (chunked_) {
      AppendChunk(out.bytes, events_);
    } else {
      out.bytes += events_;
    }
    events_.clear();
  }
  out.complete = ended_;
  if (ended_ && streaming_ && chunked_) out.bytes += "0\r\n\r\n";
  return out;
}

void Exchange::Abandon() {
  std::unique_lock lock(mutex_);
  if (abandoned_) return;
  abandoned_ = true;
  raw_.clear();
  events_.clear();
  const std::function<void()> gone = ended_ ? nullptr : std::exchange(gone_, nullptr);
  lock.unlock();
  if (gone) gone();
}

bool Exchange::KeepAlive() const { return request_.keep_alive && (chunked_ || !streaming_); }

}  // namespace sluice::server
