#include "server/lifecycle/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "server/lifecycle/events.h"
#include "server/lifecycle/progress_display.h"

namespace sluice::server {
namespace {

// For answers that are complete to reach their clients, once nothing runs any more.
constexpr std::chrono::milliseconds kFlushTime{2'000};

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  return set;
}

std::string Mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

double Seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

// The whole life of one daemon, on the main thread but for loading and signals.
class Daemon {
 public:
  explicit Daemon(ServeOptions options) : options_(std::move(options)) {}
  int Run();

 private:
  absl::Status Open();
  void WatchSignals();
  void Load();
  void OnLoaded();
  int End(const LifeEvent& cause);
  // From a signal to the last answer. What it returns is a failure that came in between.
  std::optional<LifeEvent> Leave(int signal);
  std::optional<LifeEvent> FailureWithin(std::chrono::milliseconds time);
  void WriteFlightRecord();
  // The process ends here and now: loading can't be interrupted.
  [[noreturn]] void LeaveWhileLoading(int code);

  const ServeOptions options_;
  LifeEvents events_;
  Readiness readiness_;
  ModelRegistry registry_;
  std::shared_ptr<ServedModel> served_;
  std::unique_ptr<engine::LoadableModel> model_;
  // Destroyed in reverse: the front, which calls the engine, before it. Metrics, which the engine
  // calls, are the front's: the engine is ended by hand before the front is destroyed.
  std::unique_ptr<Front> front_;
  std::unique_ptr<engine::Engine> engine_;
  std::thread loader_;
};

absl::Status Daemon::Open() {
  SLUICE_ASSIGN_OR_RETURN(model_, engine::LoadableModel::Open(options_.model));
  SLUICE_LOG(kInfo) << "model " << model_->name() << ": " << model_->Describe();
  SLUICE_LOG(kInfo) << "backend: " << model_->DescribeBackend();
  const engine::MemoryPlan& memory = model_->memory();
  SLUICE_LOG(kInfo) << "memory: weights " << Mebibytes(memory.weights_bytes) << ", KV "
                    << Mebibytes(memory.kv_bytes) << " (" << memory.kv_blocks << " blocks, "
                    << memory.kv_tokens << " tokens), buffers " << Mebibytes(memory.buffers_bytes)
                    << "; limit " << Mebibytes(memory.limit_bytes);
  ServedModel::Facts facts;
  facts.name = model_->name();
  facts.created = std::time(nullptr);
  facts.context_tokens = model_->context_tokens();
  facts.waiting_max = options_.model.engine.waiting_max;
  facts.tokenizer = model_->tokenizer();
  facts.chat_template = model_->chat_template();
  facts.bos_token = model_->bos_token();
  facts.eos_token = model_->eos_token();
  facts.cache_dtype = options_.model.kv_dtype == engine::KvDType::kF16 ? "f16" : "f32";
  served_ = std::make_shared<ServedModel>(std::move(facts));
  registry_.Add(served_);
  readiness_.Progress("weights", 0);
  front_ = std::make_unique<Front>(options_.front, &registry_, &readiness_);
  return front_->Listen();
}

void Daemon::WatchSignals() {
  std::thread([this] {
    const bool at_terminal = isatty(STDIN_FILENO) == 1 || isatty(STDERR_FILENO) == 1;
    const sigset_t set = WatchedSignals();
    for (bool ending = false;;) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0) continue;
      if (signal == SIGHUP && !at_terminal) {
        SLUICE_LOG(kInfo) << "SIGHUP: there is nothing to reload, going on";
        continue;
      }
      if (signal == SIGUSR1) {
        if (!ending) events_.Post({LifeEvent::Kind::kRecord, "", signal});
        continue;
      }
      // Asked twice: the destructors' order does not matter any more.
      if (ending) _exit(128 + signal);
      ending = true;
      events_.Post({LifeEvent::Kind::kSignal, "", signal});
    }
  }).detach();
}

void Daemon::Load() {
  loader_ = std::thread([this] {
    ProgressDisplay display;
    auto engine = model_->Load(
        [&](const engine::LoadProgress& progress) {
          readiness_.Progress(progress.stage, progress.fraction);
          display.Show(progress);
        },
        front_->metrics()->ObserverOf(served_->facts.name),
        [this](const absl::Status& status) {
          readiness_.Set(Readiness::State::kFailed);
          events_.Post({LifeEvent::Kind::kFatal, engine::Message(status), 0});
        });
    display.End();
    if (!engine.ok()) {
      events_.Post({LifeEvent::Kind::kLoadFailed, engine::Message(engine.status()), 0});
      return;
    }
    engine_ = std::move(*engine);
    events_.Post({LifeEvent::Kind::kLoaded, "", 0});
  });
}

