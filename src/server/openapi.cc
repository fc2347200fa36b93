#include "server/openapi.h"

#include <fmt/format.h>

#include <cctype>
#include <string>

#include "server/field_types.h"

namespace ballast {

namespace {

struct BodyRow {
  std::string_view path;
  Endpoints endpoint;
  std::string_view schema;
  bool streams;
};

constexpr BodyRow kBodies[] = {
    {"/v1/chat/completions", kChat, "ChatBody", true},
    {"/v1/completions", kCompletions, "CompletionsBody", true},
    {"/v1/responses", kResponses, "ResponsesBody", true},
    {"/v1/messages", kMessages, "MessagesBody", true},
    {"/v1/messages/count_tokens", kCountTokens, "CountTokensBody", false},
    {"/v1/embeddings", kEmbeddings, "EmbeddingsBody", false},
    {"/tokenize", kTokenize, "TokenizeBody", false},
    {"/detokenize", kDetokenize, "DetokenizeBody", false},
    {"/apply-template", kChat, "ChatBody", false},
};

const BodyRow* BodyOf(std::string_view path) {
  for (const BodyRow& row : kBodies) {
    if (row.path == path) return &row;
  }
  return nullptr;
}

Json FieldSchema(const FieldRule& rule, Endpoints endpoint) {
  switch (rule.kind) {
    case FieldKind::kActs: {
      Json schema = FieldTypeSchema(rule.name, endpoint);
      schema["x-ballast"] = "acts";
      return schema;
    }
    case FieldKind::kNoEffect:
      return Json{{"x-ballast", "no_effect"}, {"description", "Accepted, has no effect."}};
    case FieldKind::kRefused:
      break;
  }
  std::string why = rule.why.empty() ? "Refused." : fmt::format("Refused: {}.", rule.why);
  if (rule.neutral != nullptr) why += " A value that changes nothing is accepted.";
  return Json{{"x-ballast", "refused"}, {"deprecated", true}, {"description", why}};
}

Json BodySchema(Endpoints endpoint) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const auto& rules : {FieldRules(), SurfaceFieldRules()}) {
    for (const FieldRule& rule : rules) {
      if ((rule.endpoints & endpoint) == 0) continue;
      properties[std::string(rule.name)] = FieldSchema(rule, endpoint);
      if (IsRequiredField(rule.name, endpoint)) required.push_back(rule.name);
    }
  }
  return Json{{"type", "object"},
              {"properties", properties},
              {"required", required},
              {"additionalProperties", false}};
}

Json Content(std::string_view type, Json schema) {
  Json content = Json::object();
  content[std::string(type)] = Json{{"schema", std::move(schema)}};
  return content;
}

Json Operation(const ApiRoute& route, const BodyRow* body) {
  Json content = route.path == "/metrics" ? Content("text/plain", Json{{"type", "string"}})
                                          : Content("application/json", Json{{"type", "object"}});
  if (body != nullptr && body->streams) {
    content["text/event-stream"] = Json{{"schema", Json{{"type", "string"}}}};
  }
  // A name for generated clients: "post_v1_chat_completions".
  std::string id(route.method);
  for (const char c : route.path) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (id.ends_with('_')) id += "id";
  Json operation;
  operation["operationId"] = id;
  operation["responses"] =
      Json{{"200", Json{{"description", "The reply."}, {"content", content}}},
           {"default", Json{{"description", "An error."},
                            {"content", Content("application/json", Json{{"type", "object"}})}}}};
  if (body != nullptr) {
    const std::string name = fmt::format("#/components/schemas/{}", body->schema);
    operation["requestBody"] =
        Json{{"required", true}, {"content", Content("application/json", Json{{"$ref", name}})}};
  }
  if (route.path.size() > 1 && route.path.ends_with('/')) {
    operation["parameters"] = Json::array({Json{
        {"name", "id"}, {"in", "path"}, {"required", true}, {"schema", Json{{"type", "string"}}}}});
  }
  // Servers without keys ask for none, so the empty requirement stands beside the key.
  Json security = Json::array();
  if (route.needs_key) {
    security.push_back(Json::object());
    security.push_back(Json{{"bearer", Json::array()}});
    security.push_back(Json{{"x-api-key", Json::array()}});
  }
  operation["security"] = std::move(security);
  return operation;
}

}  // namespace

Json OpenApiDocument(std::span<const ApiRoute> routes) {
  Json paths = Json::object();
  for (const ApiRoute& route : routes) {
    if (route.path == "/" || route.path == "/assets/") continue;
    const bool prefix = route.path.ends_with('/');
    const std::string path = std::string(route.path) + (prefix ? "{id}" : "");
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c + ('a' - 'A'));
    paths[path][method] = Operation(route, BodyOf(route.path));
  }
  Json schemas = Json::object();
  for (const BodyRow& row : kBodies) schemas[std::string(row.schema)] = BodySchema(row.endpoint);
  Json keys;
  keys["bearer"] = Json{{"type", "http"}, {"scheme", "bearer"}};
  keys["x-api-key"] = Json{{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}};
  Json document;
  document["openapi"] = "3.1.0";
  document["info"] = Json{{"title", "Ballast"}, {"version", "1"}};
  document["paths"] = std::move(paths);
  document["components"] = Json{{"schemas", schemas}, {"securitySchemes", keys}};
  return document;
}

}  // namespace ballast
