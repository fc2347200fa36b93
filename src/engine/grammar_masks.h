// Role: token masks of the constrained sequences of a step, computed beside the step's kernels: a
// sequence's mask depends on its tokens so far only, so the engine asks for it before the kernels
// start and collects it when the logits are there.
// Thread: Prepare from any thread; Start, Wait and Mask from the engine thread. Between Start and
// Wait the matchers belong to the mask thread.
#ifndef BALLAST_ENGINE_GRAMMAR_MASKS_H_
#define BALLAST_ENGINE_GRAMMAR_MASKS_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "memory/ledger.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_masker.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace ballast {

class GrammarMasks {
 public:
  /// Both outlive the object.
  GrammarMasks(const Tokenizer& tokenizer, Ledger* ledger);
  ~GrammarMasks();
  GrammarMasks(const GrammarMasks&) = delete;
  GrammarMasks& operator=(const GrammarMasks&) = delete;

  /// The vocabulary as a tree. The first call builds it and starts the mask thread (about 50 ms);
  /// a server without constrained requests pays for neither.
  const grammar::TokenTrie& Prepare();

  /// Starts the masks of a step. Null matchers get no mask. REQUIRES: Prepare has been called
  /// unless all are null.
  void Start(std::vector<grammar::Matcher*> matchers);
  /// Returns when they are done.
  void Wait();
  /// The mask of matcher `row` of the last step, or empty for none. Bit t % 64 of word t / 64 is
  /// token t; tokens beyond the mask are not allowed.
  std::span<const uint64_t> Mask(size_t row) const;

  struct Cost {
    int64_t masks = 0;
    double busy_ms = 0;  ///< on the mask thread
    double wait_ms = 0;  ///< the engine waited for after the kernels were done
  };
  /// The engine thread, outside Start and Wait.
  const Cost& cost() const { return cost_; }

 private:
  void Run();
  void FillAll();

  const Tokenizer& tokenizer_;
  Ledger* ledger_;
  std::once_flag once_;
  std::unique_ptr<const grammar::TokenTrie> trie_;
  std::unique_ptr<grammar::TokenMasker> masker_;  // the mask thread's

  // Of the step; handed over with busy_.
  std::vector<grammar::Matcher*> matchers_;
  std::vector<uint64_t> masks_;  // [rows, mask words]
  Cost cost_;
  bool started_ = false;  // the engine thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_GRAMMAR_MASKS_H_