void Daemon::OnLoaded() {
  loader_.join();
  served_->engine.store(engine_.get());
  readiness_.Set(Readiness::State::kReady);
  std::string host = options_.front.http.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  const std::string url = "http://" + host + ":" + std::to_string(front_->port());
  SLUICE_LOG(kInfo) << "ready: " << url;
  if (engine::CurrentLogFormat() == engine::LogFormat::kJson) return;
  std::fprintf(stderr,
               "\nTry it:\n  curl %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"
               "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of "
               "France?\"}], \"stream\": true}'\n\n",
               url.c_str());
}

void Daemon::LeaveWhileLoading(int code) {
  SLUICE_LOG(kInfo) << "ended while loading";
  engine::FlushLog();
  std::fflush(nullptr);
  _exit(code);
}

int Daemon::End(const LifeEvent& cause) {
  std::optional<LifeEvent> failure;
  if (cause.kind == LifeEvent::Kind::kSignal) {
    failure = Leave(cause.signal);
  } else {
    failure = cause;
  }
  if (failure) SLUICE_LOG(kError) << "the engine failed: " << failure->message;
  front_->Stop(kFlushTime);
  served_->engine.store(nullptr);
  engine_.reset();
  SLUICE_LOG(kInfo) << "ended";
  return failure ? 1 : 0;
}

std::optional<LifeEvent> Daemon::Leave(int signal) {
  if (signal == SIGTERM && options_.lame_duck.count() > 0) {
    readiness_.Set(Readiness::State::kLameDuck);
    SLUICE_LOG(kInfo) << "signal " << signal << ": not ready; requests are still taken for "
                      << Seconds(options_.lame_duck) << " s";
    // Only a failure can come: the second signal ends the process by itself.
    if (auto failure = FailureWithin(options_.lame_duck)) return failure;
  }
  readiness_.Set(Readiness::State::kDraining);
  SLUICE_LOG(kInfo) << "signal " << signal << ": finishing what runs, at most "
                    << Seconds(options_.grace) << " s";
  // The ports close now; connections last as long as their answers.
  front_->StartClosing(options_.grace + kFlushTime);
  const bool all = engine_->Drain(options_.grace);
  SLUICE_LOG(kInfo) << (all ? "all answers finished" : "time is over: answers were cut off");
  return FailureWithin(std::chrono::milliseconds(0));
}

std::optional<LifeEvent> Daemon::FailureWithin(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    auto event = events_.NextWithin(std::max(left, std::chrono::milliseconds(0)));
    if (!event || event->kind != LifeEvent::Kind::kRecord) return event;
  }
}

void Daemon::WriteFlightRecord() {
  const std::string& path = options_.model.engine.record_path;
  if (path.empty() || engine_ == nullptr) {
    SLUICE_LOG(kWarning) << "SIGUSR1: no flight record is written: "
                         << (path.empty() ? "engine.flight_record_path is not set" : "loading");
    return;
  }
  const absl::Status status = engine_->WriteFlightRecord(path);
  if (status.ok()) {
    SLUICE_LOG(kInfo) << "flight record written to " << path;
  } else {
    SLUICE_LOG(kError) << "flight record: " << engine::Message(status);
  }
}

int Daemon::Run() {
  if (const absl::Status status = Open(); !status.ok()) {
    SLUICE_LOG(kError) << engine::Message(status);
    return 1;
  }
  SLUICE_LOG(kInfo) << "listening on " << options_.front.http.host << ":" << front_->port()
                    << " (loading)";
  WatchSignals();
  Load();
  for (;;) {
    const LifeEvent event = events_.Next();
    switch (event.kind) {
      case LifeEvent::Kind::kLoaded:
        OnLoaded();
        break;
      case LifeEvent::Kind::kRecord:
        // The loader's thread has the engine until it is loaded.
        if (!loader_.joinable()) WriteFlightRecord();
        break;
      case LifeEvent::Kind::kLoadFailed:
        SLUICE_LOG(kError) << "loading failed: " << event.message;
        loader_.join();
        front_->Stop(std::chrono::milliseconds(0));
        return 1;
      case LifeEvent::Kind::kSignal:
      case LifeEvent::Kind::kFatal:
        if (loader_.joinable()) {
          LeaveWhileLoading(event.kind == LifeEvent::Kind::kFatal ? 1 : 0);
        }
        return End(event);
    }
  }
}

}  // namespace

void PrepareProcess() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

int RunDaemon(ServeOptions options) {
  engine::LogOptions log;
  log.level = options.log_level;
  log.format = options.log_format;
  log.repeats_max = options.log_repeats;
  log.prompts = options.log_prompts;
  engine::SetLogOptions(log);
  for (const std::string& warning : options.warnings) {
    SLUICE_LOG(kWarning) << "configuration: " << warning;
  }
  // Never destroyed: the thread that waits for a second signal may still hold on to it.
  static Daemon* const daemon = new Daemon(std::move(options));
  const int code = daemon->Run();
  engine::FlushLog();
  return code;
}

}  // namespace sluice::server
