#include "engine/grammar_masks.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ballast {

namespace {

using Time = std::chrono::steady_clock;

double MsSince(Time::time_point start) {
  return std::chrono::duration<double, std::milli>(Time::now() - start).count();
}

}  // namespace

GrammarMasks::GrammarMasks(const Tokenizer& tokenizer, Ledger* ledger)
    : tokenizer_(tokenizer), ledger_(ledger) {}

GrammarMasks::~GrammarMasks() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const grammar::TokenTrie& GrammarMasks::Prepare() {
  std::call_once(once_, [this] {
    auto trie =
        std::make_unique<const grammar::TokenTrie>(grammar::TokenTrie::FromTokenizer(tokenizer_));
    ledger_->Charge(MemoryOwner::kRuntime,
                    trie->bytes() + grammar::TokenMasker::kDefaultCacheBytes);
    masker_ = std::make_unique<grammar::TokenMasker>(*trie);
    trie_ = std::move(trie);
    masker_->Prewarm();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "ballast-masks");
      Run();
    });
  });
  return *trie_;
}

void GrammarMasks::Start(std::vector<grammar::Matcher*> matchers) {
  matchers_ = std::move(matchers);
  const auto count = std::count_if(matchers_.begin(), matchers_.end(),
                                   [](const grammar::Matcher* m) { return m != nullptr; });
  if (count == 0) return;
  cost_.masks += count;
  masks_.resize(matchers_.size() * masker_->mask_words());
  started_ = true;
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
}

void GrammarMasks::Wait() {
  if (!started_) return;
  started_ = false;
  const auto start = Time::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  cost_.wait_ms += MsSince(start);
}

std::span<const uint64_t> GrammarMasks::Mask(size_t row) const {
  if (row >= matchers_.size() || matchers_[row] == nullptr) return {};
  const size_t words = masker_->mask_words();
  return std::span<const uint64_t>(masks_).subspan(row * words, words);
}

void GrammarMasks::FillAll() {
  const auto start = Time::now();
  const size_t words = masker_->mask_words();
  for (size_t row = 0; row < matchers_.size(); ++row) {
    if (matchers_[row] == nullptr) continue;
    masker_->Fill(matchers_[row], std::span<uint64_t>(masks_).subspan(row * words, words));
  }
  cost_.busy_ms += MsSince(start);
}

void GrammarMasks::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || busy_; });
    if (stop_) return;
    lock.unlock();
    FillAll();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ballast
