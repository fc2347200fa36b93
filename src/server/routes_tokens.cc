// Role: /tokenize and /detokenize, with llama-server's field names.
#include "server/http_app.h"
#include "server/parse_request.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

// A piece that is no text by itself is given as its bytes.
Json PieceJson(const std::string& bytes) {
  try {
    Json piece = bytes;
    (void)piece.dump();
    return piece;
  } catch (const Json::exception&) {
    Json numbers = Json::array();
    for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
    return numbers;
  }
}

}  // namespace

void HttpApp::Tokenize(Call& call) {
  const auto body = ParseTokenize(call.request.body);
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  const Tokenizer& tokenizer = engine_.tokenizer();
  std::vector<TokenId> tokens = tokenizer.Encode(body->content);
  if (body->add_special) AddSpecial(tokenizer, &tokens);
  Json list = Json::array();
  for (const TokenId token : tokens) {
    if (!body->with_pieces) {
      list.push_back(token);
      continue;
    }
    Json item;
    item["id"] = token;
    item["piece"] = PieceJson(tokenizer.TokenBytes(token));
    list.push_back(std::move(item));
  }
  Json reply;
  reply["tokens"] = std::move(list);
  ReplyJson(call, reply);
}

void HttpApp::Detokenize(Call& call) {
  const auto body = ParseDetokenize(call.request.body, {engine_.info().vocab, 0});
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  Json reply;
  reply["content"] = engine_.tokenizer().Decode(body->tokens, SkipSpecial::kNo);
  ReplyJson(call, reply);
}

}  // namespace ballast
