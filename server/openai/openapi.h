#pragma once

namespace sluice::server::openai {

// The description of the API in OpenAPI 3.1, from openapi.json.
extern const char kOpenApi[];

}  // namespace sluice::server::openai
