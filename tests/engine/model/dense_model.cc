#include "tests/engine/model/dense_model.h"

#include <cmath>
#include <string>

namespace sluice::testing {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Dense {
 public:
  explicit Dense(const SmallModel& model) : m_(model) {}

  Rows Run(const std::vector<int32_t>& tokens) {
    const EncodedMatrix table =
        Matrix("token_embd.weight", m_.vocabulary, m_.width, m_.matrix_type);
    Rows x;
    for (const int32_t token : tokens) {
      const auto begin = table.values.begin() + token * static_cast<int32_t>(m_.width);
      x.emplace_back(begin, begin + m_.width);
    }
    for (uint32_t layer = 0; layer < m_.layers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      Add(x, Attention(Norm(x, prefix_ + "attn_norm.weight")));
      Add(x, Ffn(Norm(x, prefix_ + "ffn_norm.weight")));
    }
    const Rows normed = Norm(x, "output_norm.weight");
    return m_.tied ? Times(normed, table, m_.vocabulary)
                   : Times(normed, Matrix("output.weight", m_.vocabulary, m_.width, m_.matrix_type),
                           m_.vocabulary);
  }

 private:
  EncodedMatrix Matrix(const std::string& name, uint32_t rows, uint32_t cols, uint32_t type) const {
    return RandomMatrix(SeedOf(m_, name), rows, cols, type);
  }
  static void Add(Rows& x, const Rows& delta) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += delta[t][i];
    }
  }
  static Rows Times(const Rows& in, const EncodedMatrix& weight, uint32_t rows) {
    Rows out;
    for (const Row& row : in) {
      Row& y = out.emplace_back(rows, 0.0);
      for (uint32_t n = 0; n < rows; ++n) {
        for (size_t i = 0; i < row.size(); ++i) y[n] += row[i] * weight.values[n * row.size() + i];
      }
    }
    return out;
  }
  Rows Project(const Rows& in, const std::string& name, uint32_t rows, uint32_t type) const {
    const auto cols = static_cast<uint32_t>(in[0].size());
    return Times(in, Matrix(prefix_ + name, rows, cols, type), rows);
  }
  Rows Norm(const Rows& x, const std::string& name) const {
    const EncodedMatrix weight = Matrix(name, 1, m_.width, 0);
    Rows out = x;
    for (Row& row : out) {
      double squares = 0;
      for (const double v : row) squares += v * v;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-5);
      for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight.values[i];
    }
    return out;
  }
  void Rotate(double* head, size_t position) const {
    for (uint32_t i = 0; i < m_.head_dim / 2; ++i) {
      double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * i / m_.head_dim);
      if (m_.rope_scaling == "linear") angle /= m_.rope_factor;
      if (!m_.rope_freqs.empty()) angle /= m_.rope_freqs[i];
      const double a = head[2 * i], b = head[2 * i + 1];
      head[2 * i] = a * std::cos(angle) - b * std::sin(angle);
      head[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  Rows Attention(const Rows& in) const {
    const uint32_t d = m_.head_dim;
    Rows q = Project(in, "attn_q.weight", m_.heads * d, m_.matrix_type);
    Rows k = Project(in, "attn_k.weight", m_.kv_heads * d, m_.matrix_type);
    const Rows v = Project(in, "attn_v.weight", m_.kv_heads * d, m_.value_type);
    for (size_t t = 0; t < in.size(); ++t) {
      for (uint32_t h = 0; h < m_.heads; ++h) Rotate(&q[t][h * d], t);
      for (uint32_t h = 0; h < m_.kv_heads; ++h) Rotate(&k[t][h * d], t);
    }
    const double scale = m_.attention_scale > 0 ? m_.attention_scale : 1 / std::sqrt(d);
    Rows out(in.size(), Row(m_.heads * d, 0.0));
    for (size_t t = 0; t < in.size(); ++t) {
      for (uint32_t h = 0; h < m_.heads; ++h) {
        const uint32_t g = h / (m_.heads / m_.kv_heads);
        Row weights;
        double total = 0;
        for (size_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (uint32_t i = 0; i < d; ++i) dot += q[t][h * d + i] * k[s][g * d + i];
          total += weights.emplace_back(std::exp(dot * scale));
        }
        for (size_t s = 0; s <= t; ++s) {
          for (uint32_t i = 0; i < d; ++i) {
            out[t][h * d + i] += weights[s] / total * v[s][g * d + i];
          }
        }
      }
    }
    return Project(out, "attn_output.weight", m_.width, m_.matrix_type);
  }
  Rows Ffn(const Rows& in) const {
    Rows gate = Project(in, "ffn_gate.weight", m_.ffn, m_.matrix_type);
    const Rows up = Project(in, "ffn_up.weight", m_.ffn, m_.matrix_type);
    for (size_t t = 0; t < in.size(); ++t) {
      for (uint32_t i = 0; i < m_.ffn; ++i) {
        gate[t][i] = gate[t][i] / (1 + std::exp(-gate[t][i])) * up[t][i];
      }
    }
    return Project(gate, "ffn_down.weight", m_.width, m_.matrix_type);
  }

  const SmallModel& m_;
  std::string prefix_;
};

}  // namespace

std::vector<std::vector<double>> DenseLogits(const SmallModel& model,
                                             const std::vector<int32_t>& tokens) {
  return Dense(model).Run(tokens);
}

}  // namespace sluice::testing
