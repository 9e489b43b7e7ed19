#include "engine/simulate/trace/trace.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/simulate/trace/line_reader.h"
#include "engine/simulate/trace/row_parser.h"

namespace sluice::engine {
namespace {

constexpr int64_t kRequestsMax = int64_t{1} << 23;
constexpr int64_t kBlocksMax = int64_t{1} << 26;  // of all prompts; half a gibibyte

// The first arrives at 0; none later than told.
void OrderByArrival(double seconds_max, std::vector<TraceRequest>* requests) {
  std::stable_sort(
      requests->begin(), requests->end(),
      [](const TraceRequest& a, const TraceRequest& b) { return a.seconds < b.seconds; });
  const double first = requests->empty() ? 0 : requests->front().seconds;
  for (TraceRequest& request : *requests) request.seconds -= first;
  std::erase_if(*requests, [&](const TraceRequest& r) { return r.seconds > seconds_max; });
}

}  // namespace

const char* NameOf(TraceFormat format) {
  switch (format) {
    case TraceFormat::kAuto:
      return "auto";
    case TraceFormat::kMooncake:
      return "mooncake";
    case TraceFormat::kAzure:
      return "azure";
    case TraceFormat::kBurstGpt:
      return "burstgpt";
  }
  return "";
}

absl::StatusOr<Trace> ReadTrace(std::istream* in, const std::string& name,
                                const TraceOptions& options) {
  LineReader lines(in, name);
  std::string_view line;
  SLUICE_ASSIGN_OR_RETURN(bool more, lines.Next(&line));
  if (!more) return InvalidArgument(name + ": empty");
  Trace trace;
  trace.format = options.format;
  if (trace.format == TraceFormat::kAuto) {
    const auto format = FormatOf(line);
    if (!format.ok()) return lines.Error(Message(format.status()));
    trace.format = *format;
  }
  const auto parser = MakeRowParser(trace.format, line);
  if (!parser.ok()) return lines.Error(Message(parser.status()));
  if (HasHeader(trace.format)) {
    SLUICE_ASSIGN_OR_RETURN(more, lines.Next(&line));
  }
  const int64_t most = options.requests_max > 0 ? options.requests_max : kRequestsMax;
  int64_t blocks = 0;
  while (more && static_cast<int64_t>(trace.requests.size()) < most) {
    TraceRequest request;
    const absl::Status parsed = (*parser)->Parse(line, &request);
    if (!parsed.ok()) return lines.Error(Message(parsed));
    if (request.prompt_tokens == 0 || request.output_tokens == 0) {
      ++trace.skipped;
    } else {
      blocks += static_cast<int64_t>(request.blocks.size());
      trace.requests.push_back(std::move(request));
    }
    if (blocks > kBlocksMax)
      return lines.Error(absl::StrCat("more than ", kBlocksMax,
                                      " hash_ids so far: take fewer requests (--requests)"));
    SLUICE_ASSIGN_OR_RETURN(more, lines.Next(&line));
  }
  if (more && options.requests_max == 0)
    return lines.Error(
        absl::StrCat("more than ", kRequestsMax, " requests: take fewer (--requests)"));
  if (trace.requests.empty()) return InvalidArgument(name + ": no request with an answer");
  OrderByArrival(options.seconds_max, &trace.requests);
  return trace;
}

}  // namespace sluice::engine
