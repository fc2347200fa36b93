// Role: cuts text into the pieces within which BPE may merge (adapter of PCRE2).
// The patterns are the models' own; every match runs on a private JIT stack under a match limit,
// so that no input can exhaust the thread's stack or run for long.
// Thread: immutable; Split() may run on any number of threads.
#ifndef BALLAST_TEXT_PRE_TOKENIZER_H_
#define BALLAST_TEXT_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ballast {

class PreTokenizer {
 public:
  /// `name` as in TokenizerSpec::pre_tokenizer. "regex:" takes one pattern or several stages
  /// separated by kStageSeparator; each stage cuts the pieces of the one before.
  /// Errors: kUnimplemented for an unknown name (lists the known ones), kInvalidArgument for a
  /// pattern that does not compile.
  static Result<std::unique_ptr<const PreTokenizer>> Create(std::string_view name);
  static constexpr char kStageSeparator = '\x1e';

  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// What matching needs beside the pattern: the JIT stack and match data. One owner at a time;
  /// made on first use and worth keeping between calls (its stack is a mapping of its own).
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class PreTokenizer;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Appends the pieces of `text` (valid UTF-8), in order, none empty; joined they are `text`.
  void Split(std::string_view text, Scratch* scratch, std::vector<std::string_view>* pieces) const;

 private:
  struct Stage;
  PreTokenizer();
  std::vector<Stage> stages_;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_PRE_TOKENIZER_H_
