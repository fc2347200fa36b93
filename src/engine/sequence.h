// Role: one request inside the engine: its tokens, its KV, its text so far.
// Thread: the engine thread. Invariant: tokens[0, computed) have their KV written; generated tokens
// are part of `tokens`, so a preempted sequence is recomputed as if they were its prompt.
#ifndef BALLAST_ENGINE_SEQUENCE_H_
#define BALLAST_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/client.h"
#include "engine/pooler.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "kv/kv_cache.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace ballast {

class Sequence {
 public:
  /// @param token_limit prompt and output together may not exceed it (> prompt).
  /// @param now_ns when it was submitted.
  /// @param trie the tokenizer's; null unless the request has a grammar.
  Sequence(RequestId id, GenerationRequest request, std::shared_ptr<RequestSink> sink,
           const Tokenizer& tokenizer, int64_t token_limit, int64_t now_ns,
           const grammar::TokenTrie* trie = nullptr);

  RequestId id() const { return id_; }
  const GenerationRequest& request() const { return request_; }
  RequestSink& sink() const { return *sink_; }

  /// All tokens: the prompt, then what was generated.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t generated() const { return length() - prompt_tokens_; }
  const TokenCounts& counts() const { return counts_; }

  /// Where the output stands in the request's grammar; null without one. Survives preemption, as
  /// the generated tokens do.
  grammar::Matcher* matcher() { return matcher_ ? &*matcher_ : nullptr; }
  /// Wants an embedding; ends with its prompt.
  bool embeds() const { return request_.pooling != Pooling::kNone; }
  Pooler& pooler() { return pooler_; }

  /// Exactly one token is missing its KV and its logits are wanted next.
  bool decoding() const { return computed == length() - 1 && generated() > 0; }

  /// What a new token did.
  struct Accepted {
    std::string text;                      // to emit
    bool emit = true;                      // false: an end token, which has no text
    std::optional<FinishReason> finished;  // set when the sequence ends here
    bool misfit = false;                   // the grammar does not take the token (a broken model)
  };
  /// Appends a sampled token. Cost: O(bytes of the token · stop strings).
  Accepted Accept(TokenId token);
  /// The text that is still held back, and the stop string that it completed, if any.
  std::string TakeRest();
  /// The stop string that ended the sequence, or empty.
  const std::string& matched_stop() const { return matched_stop_; }
  Usage usage() const;

  // The scheduler's and the engine's bookkeeping.
  std::unique_ptr<KvSequence> kv;  // null while waiting
  int64_t computed = 0;            // tokens whose KV is written
  int64_t reported_progress = 0;
  int32_t preemptions = 0;
  int64_t submitted_ns = 0;
  int64_t deadline_ns = 0;  // 0: none
  int64_t admitted_ns = 0;  // 0: never
  int64_t first_token_ns = 0;
  int64_t last_token_ns = 0;

 private:
  RequestId id_;
  GenerationRequest request_;
  std::shared_ptr<RequestSink> sink_;
  const Tokenizer* tokenizer_;
  int64_t token_limit_;
  std::vector<TokenId> tokens_;
  int64_t prompt_tokens_;
  TokenCounts counts_;
  bool counts_needed_;
  StreamingDetokenizer detokenizer_;
  StopMatcher stop_;
  Pooler pooler_;
  std::string matched_stop_;
  const grammar::TokenTrie* trie_;
  std::optional<grammar::Matcher> matcher_;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_SEQUENCE_H_
