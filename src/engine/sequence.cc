#include "engine/sequence.h"

#include <utility>

namespace ballast {

Sequence::Sequence(RequestId id, GenerationRequest request, std::shared_ptr<RequestSink> sink,
                   const Tokenizer& tokenizer, int64_t token_limit, int64_t now_ns,
                   const grammar::TokenTrie* trie)
    : submitted_ns(now_ns),
      id_(id),
      request_(std::move(request)),
      sink_(std::move(sink)),
      tokenizer_(&tokenizer),
      token_limit_(token_limit),
      tokens_(std::move(request_.prompt)),
      prompt_tokens_(static_cast<int64_t>(tokens_.size())),
      counts_needed_(NeedsTokenCounts(request_.sampling)),
      detokenizer_(tokenizer),
      stop_(request_.stop),
      pooler_(request_.pooling, prompt_tokens_),
      trie_(trie) {
  if (request_.grammar != nullptr) matcher_.emplace(request_.grammar);
  if (request_.deadline_ms > 0) deadline_ns = now_ns + request_.deadline_ms * 1'000'000;
  if (counts_needed_) {
    for (const TokenId token : tokens_) counts_.AddPrompt(token);
  }
}

Sequence::Accepted Sequence::Accept(TokenId token) {
  Accepted result;
  tokens_.push_back(token);
  if (counts_needed_) counts_.AddOutput(token);
  if (matcher_ && !matcher_->AcceptToken(*trie_, token)) {
    result.emit = false;
    result.misfit = true;
    return result;
  }
  if (!request_.ignore_eos && tokenizer_->IsEndOfGeneration(token)) {
    result.emit = false;
    result.finished = FinishReason::kStop;
    return result;
  }
  StopMatcher::Piece piece = stop_.Push(detokenizer_.Push(token));
  result.text = std::move(piece.text);
  if (piece.matched != nullptr) {
    matched_stop_ = *piece.matched;
    result.finished = FinishReason::kStop;
  } else if (matcher_ && matcher_->IsExhausted()) {
    result.finished = FinishReason::kStop;  // only an end token could follow
  } else if (length() >= token_limit_) {
    result.finished = FinishReason::kLength;
  }
  return result;
}

std::string Sequence::TakeRest() {
  if (!matched_stop_.empty()) return {};
  StopMatcher::Piece piece = stop_.Push(detokenizer_.Flush());
  if (piece.matched != nullptr) {
    matched_stop_ = *piece.matched;
    return std::move(piece.text);
  }
  return std::move(piece.text) + stop_.Flush();
}

Usage Sequence::usage() const {
  Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  usage.completion_tokens = generated();
  return usage;
}

}  // namespace ballast
