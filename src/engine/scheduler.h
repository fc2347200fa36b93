// Role: decides what the next step computes: admission, decode rows, prompt chunks, preemption.
// Policy: decode rows first, then prompt chunks. Waiting requests are admitted first come, first
// served within a tenant; between tenants the one that has been served the fewest tokens goes
// first. Of a step's prompt rows the prompt whose turn it is gets at least half; the rest goes to
// the one with the least left, so that a short prompt does not wait for a long one. Thread: the
// engine thread. Invariants: the oldest admitted sequence is never preempted while another one is,
// so something always advances; a preempted sequence comes back before new ones.
#ifndef BALLAST_ENGINE_SCHEDULER_H_
#define BALLAST_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace ballast {

/// Rows of one sequence in a step.
struct StepItem {
  Sequence* sequence = nullptr;
  int64_t position = 0;  // of the first row
  int32_t rows = 0;
  bool decode = false;
  bool wants_logits = false;  // of the last row
};

struct StepPlan {
  std::vector<StepItem> items;
  int32_t decode_rows = 0;
  int32_t prefill_rows = 0;
  /// Sequences that fill the KV cache all alone and cannot go on.
  std::vector<RequestId> exhausted;
};

struct SchedulerOptions {
  int32_t max_sequences = 32;  // admitted at a time
};

class Scheduler {
 public:
  /// @param kv outlives the scheduler.
  Scheduler(SchedulerOptions options, KvCache* kv);

  void Enqueue(std::unique_ptr<Sequence> sequence);

  /// Admits what fits; `now_ns` stamps the newly admitted. Call before PlanDecode.
  void Admit(int64_t now_ns);
  /// Decode rows of the next step, with KV reserved; preempts the youngest when pages run out.
  void PlanDecode(StepPlan* plan);
  /// Prompt chunks, at most `budget_rows` rows, with KV reserved. Call after PlanDecode.
  void PlanPrefill(int32_t budget_rows, StepPlan* plan);
  /// Charges the tenants for a step that was run.
  void Charge(const StepPlan& plan);

  /// Takes a sequence out, wherever it is; null if unknown. Its pages are freed at once.
  std::unique_ptr<Sequence> Remove(RequestId id);
  /// Ids of all sequences for which `condition` holds, oldest first.
  template <class Condition>
  std::vector<RequestId> Find(const Condition& condition) const;

  /// Not admitted, the preempted included.
  int64_t waiting() const { return waiting_new() + static_cast<int64_t>(preempted_.size()); }
  /// Never admitted so far.
  int64_t waiting_new() const;
  int64_t admitted() const { return static_cast<int64_t>(running_.size()); }
  bool empty() const { return running_.empty() && waiting() == 0; }
  int64_t preempted_total() const { return preempted_total_; }

 private:
  struct Tenant {
    std::deque<std::unique_ptr<Sequence>> waiting;
    int64_t served_tokens = 0;  // its own virtual time
    int64_t started = 0;        // admitted or preempted
    bool idle() const { return waiting.empty() && started == 0; }
  };

  Tenant& TenantOf(const Sequence& sequence) { return tenants_[sequence.request().tenant]; }
  Tenant* NextTenant();
  bool Fits(const Sequence& sequence) const;
  int64_t PromisedPages() const;
  void AdmitOne(std::unique_ptr<Sequence> sequence, int64_t now_ns);
  void PreemptYoungest();
  void ForgetIdleTenants();
  /// Adds up to `rows` rows of `sequence`; returns the rows added (0: no pages).
  int32_t AddChunk(Sequence* sequence, int32_t rows, StepPlan* plan);
  std::vector<Sequence*> PrefillOrder();

  SchedulerOptions options_;
  KvCache* kv_;
  std::map<std::string, Tenant> tenants_;
  int64_t virtual_time_ = 0;                         // of the least served busy tenant; monotone
  std::vector<std::unique_ptr<Sequence>> running_;   // ascending ids: oldest first
  std::deque<std::unique_ptr<Sequence>> preempted_;  // ascending ids
  int64_t preempted_total_ = 0;
};

template <class Condition>
std::vector<RequestId> Scheduler::Find(const Condition& condition) const {
  std::vector<RequestId> ids;
  const auto check = [&](const std::unique_ptr<Sequence>& sequence) {
    if (condition(*sequence)) ids.push_back(sequence->id());
  };
  for (const auto& sequence : running_) check(sequence);
  for (const auto& sequence : preempted_) check(sequence);
  for (const auto& [name, tenant] : tenants_) {
    for (const auto& sequence : tenant.waiting) check(sequence);
  }
  return ids;
}

}  // namespace ballast

#endif  // BALLAST_ENGINE_SCHEDULER_H_
