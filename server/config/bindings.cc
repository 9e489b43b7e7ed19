#include "server/config/bindings.h"

#include <chrono>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "sluice/v1/config.pb.h"

namespace sluice::server::config {
namespace {

using Options = ServeOptions;

// `at` names the field: ServeOptions& to T&.
template <class At>
Binding Field(std::string path, At at) {
  using T = std::remove_reference_t<decltype(at(std::declval<Options&>()))>;
  Binding binding;
  binding.path = std::move(path);
  if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    binding.set = [at](const Value& value, Options* o) {
      at(*o) = std::chrono::milliseconds(std::get<int64_t>(value));
    };
    binding.get = [at](Options o) { return Value(int64_t{at(o).count()}); };
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    binding.set = [at](const Value& value, Options* o) {
      at(*o) = static_cast<T>(std::get<int64_t>(value));
    };
    binding.get = [at](Options o) { return Value(static_cast<int64_t>(at(o))); };
  } else {
    binding.set = [at](const Value& value, Options* o) { at(*o) = std::get<T>(value); };
    binding.get = [at](Options o) { return Value(at(o)); };
  }
  return binding;
}

// A field of an enumeration: its words are those that the setting allows.
template <class At, class T>
Binding Choice(std::string path, At at, std::vector<std::pair<std::string, T>> words) {
  Binding binding;
  binding.path = path;
  binding.set = [path, at, words](const Value& value, Options* o) {
    for (const auto& [word, choice] : words) {
      if (word == std::get<std::string>(value)) {
        at(*o) = choice;
        return;
      }
    }
    ENGINE_CHECK(false) << path << " = " << std::get<std::string>(value);
  };
  binding.get = [at, words](Options o) {
    for (const auto& [word, choice] : words) {
      if (at(o) == choice) return Value(word);
    }
    return Value(std::string());
  };
  return binding;
}

// The lambda of a field of ServeOptions `o`.
#define SLUICE_AT(field) \
  [](Options & o) -> auto& { return o.field; }

std::vector<Binding> ModelBindings() {
  using engine::ActivationChoice;
  using engine::BackendChoice;
  using engine::KvDType;
  return {
      Field("model.path", SLUICE_AT(model.path)),
      Field("model.name", SLUICE_AT(model.name)),
      Field("model.context_tokens", SLUICE_AT(model.context_tokens)),
      Choice<>("model.activations", SLUICE_AT(model.activations),
               std::vector<std::pair<std::string, ActivationChoice>>{
                   {"int8", ActivationChoice::kInt8}, {"f32", ActivationChoice::kF32}}),
      Choice<>("model.kv_dtype", SLUICE_AT(model.kv_dtype),
               std::vector<std::pair<std::string, KvDType>>{{"f16", KvDType::kF16},
                                                            {"f32", KvDType::kF32}}),
      Choice<>("engine.backend", SLUICE_AT(model.backend),
               std::vector<std::pair<std::string, BackendChoice>>{
                   {"auto", BackendChoice::kAuto},
                   {"cpu", BackendChoice::kCpu},
                   {"reference", BackendChoice::kReference}}),
      Field("engine.isa", SLUICE_AT(model.isa)),
      Field("engine.threads", SLUICE_AT(model.threads)),
      Field("engine.max_running", SLUICE_AT(model.engine.running_max)),
      Field("engine.step_tokens", SLUICE_AT(model.engine.step_tokens)),
      Field("engine.max_waiting", SLUICE_AT(model.engine.waiting_max)),
      Field("engine.block_tokens", SLUICE_AT(model.block_size)),
      Field("engine.kv_bytes", SLUICE_AT(model.kv_bytes)),
      Field("engine.memory_fraction", SLUICE_AT(model.memory_fraction)),
      Field("engine.share_prefixes", SLUICE_AT(model.engine.share_prefixes)),
      Field("engine.max_prefills", SLUICE_AT(model.engine.prefills_max)),
      Field("engine.inter_token_target", SLUICE_AT(model.engine.inter_token_target)),
      Field("engine.min_prefill_tokens", SLUICE_AT(model.engine.prefill_tokens_min)),
      Field("engine.first_token_target", SLUICE_AT(model.engine.first_token_target)),
      Field("engine.max_wait", SLUICE_AT(model.engine.wait_max)),
      Field("engine.steps_in_flight", SLUICE_AT(model.engine.steps_in_flight)),
      Field("engine.patience", SLUICE_AT(model.engine.patience)),
      Field("engine.step_timeout", SLUICE_AT(model.engine.step_timeout)),
      Field("engine.flight_record_bytes", SLUICE_AT(model.engine.record_bytes)),
      Field("engine.flight_record_path", SLUICE_AT(model.engine.record_path)),
      Field("engine.slow_step", SLUICE_AT(model.engine.slow_step)),
      Field("engine.tenants", SLUICE_AT(tenants)),
  };
}

std::vector<Binding> HttpBindings() {
  return {
      Field("http.host", SLUICE_AT(front.http.host)),
      Field("http.port", SLUICE_AT(front.http.port)),
      Field("http.io_threads", SLUICE_AT(front.http.io_threads)),
      Field("http.max_connections", SLUICE_AT(front.http.limits.connections)),
      Field("http.max_connections_per_peer", SLUICE_AT(front.http.limits.peer_connections)),
      Field("http.max_header_bytes", SLUICE_AT(front.http.limits.header_bytes)),
      Field("http.max_body_bytes", SLUICE_AT(front.http.limits.body_bytes)),
      Field("http.max_backlog_bytes", SLUICE_AT(front.http.limits.backlog_bytes)),
      Field("http.early_bytes", SLUICE_AT(front.http.limits.early_bytes)),
      Field("http.linger_bytes", SLUICE_AT(front.http.limits.linger_bytes)),
      Field("http.send_buffer_bytes", SLUICE_AT(front.http.limits.send_buffer_bytes)),
      Field("http.header_timeout", SLUICE_AT(front.http.limits.header_timeout)),
      Field("http.body_timeout", SLUICE_AT(front.http.limits.body_timeout)),
      Field("http.idle_timeout", SLUICE_AT(front.http.limits.idle_timeout)),
      Field("http.stall_timeout", SLUICE_AT(front.http.limits.stall_timeout)),
      Field("http.linger_timeout", SLUICE_AT(front.http.limits.linger_timeout)),
      Field("http.max_header_lines", SLUICE_AT(front.http.limits.header_count)),
      Field("http.bodies_bytes", SLUICE_AT(front.http.limits.bodies_bytes)),
      Field("http.answers_bytes", SLUICE_AT(front.http.limits.answers_bytes)),
      Field("http.free_bytes", SLUICE_AT(front.http.limits.free_bytes)),
      Field("http.cors_origins", SLUICE_AT(front.http.cors_origins)),
      Field("http.admin_key_file", SLUICE_AT(front.admin_key_file)),
  };
}

std::vector<Binding> GrpcBindings() {
  return {
      Field("grpc.host", SLUICE_AT(front.grpc.host)),
      Field("grpc.port", SLUICE_AT(front.grpc.port)),
      Field("grpc.max_message_bytes", SLUICE_AT(front.grpc.message_bytes_max)),
      Field("grpc.max_metadata_bytes", SLUICE_AT(front.grpc.metadata_bytes_max)),
      Field("grpc.max_streams", SLUICE_AT(front.grpc.streams_max)),
      Field("grpc.max_backlog_bytes", SLUICE_AT(front.grpc.backlog_bytes)),
      Field("grpc.handshake_timeout", SLUICE_AT(front.grpc.handshake_timeout)),
      Field("grpc.keepalive_time", SLUICE_AT(front.grpc.keepalive_time)),
      Field("grpc.keepalive_timeout", SLUICE_AT(front.grpc.keepalive_timeout)),
      Field("grpc.min_client_ping_interval", SLUICE_AT(front.grpc.client_ping_interval_min)),
      Field("grpc.max_connection_age", SLUICE_AT(front.grpc.connection_age_max)),
      Field("grpc.connection_age_grace", SLUICE_AT(front.grpc.connection_age_grace)),
  };
}

std::vector<Binding> RequestBindings() {
  return {
      Field("requests.frontend_threads", SLUICE_AT(front.frontend_threads)),
      Field("requests.frontend_queue", SLUICE_AT(front.frontend_queue)),
      Field("requests.max_answers", SLUICE_AT(front.caps.answers_max)),
      Field("requests.max_prompts", SLUICE_AT(front.caps.prompts_max)),
      Field("requests.max_request_answers", SLUICE_AT(front.caps.request_answers_max)),
      Field("requests.max_stop_strings", SLUICE_AT(front.caps.stop_max)),
      Field("requests.max_stop_tokens", SLUICE_AT(front.caps.stop_token_max)),
      Field("requests.max_logit_bias", SLUICE_AT(front.caps.logit_bias_max)),
      Field("requests.max_messages", SLUICE_AT(front.caps.messages_max)),
      Field("requests.max_template_values", SLUICE_AT(front.caps.template_values_max)),
      Field("requests.max_json_depth", SLUICE_AT(front.caps.json.depth)),
      Field("requests.max_json_bytes", SLUICE_AT(front.caps.json.memory)),
      Field("requests.priorities", SLUICE_AT(front.caps.priorities)),
      Field("requests.tenant_header", SLUICE_AT(front.caps.tenant_header)),
      Field("requests.max_in_flight", SLUICE_AT(front.in_flight.requests)),
      Field("requests.max_prompt_tokens_in_flight", SLUICE_AT(front.in_flight.prompt_tokens)),
  };
}

std::vector<Binding> LifeBindings() {
  using engine::LogLevel;
  return {
      Field("life.grace", SLUICE_AT(grace)),
      Field("life.lame_duck", SLUICE_AT(lame_duck)),
      Choice<>("log.level", SLUICE_AT(log_level),
               std::vector<std::pair<std::string, LogLevel>>{{"debug", LogLevel::kDebug},
                                                             {"info", LogLevel::kInfo},
                                                             {"warning", LogLevel::kWarning},
                                                             {"error", LogLevel::kError}}),
      Choice<>("log.format", SLUICE_AT(log_format),
               std::vector<std::pair<std::string, engine::LogFormat>>{
                   {"text", engine::LogFormat::kText}, {"json", engine::LogFormat::kJson}}),
      Field("log.repeats", SLUICE_AT(log_repeats)),
      Field("log.prompts", SLUICE_AT(log_prompts)),
      Field("metrics.vllm_names", SLUICE_AT(front.metrics.vllm_names)),
  };
}

#undef SLUICE_AT

std::vector<Binding> AllBindings() {
  std::vector<Binding> all;
  for (auto part :
       {ModelBindings(), HttpBindings(), GrpcBindings(), RequestBindings(), LifeBindings()}) {
    for (Binding& binding : part) all.push_back(std::move(binding));
  }
  return all;
}

}  // namespace

const std::vector<Binding>& Bindings() {
  static const std::vector<Binding> all = AllBindings();
  return all;
}

const Schema& ServeSchema() {
  static const Schema schema = [] {
    auto made = Schema::Of(v1::Config::descriptor());
    ENGINE_CHECK(made.ok()) << "config.proto: " << engine::Message(made.status());
    return *std::move(made);
  }();
  return schema;
}

}  // namespace sluice::server::config
