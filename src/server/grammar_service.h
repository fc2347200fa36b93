// Role: compiles what replies must look like, on a thread of its own so that no stream waits for a
// large schema, and keeps what was compiled last.
// Thread: any thread may call; callbacks come from the caller's thread (found in the cache) or from
// the compiling thread. Bounds: waiting compiles, entries and bytes kept; one compile is bounded by
// text/grammar/limits.h.
#ifndef BALLAST_SERVER_GRAMMAR_SERVICE_H_
#define BALLAST_SERVER_GRAMMAR_SERVICE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "text/tools/output_grammar.h"

namespace ballast {

struct GrammarServiceLimits {
  size_t waiting = 64;
  size_t entries = 512;
  size_t bytes = 16u << 20;
};

class GrammarService {
 public:
  using Done = std::function<void(Result<grammar::GrammarPtr>)>;

  explicit GrammarService(GrammarServiceLimits limits = {});
  /// Waits for the running compile; what waits is dropped without a callback.
  ~GrammarService();
  GrammarService(const GrammarService&) = delete;
  GrammarService& operator=(const GrammarService&) = delete;

  /// Calls `done` once. Errors: CompileOutput's; kResourceExhausted when too many wait.
  void Compile(OutputRules rules, Done done);

  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
    size_t entries = 0;
    size_t bytes = 0;
  };
  Counts counts() const;

 private:
  struct Job {
    OutputRules rules;
    std::string key;
    Done done;
  };
  using Lru = std::list<std::pair<std::string, grammar::GrammarPtr>>;
  void Run();
  void Keep(std::string key, grammar::GrammarPtr grammar);

  const GrammarServiceLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  Lru lru_;  // the latest first
  std::unordered_map<std::string, Lru::iterator> entries_;
  Counts counts_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_GRAMMAR_SERVICE_H_
