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

  /// Appends the pieces of `text` (valid UTF-8), in order, none empty; joined they are `text`.
  void Split(std::string_view text, std::vector<std::string_view>* pieces) const;

 private:
  struct Stage;
  PreTokenizer();
  std::vector<Stage> stages_;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_PRE_TOKENIZER_H_
