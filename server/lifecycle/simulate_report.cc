#include "server/lifecycle/simulate_report.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstdio>

namespace sluice::server {
namespace {

namespace json = boost::json;
using engine::LatencyHistogram;
using engine::RunFigures;
using engine::SimulatedServer;

enum class Unit { kCount, kRate, kSeconds, kMilliseconds, kShare };

struct Figure {
  std::string name;  // for people
  std::string key;   // in JSON, where times are in seconds and shares of 1
  Unit unit;
  double value;
};

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void AddLatency(const std::string& name, const std::string& key, const LatencyHistogram& times,
                std::vector<Figure>* out) {
  out->push_back({name + " mean", key + "_mean", Unit::kMilliseconds, times.mean()});
  out->push_back({name + " P50", key + "_p50", Unit::kMilliseconds, times.Quantile(0.5)});
  out->push_back({name + " P90", key + "_p90", Unit::kMilliseconds, times.Quantile(0.9)});
  out->push_back({name + " P99", key + "_p99", Unit::kMilliseconds, times.Quantile(0.99)});
}

// The same ones in the same order for any run.
std::vector<Figure> FiguresOf(const RunFigures& f) {
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  std::vector<Figure> out = {
      {"requests", "requests", Unit::kCount, count(f.requests)},
      {"  finished", "finished", Unit::kCount, count(f.finished)},
      {"  refused", "refused", Unit::kCount, count(f.refused)},
      {"  cut short", "cut_short", Unit::kCount, count(f.cut)},
      {"duration", "duration", Unit::kSeconds, f.seconds},
      {"requests a second", "requests_per_second", Unit::kRate, f.PerSecond(f.finished)},
      {"prompt tokens a second", "prompt_tokens_per_second", Unit::kRate,
       f.PerSecond(f.prompt_tokens)},
      {"answer tokens a second", "output_tokens_per_second", Unit::kRate,
       f.PerSecond(f.output_tokens)},
  };
  AddLatency("TTFT", "ttft", f.first_token, &out);
  AddLatency("ITL", "itl", f.inter_token, &out);
  AddLatency("end to end", "e2e", f.end_to_end, &out);
  const std::vector<Figure> more = {
      {"goodput", "good_share", Unit::kShare, Share(f.good, f.requests)},
      {"good requests a second", "good_per_second", Unit::kRate, f.PerSecond(f.good)},
      {"KV use mean", "kv_use_mean", Unit::kShare, f.kv_mean},
      {"KV use peak", "kv_use_peak", Unit::kShare, f.kv_peak},
      {"prefix hit rate", "prefix_hit_rate", Unit::kShare,
       Share(f.prefix_hit_tokens, f.prefix_query_tokens)},
      {"preemptions", "preemptions", Unit::kCount, count(f.preemptions)},
      {"tokens computed again", "recomputed_tokens", Unit::kCount, count(f.recomputed_tokens)},
      {"running mean", "running_mean", Unit::kRate, f.running_mean},
      {"running peak", "running_peak", Unit::kCount, count(f.running_peak)},
      {"waiting mean", "waiting_mean", Unit::kRate, f.waiting_mean},
      {"waiting peak", "waiting_peak", Unit::kCount, count(f.waiting_peak)},
      {"steps", "steps", Unit::kCount, count(f.steps)},
      {"tokens a step", "tokens_per_step", Unit::kRate, Share(f.step_tokens, f.steps)},
      {"device busy", "device_busy", Unit::kShare, f.seconds > 0 ? f.step_seconds / f.seconds : 0},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

template <class... Values>
std::string Format(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string Shown(const Figure& figure) {
  switch (figure.unit) {
    case Unit::kCount:
      return Format("%.0f", figure.value);
    case Unit::kRate:
      return Format("%.2f", figure.value);
    case Unit::kSeconds:
      return Format("%.1f s", figure.value);
    case Unit::kMilliseconds:
      return Format("%.2f ms", figure.value * 1e3);
    case Unit::kShare:
      return Format("%.1f %%", figure.value * 100);
  }
  return "";
}

std::string Rows(const SimulationReport& report) {
  const std::vector<Figure> simulated = FiguresOf(report.simulated);
  std::string out;
  if (!report.recorded) {
    for (const Figure& figure : simulated)
      out += Format("%-26s %14s\n", figure.name.c_str(), Shown(figure).c_str());
    return out;
  }
  const std::vector<Figure> recorded = FiguresOf(*report.recorded);
  out += Format("%-26s %14s %14s %8s\n", "", "recorded", "simulated", "ratio");
  for (size_t i = 0; i < simulated.size(); ++i) {
    const double base = recorded[i].value;
    const std::string ratio = base > 0 ? Format("%.3f", simulated[i].value / base) : "";
    out += Format("%-26s %14s %14s %8s\n", simulated[i].name.c_str(), Shown(recorded[i]).c_str(),
                  Shown(simulated[i]).c_str(), ratio.c_str());
  }
  return out;
}

std::string ServerLines(const SimulationReport& report) {
  const SimulatedServer& server = report.server;
  const engine::ExecutorLimits& limits = server.limits;
  std::string out = Format(
      "server    %d answers at once, %d tokens a step, %d KV blocks of %d tokens, context %d, "
      "%d %s in flight\n",
      server.scheduler.running_max, server.scheduler.step_tokens, limits.kv_blocks,
      limits.block_size, engine::ContextTokens(limits), server.depth,
      server.depth == 1 ? "step" : "steps");
  const engine::StepCost& cost = server.time.cost();
  out += Format(
      "a step    %.1f us, and %.2f us a token, %.5f us a position attended, "
      "%.2f us an answer, %.5f us a position of its context",
      cost.step * 1e6, cost.token * 1e6, cost.position * 1e6, cost.sequence * 1e6,
      cost.context * 1e6);
  if (report.fitted_steps > 0)
    out += Format("; fitted to %zu steps, mean error %.1f %%", report.fitted_steps,
                  server.time.relative_error() * 100);
  out += Format("\nbetween   %.1f us to hand over a step, %.1f us to plan on, %.1f us to admit\n",
                server.overheads.handoff.mean() * 1e6, server.overheads.turnaround.mean() * 1e6,
                server.overheads.admission * 1e6);
  return out;
}

json::object JsonOf(const std::vector<Figure>& figures) {
  json::object out;
  for (const Figure& figure : figures) out[figure.key] = figure.value;
  return out;
}

json::object ServerJson(const SimulationReport& report) {
  const SimulatedServer& server = report.server;
  const engine::StepCost& cost = server.time.cost();
  json::object out;
  out["max_running"] = server.scheduler.running_max;
  out["step_tokens"] = server.scheduler.step_tokens;
  out["kv_blocks"] = server.limits.kv_blocks;
  out["block_size"] = server.limits.block_size;
  out["context_tokens"] = engine::ContextTokens(server.limits);
  out["steps_in_flight"] = server.depth;
  out["cost_us"] = {cost.step * 1e6, cost.token * 1e6, cost.position * 1e6, cost.sequence * 1e6,
                    cost.context * 1e6};
  out["fitted_steps"] = report.fitted_steps;
  out["fit_error"] = server.time.relative_error();
  out["handoff_us"] = server.overheads.handoff.mean() * 1e6;
  out["turnaround_us"] = server.overheads.turnaround.mean() * 1e6;
  out["admission_us"] = server.overheads.admission * 1e6;
  return out;
}

}  // namespace

std::string PrintTable(const SimulationReport& report) {
  std::string out = "load      " + report.load + "\n";
  for (const std::string& note : report.notes) out += "          " + note + "\n";
  out += ServerLines(report);
  out += Format("good      TTFT within %.0f ms and mean ITL within %.0f ms\n",
                report.options.targets.first_token * 1e3, report.options.targets.inter_token * 1e3);
  out += Format("took      %.2f s for %.1f s; seed %llu%s\n\n", report.wall_seconds,
                report.simulated.seconds, static_cast<unsigned long long>(report.options.seed),
                report.options.scatter ? "" : ", no scatter");
  return out + Rows(report);
}

std::string PrintJson(const SimulationReport& report) {
  json::object out;
  out["load"] = report.load;
  out["notes"] = json::array(report.notes.begin(), report.notes.end());
  out["server"] = ServerJson(report);
  out["seed"] = report.options.seed;
  out["scatter"] = report.options.scatter;
  const std::vector<Figure> simulated = FiguresOf(report.simulated);
  out["simulated"] = JsonOf(simulated);
  if (report.recorded) {
    std::vector<Figure> recorded = FiguresOf(*report.recorded);
    out["recorded"] = JsonOf(recorded);
    json::object ratios;
    for (size_t i = 0; i < recorded.size(); ++i) {
      if (recorded[i].value > 0) ratios[recorded[i].key] = simulated[i].value / recorded[i].value;
    }
    out["ratio"] = std::move(ratios);
  }
  return json::serialize(out) + "\n";
}

}  // namespace sluice::server
