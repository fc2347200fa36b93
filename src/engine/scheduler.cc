#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.h"
#include "engine/chunk_sizer.h"

namespace ballast {

namespace {

constexpr size_t kRememberedTenants = 1024;

int64_t PagesFor(int64_t tokens) { return CeilDiv(tokens, int64_t{kPageTokens}); }

bool Older(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  return a->id() < b->id();
}

template <class Container>
std::unique_ptr<Sequence> TakeById(Container* container, RequestId id) {
  for (auto it = container->begin(); it != container->end(); ++it) {
    if ((*it)->id() != id) continue;
    std::unique_ptr<Sequence> sequence = std::move(*it);
    container->erase(it);
    return sequence;
  }
  return nullptr;
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, KvCache* kv) : options_(options), kv_(kv) {}

void Scheduler::Enqueue(std::unique_ptr<Sequence> sequence) {
  if (tenants_.size() >= kRememberedTenants) ForgetIdleTenants();
  Tenant& tenant = TenantOf(*sequence);
  // Start-time fair queueing: being away gives no credit, and having been served gives a debt only
  // towards those who were there at the time.
  if (tenant.idle()) tenant.served_tokens = std::max(tenant.served_tokens, virtual_time_);
  tenant.waiting.push_back(std::move(sequence));
}

// Forgets first those that would start at the present virtual time anyway.
void Scheduler::ForgetIdleTenants() {
  std::erase_if(tenants_, [this](const auto& entry) {
    return entry.second.idle() && entry.second.served_tokens <= virtual_time_;
  });
  if (tenants_.size() < kRememberedTenants) return;
  std::erase_if(tenants_, [](const auto& entry) { return entry.second.idle(); });
}

int64_t Scheduler::waiting_new() const {
  int64_t count = 0;
  for (const auto& [name, tenant] : tenants_) {
    count += static_cast<int64_t>(tenant.waiting.size());
  }
  return count;
}

// The tenant with a waiting request that was served least; ties go to the older request.
Scheduler::Tenant* Scheduler::NextTenant() {
  Tenant* best = nullptr;
  for (auto& [name, tenant] : tenants_) {
    if (tenant.waiting.empty()) continue;
    if (best == nullptr || tenant.served_tokens < best->served_tokens ||
        (tenant.served_tokens == best->served_tokens &&
         Older(tenant.waiting.front(), best->waiting.front()))) {
      best = &tenant;
    }
  }
  return best;
}

// Pages that admitted sequences will still need to finish their prompts.
int64_t Scheduler::PromisedPages() const {
  int64_t pages = 0;
  for (const auto& sequence : running_) {
    const int64_t held = sequence->kv->reserved_tokens() / kPageTokens;
    pages += std::max<int64_t>(PagesFor(sequence->length()) - held, 0);
  }
  return pages;
}

bool Scheduler::Fits(const Sequence& sequence) const {
  if (running_.empty()) return true;  // whatever is too big for an empty cache was refused before
  int64_t need = PagesFor(sequence.length() + 1) + 1;
  // One that was preempted comes back only when every running one can grow by a page, or it would
  // be thrown out again at once.
  if (sequence.preemptions > 0) need += admitted();
  int64_t starting = 1;  // sequences that hold no page yet
  for (const auto& other : running_) starting += other->kv->reserved_tokens() == 0 ? 1 : 0;
  return kv_->HasRoom(need + PromisedPages(), starting);
}

void Scheduler::AdmitOne(std::unique_ptr<Sequence> sequence, int64_t now_ns) {
  sequence->kv = kv_->NewSequence();
  sequence->computed = 0;
  if (sequence->admitted_ns == 0) sequence->admitted_ns = now_ns;
  if (sequence->preemptions == 0) ++TenantOf(*sequence).started;
  const auto place = std::upper_bound(running_.begin(), running_.end(), sequence, Older);
  running_.insert(place, std::move(sequence));
}

void Scheduler::Admit(int64_t now_ns) {
  while (admitted() < options_.max_sequences) {
    if (!preempted_.empty()) {
      if (!Fits(*preempted_.front())) return;  // nobody overtakes it
      std::unique_ptr<Sequence> sequence = std::move(preempted_.front());
      preempted_.pop_front();
      AdmitOne(std::move(sequence), now_ns);
      continue;
    }
    Tenant* tenant = NextTenant();
    if (tenant == nullptr || !Fits(*tenant->waiting.front())) return;
    std::unique_ptr<Sequence> sequence = std::move(tenant->waiting.front());
    tenant->waiting.pop_front();
    AdmitOne(std::move(sequence), now_ns);
  }
}

void Scheduler::PreemptYoungest() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  sequence->kv.reset();
  sequence->computed = 0;
  ++sequence->preemptions;
  ++preempted_total_;
  const auto place = std::upper_bound(preempted_.begin(), preempted_.end(), sequence, Older);
  preempted_.insert(place, std::move(sequence));
}

void Scheduler::PlanDecode(StepPlan* plan) {
  // Oldest first: victims are younger and not in the plan yet.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i].get();
    if (!sequence->decoding()) continue;
    bool reserved = sequence->kv->Reserve(sequence->length()).has_value();
    while (!reserved && running_.size() > i + 1) {
      PreemptYoungest();
      reserved = sequence->kv->Reserve(sequence->length()).has_value();
    }
    if (reserved) {
      plan->items.push_back({sequence, sequence->computed, 1, true, true});
      ++plan->decode_rows;
    } else if (running_.size() == 1) {
      plan->exhausted.push_back(sequence->id());
    } else {
      PreemptYoungest();  // itself; older ones hold the pages
    }
  }
}

