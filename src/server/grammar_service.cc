#include "server/grammar_service.h"

#include <pthread.h>

namespace ballast {

GrammarService::GrammarService(GrammarServiceLimits limits) : limits_(limits) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ballast-grammar");
    Run();
  });
}

GrammarService::~GrammarService() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void GrammarService::Compile(OutputRules rules, Done done) {
  std::string key = OutputKey(rules);
  grammar::GrammarPtr found;
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = entries_.find(key); it != entries_.end()) {
      lru_.splice(lru_.begin(), lru_, it->second);
      found = it->second->second;
      ++counts_.hits;
    } else if (jobs_.size() >= limits_.waiting) {
      full = true;
    } else {
      ++counts_.misses;
      jobs_.push_back({std::move(rules), std::move(key), std::move(done)});
    }
  }
  if (found != nullptr) {
    done(std::move(found));
  } else if (full) {
    Error error =
        ResourceExhausted("{} schemas wait to be compiled; try again later", limits_.waiting);
    error.reason = "queue_full";
    done(std::move(error));
  } else {
    wake_.notify_one();
  }
}

void GrammarService::Keep(std::string key, grammar::GrammarPtr grammar) {
  const std::lock_guard lock(mutex_);
  if (entries_.contains(key)) return;  // compiled twice meanwhile
  counts_.bytes += grammar->bytes() + 2 * key.size();
  lru_.emplace_front(std::move(key), std::move(grammar));
  entries_[lru_.front().first] = lru_.begin();
  while (lru_.size() > 1 && (lru_.size() > limits_.entries || counts_.bytes > limits_.bytes)) {
    counts_.bytes -= lru_.back().second->bytes() + 2 * lru_.back().first.size();
    entries_.erase(lru_.back().first);
    lru_.pop_back();
  }
}

GrammarService::Counts GrammarService::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.entries = lru_.size();
  return counts;
}

void GrammarService::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Result<grammar::GrammarPtr> result = CompileOutput(job.rules);
    if (result) Keep(std::move(job.key), *result);
    job.done(std::move(result));
    job = {};
    lock.lock();
  }
}

}  // namespace ballast
