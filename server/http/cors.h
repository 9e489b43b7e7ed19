#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/message.h"

namespace sluice::server {

// Cross-origin requests of browsers (the Fetch standard's CORS protocol). `origins`: those whose
// pages may read answers, as "https://chat.example"; "*" is all; empty: CORS is off. Credentials
// are never allowed.

// Header lines that every answer to `head` carries; empty for requests without or of another
// origin.
std::string CorsHeaders(const std::vector<std::string>& origins, const HttpRequest& head);

// The answer when `head` is a preflight request of an origin that is allowed.
std::optional<HttpResponse> CorsPreflight(const std::vector<std::string>& origins,
                                          const HttpRequest& head);

}  // namespace sluice::server
