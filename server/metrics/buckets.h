#pragma once

#include <vector>

namespace sluice::server {

// Upper edges of histograms, ascending. Latencies are in seconds: from 0.5 ms to beyond 60 s each
// edge is at most 1.5 times the one before it, so that a quantile read off the buckets is as near.
// They include vLLM's edges for the same figure, on which dashboards and alerts may depend; what
// lies beyond 75 s is coarse.

// Until a token: first token.
std::vector<double> FirstTokenEdges();
// Between tokens, and the mean of an answer.
std::vector<double> InterTokenEdges();
// Whole answers and their phases.
std::vector<double> RequestEdges();
// One step of the engine.
std::vector<double> StepEdges();
// Tokens of a prompt or an answer: 1, 2, 5, 10 ... up to and including the first edge that reaches
// `most`.
std::vector<double> TokenCountEdges(int most);
// Tokens of one step.
std::vector<double> StepTokenEdges();
// Sequences of one step.
std::vector<double> StepSequenceEdges();
// Answers of one request.
std::vector<double> AnswerCountEdges();

}  // namespace sluice::server
