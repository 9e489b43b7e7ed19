#include "engine/simulate/trace/row_parser.h"

#include <charconv>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/simulate/trace/csv_parsers.h"

namespace sluice::engine {
namespace {

constexpr double kTokensMax = 1e9;
constexpr size_t kShownMax = 40;

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view value, std::string_view problem) {
  const std::string shown = absl::CHexEscape(ToAbsl(value.substr(0, kShownMax)));
  return InvalidArgument(absl::StrCat(
      ToAbsl(field), ": \"", shown, value.size() > kShownMax ? "...\" " : "\" ", ToAbsl(problem)));
}

absl::StatusOr<double> NumberIn(std::string_view field, std::string_view text, double low,
                                double high) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // Not a number fails both comparisons.
  if (error == std::errc() && stop == end && value >= low && value <= high) return value;
  return FieldError(field, text, absl::StrCat("is not a number in [", low, ", ", high, "]"));
}

absl::StatusOr<int32_t> TokensIn(std::string_view field, std::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const double value, NumberIn(field, text, 0, kTokensMax));
  if (value != std::floor(value)) return FieldError(field, text, "is not a whole number");
  return static_cast<int32_t>(value);
}

absl::StatusOr<TraceFormat> FormatOf(std::string_view first_line) {
  if (first_line.starts_with('{')) return TraceFormat::kMooncake;
  for (const TraceFormat format : {TraceFormat::kAzure, TraceFormat::kBurstGpt}) {
    if (MakeRowParser(format, first_line).ok()) return format;
  }
  return InvalidArgument(
      "neither Mooncake's JSON lines, nor a header with the columns of Azure's (TIMESTAMP, "
      "ContextTokens, GeneratedTokens) or BurstGPT's traces (Timestamp, Request tokens, Response "
      "tokens)");
}

absl::StatusOr<std::unique_ptr<RowParser>> MakeRowParser(TraceFormat format,
                                                         std::string_view first_line) {
  if (format == TraceFormat::kMooncake) return MakeMooncakeParser();
  if (format == TraceFormat::kAzure) return MakeAzureParser(first_line);
  return MakeBurstGptParser(first_line);
}

}  // namespace sluice::engine
