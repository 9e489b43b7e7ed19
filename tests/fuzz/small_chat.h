#pragma once

#include <vector>

#include "server/models/prompt.h"
#include "server/models/served_model.h"

namespace sluice::testing {

// A model that has a vocabulary and a ChatML template and nothing behind them.
const server::ServedModel& SmallChatModel();

// Ends the process unless the control tokens of a rendered prompt are the template's: what users
// write never becomes one.
void RequireTemplatesControlTokens(const server::ChatPrompt& prompt,
                                   const std::vector<int32_t>& ids);

}  // namespace sluice::testing
