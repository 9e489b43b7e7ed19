#include "tests/engine/tokenizer/golden.h"

#include <boost/json.hpp>
#include <fstream>
#include <stdexcept>

#include "tests/support/test_paths.h"

namespace sluice::testing {
namespace {

std::vector<boost::json::value> ReadLines(const std::string& name) {
  const std::string path = GoldenDir() + "/" + name;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<boost::json::value> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(boost::json::parse(line));
  return lines;
}

std::string Text(const boost::json::value& line, const char* key) {
  return std::string(line.at(key).as_string());
}

std::vector<int32_t> Ids(const boost::json::value& line, const char* key) {
  return boost::json::value_to<std::vector<int32_t>>(line.at(key));
}

}  // namespace

std::vector<GoldenLine> ReadGolden() {
  std::vector<GoldenLine> golden;
  for (const boost::json::value& line : ReadLines("tokenizer.jsonl")) {
    golden.push_back({.category = Text(line, "category"),
                      .text = Text(line, "text"),
                      .special = line.at("special").as_bool(),
                      .ids = Ids(line, "ids"),
                      .roundtrip = line.at("roundtrip").as_bool()});
  }
  return golden;
}

std::vector<DisputedLine> ReadDisputed() {
  std::vector<DisputedLine> disputed;
  for (const boost::json::value& line : ReadLines("tokenizer_disputed.jsonl")) {
    disputed.push_back({.text = Text(line, "text"),
                        .right = Ids(line, Text(line, "right").c_str()),
                        .why = Text(line, "why")});
  }
  return disputed;
}

}  // namespace sluice::testing