int32_t Scheduler::AddChunk(Sequence* sequence, int32_t rows, StepPlan* plan) {
  const int64_t begin = sequence->computed;
  int64_t end = (begin + rows) / kChunkTokens * kChunkTokens;
  if (begin + rows >= sequence->length()) end = sequence->length();
  if (end <= begin) return 0;  // fewer rows than to the next border
  if (!sequence->kv->Reserve(end).has_value()) return 0;
  const int32_t added = static_cast<int32_t>(end - begin);
  plan->items.push_back(
      {sequence, begin, added, false, end == sequence->length() && !sequence->embeds()});
  plan->prefill_rows += added;
  return added;
}

std::vector<Sequence*> Scheduler::PrefillOrder() {
  std::vector<Sequence*> order;
  for (const auto& sequence : running_) {
    if (!sequence->decoding()) order.push_back(sequence.get());
  }
  std::sort(order.begin(), order.end(), [this](Sequence* a, Sequence* b) {
    const int64_t served_a = TenantOf(*a).served_tokens, served_b = TenantOf(*b).served_tokens;
    return served_a != served_b ? served_a < served_b : a->id() < b->id();
  });
  return order;
}

void Scheduler::PlanPrefill(int32_t budget_rows, StepPlan* plan) {
  while (budget_rows > 0) {
    std::vector<Sequence*> order = PrefillOrder();
    if (order.empty()) return;
    const auto left = [](const Sequence* s) { return s->length() - s->computed; };
    const auto shortest =
        std::min_element(order.begin(), order.end(),
                         [&](const Sequence* a, const Sequence* b) { return left(a) < left(b); });
    if (shortest != order.begin()) {
      // The head keeps half; the one with the least left takes the other half, before the rest.
      Sequence* second = *shortest;
      order.erase(shortest);
      order.insert(order.begin() + 1, second);
    }
    int32_t budget = budget_rows;
    const bool shared = order.size() > 1 && budget >= 2 * kChunkTokens;
    for (size_t i = 0; i < order.size() && budget > 0; ++i) {
      const int64_t fair = shared && i == 0
                               ? std::max<int64_t>(RoundUp<int64_t>(budget / 2, kChunkTokens),
                                                   budget - left(order[1]))
                               : budget;
      const int64_t rows = std::min(fair, left(order[i]));
      budget -= AddChunk(order[i], static_cast<int32_t>(rows), plan);
    }
    if (!plan->items.empty() || !plan->exhausted.empty()) return;
    // Nobody can move: every page is held by prompts. The youngest gives way.
    if (running_.size() == 1) {
      plan->exhausted.push_back(running_.front()->id());
      return;
    }
    PreemptYoungest();
  }
}

void Scheduler::Charge(const StepPlan& plan) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& [name, tenant] : tenants_) {
    if (!tenant.idle()) least = std::min(least, tenant.served_tokens);
  }
  if (!plan.items.empty()) virtual_time_ = std::max(virtual_time_, least);
  for (const StepItem& item : plan.items) TenantOf(*item.sequence).served_tokens += item.rows;
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  std::unique_ptr<Sequence> sequence = TakeById(&running_, id);
  if (sequence == nullptr) sequence = TakeById(&preempted_, id);
  if (sequence != nullptr) {
    --TenantOf(*sequence).started;
    sequence->kv.reset();
    return sequence;
  }
  for (auto it = tenants_.begin(); sequence == nullptr && it != tenants_.end(); ++it) {
    sequence = TakeById(&it->second.waiting, id);
  }
  return sequence;
}

}  // namespace ballast
