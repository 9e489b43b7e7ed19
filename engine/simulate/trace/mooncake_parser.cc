#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"
#include "engine/simulate/trace/row_parser.h"

namespace sluice::engine {
namespace {

namespace json = boost::json;

// A number's text, so that the formats share one reading of numbers.
absl::StatusOr<std::string> NumberText(const json::object& row, std::string_view field) {
  const json::value* value = row.if_contains(field);
  if (value == nullptr) return InvalidArgument(absl::StrCat("no \"", ToAbsl(field), "\""));
  const std::string text = json::serialize(*value);
  if (!value->is_number()) return FieldError(field, text, "is not a number");
  return text;
}

absl::StatusOr<int32_t> Tokens(const json::object& row, std::string_view field) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, NumberText(row, field));
  return TokensIn(field, text);
}

absl::Status ReadBlocks(const json::object& row, std::vector<int64_t>* blocks) {
  blocks->clear();
  const json::value* value = row.if_contains("hash_ids");
  if (value == nullptr) return absl::OkStatus();
  const json::array* ids = value->if_array();
  if (ids == nullptr) return FieldError("hash_ids", json::serialize(*value), "is not a list");
  blocks->reserve(ids->size());
  for (const json::value& id : *ids) {
    if (const int64_t* number = id.if_int64()) {
      blocks->push_back(*number);
    } else if (const uint64_t* large = id.if_uint64()) {
      blocks->push_back(static_cast<int64_t>(*large));
    } else {
      return FieldError(absl::StrCat("hash_ids[", blocks->size(), "]"), json::serialize(id),
                        "is not a whole number");
    }
  }
  return absl::OkStatus();
}

class MooncakeParser : public RowParser {
 public:
  absl::Status Parse(std::string_view line, TraceRequest* request) override {
    json::monotonic_resource memory(buffer_, sizeof buffer_);
    boost::system::error_code error;
    const json::value row = json::parse(line, error, &memory);
    if (error) return InvalidArgument("not JSON: " + error.message());
    const json::object* fields = row.if_object();
    if (fields == nullptr) return InvalidArgument("not a JSON object");
    SLUICE_ASSIGN_OR_RETURN(const std::string time, NumberText(*fields, "timestamp"));
    SLUICE_ASSIGN_OR_RETURN(const double milliseconds, NumberIn("timestamp", time, 0, 1e13));
    request->seconds = milliseconds / 1e3;
    SLUICE_ASSIGN_OR_RETURN(request->prompt_tokens, Tokens(*fields, "input_length"));
    SLUICE_ASSIGN_OR_RETURN(request->output_tokens, Tokens(*fields, "output_length"));
    return ReadBlocks(*fields, &request->blocks);
  }

 private:
  unsigned char buffer_[16 << 10];
};

}  // namespace

std::unique_ptr<RowParser> MakeMooncakeParser() { return std::make_unique<MooncakeParser>(); }

}  // namespace sluice::engine
