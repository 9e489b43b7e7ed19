#include "engine/simulate/trace/csv_parsers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace sluice::engine {
namespace {

// Seconds since 1970.
absl::StatusOr<double> DateIn(const std::string& field, const std::string& text) {
  absl::Time time;
  std::string why;
  // Whether or not an offset from UTC is told; "T" or a space between date and time.
  for (const char* format : {"%Y-%m-%d %H:%M:%E*S", "%Y-%m-%d %H:%M:%E*S%Ez",
                             "%Y-%m-%d%ET%H:%M:%E*S", "%Y-%m-%d%ET%H:%M:%E*S%Ez"}) {
    if (!absl::ParseTime(format, text, &time, &why)) continue;
    if (time < absl::UnixEpoch() || time > absl::FromUnixSeconds(int64_t{1} << 33)) break;
    return absl::ToDoubleSeconds(time - absl::UnixEpoch());
  }
  return FieldError(field, text, "is not a time like 2023-11-16 18:17:03.9799600");
}

absl::StatusOr<double> SecondsIn(const std::string& field, const std::string& text) {
  return NumberIn(field, text, 0, 1e10);
}

class CsvParser : public RowParser {
 public:
  using TimeIn = absl::StatusOr<double> (*)(const std::string& field, const std::string& text);
  // Time, prompt, answer.
  using Columns = std::array<const char*, 3>;

  CsvParser(Columns names, TimeIn time_in) : names_(names), time_in_(time_in) {}

  absl::Status ReadHeader(std::string_view header) {
    SLUICE_RETURN_IF_ERROR(SplitCsv(header, &fields_));
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto found = std::find(fields_.begin(), fields_.end(), names_[i]);
      if (found == fields_.end())
        return InvalidArgument(absl::StrCat("the header has no column \"", names_[i], "\""));
      places_[i] = static_cast<size_t>(found - fields_.begin());
    }
    width_ = fields_.size();
    return absl::OkStatus();
  }

  absl::Status Parse(std::string_view line, TraceRequest* request) override {
    SLUICE_RETURN_IF_ERROR(SplitCsv(line, &fields_));
    if (fields_.size() != width_)
      return InvalidArgument(absl::StrCat(fields_.size(), " fields where the header has ", width_));
    SLUICE_ASSIGN_OR_RETURN(request->seconds, time_in_(names_[0], fields_[places_[0]]));
    SLUICE_ASSIGN_OR_RETURN(request->prompt_tokens, TokensIn(names_[1], fields_[places_[1]]));
    SLUICE_ASSIGN_OR_RETURN(request->output_tokens, TokensIn(names_[2], fields_[places_[2]]));
    return absl::OkStatus();
  }

 private:
  const Columns names_;
  const TimeIn time_in_;
  std::array<size_t, 3> places_{};
  size_t width_ = 0;
  std::vector<std::string> fields_;
};

absl::StatusOr<std::unique_ptr<RowParser>> Make(CsvParser::Columns names, CsvParser::TimeIn time_in,
                                                std::string_view header) {
  auto parser = std::make_unique<CsvParser>(names, time_in);
  SLUICE_RETURN_IF_ERROR(parser->ReadHeader(header));
  return parser;
}

}  // namespace

absl::Status SplitCsv(std::string_view line, std::vector<std::string>* fields) {
  fields->assign(1, "");
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields->back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields->emplace_back();
    } else {
      fields->back() += c;
    }
  }
  if (quoted) return InvalidArgument("a quote is not closed");
  for (std::string& field : *fields) absl::StripAsciiWhitespace(&field);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowParser>> MakeAzureParser(std::string_view header) {
  return Make({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, DateIn, header);
}

absl::StatusOr<std::unique_ptr<RowParser>> MakeBurstGptParser(std::string_view header) {
  return Make({"Timestamp", "Request tokens", "Response tokens"}, SecondsIn, header);
}

}  // namespace sluice::engine
