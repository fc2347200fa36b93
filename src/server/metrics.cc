#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <vector>

#include "engine/histograms.h"
#include "server/memory_owners.h"

namespace ballast {

namespace {

using Families = std::vector<prometheus::MetricFamily>;

prometheus::MetricFamily& AddFamily(Families& families, const char* name, const char* help,
                                    prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  families.push_back(std::move(family));
  return families.back();
}

prometheus::ClientMetric& AddMetric(prometheus::MetricFamily& family, double value) {
  prometheus::ClientMetric metric;
  if (family.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
  return family.metric.back();
}

void Gauge(Families& families, const char* name, const char* help, double value) {
  AddMetric(AddFamily(families, name, help, prometheus::MetricType::Gauge), value);
}

void Counter(Families& families, const char* name, const char* help, int64_t value) {
  AddMetric(AddFamily(families, name, help, prometheus::MetricType::Counter),
            static_cast<double>(value));
}

void SecondsCounter(Families& families, const char* name, const char* help, double milliseconds) {
  AddMetric(AddFamily(families, name, help, prometheus::MetricType::Counter), milliseconds / 1e3);
}

void AddEngine(Families& out, const EngineStats& s) {
  Gauge(out, "ballast_requests_queued", "Requests that wait for admission.",
        static_cast<double>(s.queued));
  Gauge(out, "ballast_requests_running", "Admitted sequences.", static_cast<double>(s.running));
  Counter(out, "ballast_requests_submitted_total", "Requests taken by the engine.",
          s.submitted_total);
  Counter(out, "ballast_requests_finished_total", "Requests that ended by themselves.",
          s.finished_total);
  Counter(out, "ballast_requests_rejected_total", "Requests refused because the queue was full.",
          s.rejected_total);
  Counter(out, "ballast_requests_cancelled_total", "Requests cancelled before their end.",
          s.cancelled_total);
  Counter(out, "ballast_preemptions_total", "Sequences set aside for lack of KV memory.",
          s.preempted_total);
  Counter(out, "ballast_prompt_tokens_total", "Prompt tokens computed or found cached.",
          s.prompt_tokens_total);
  Counter(out, "ballast_generated_tokens_total", "Tokens generated.", s.generated_tokens_total);
  Counter(out, "ballast_steps_total", "Engine steps.", s.steps_total);
  Counter(out, "ballast_congested_joins_total",
          "Parallel regions whose workers waited for a busy core.", s.congested_joins_total);
  Counter(out, "ballast_grammar_masks_total", "Token masks made for constrained output.",
          s.grammar_masks_total);
  SecondsCounter(out, "ballast_grammar_mask_seconds_total",
                 "Spent making masks, beside the model's step.", s.grammar_mask_ms_total);
  SecondsCounter(out, "ballast_grammar_wait_seconds_total", "That steps waited for masks.",
                 s.grammar_wait_ms_total);
  Gauge(out, "ballast_last_step_seconds", "Duration of the latest step.", s.last_step_ms / 1e3);
  Gauge(out, "ballast_decode_tokens_per_second", "Over the last second of decoding.",
        s.decode_tokens_per_s);
  Gauge(out, "ballast_kv_used_bytes", "KV cache in use.", static_cast<double>(s.kv_used_bytes));
  Gauge(out, "ballast_kv_capacity_bytes", "KV cache at most.",
        static_cast<double>(s.kv_capacity_bytes));
  Gauge(out, "ballast_memory_budget_bytes", "The one memory budget.",
        static_cast<double>(s.budget_bytes));
  auto& owners = AddFamily(out, "ballast_memory_bytes", "The ledger: bytes by owner.",
                           prometheus::MetricType::Gauge);
  for (size_t i = 0; i < kMemoryOwnerLabels.size(); ++i) {
    auto& metric = AddMetric(owners, static_cast<double>(s.memory_by_owner[i]));
    metric.label.push_back({"owner", std::string(kMemoryOwnerLabels[i])});
  }
}

// `scale` turns the engine's unit into the metric's.
void Histogram(Families& families, const char* name, const char* help, const FixedHistogram& from,
               double scale) {
  prometheus::ClientMetric metric;
  uint64_t cumulative = 0;
  for (size_t i = 0; i <= from.bounds().size(); ++i) {
    cumulative += static_cast<uint64_t>(from.bucket_count(i));
    const double bound = i < from.bounds().size() ? from.bounds()[i] * scale
                                                  : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({cumulative, bound});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = from.sum() * scale;
  AddFamily(families, name, help, prometheus::MetricType::Histogram).metric = {std::move(metric)};
}

void AddHistograms(Families& out, const EngineHistograms& h) {
  Histogram(out, "ballast_engine_queue_seconds", "From submission to first admission.", h.queue_ms,
            1e-3);
  Histogram(out, "ballast_engine_ttft_seconds", "From submission to the first token.", h.ttft_ms,
            1e-3);
  Histogram(out, "ballast_engine_inter_token_seconds", "Between tokens of one sequence.",
            h.inter_token_ms, 1e-3);
  Histogram(out, "ballast_engine_step_seconds", "One step, sampling included.", h.step_ms, 1e-3);
  Histogram(out, "ballast_engine_decode_rows", "Sequences of steps that decode.", h.decode_rows, 1);
  Histogram(out, "ballast_engine_prefill_rows", "Prompt rows of steps that prefill.",
            h.prefill_rows, 1);
}

void AddHttp(Families& out, const HttpStats& s) {
  Gauge(out, "ballast_http_connections", "Open connections.", static_cast<double>(s.connections));
  Counter(out, "ballast_http_accepted_total", "Connections accepted.", s.accepted_total);
  Counter(out, "ballast_http_refused_total", "Connections over the limit.", s.refused_total);
  Counter(out, "ballast_http_hangups_total", "Clients that left before their reply had ended.",
          s.hangups_total);
  Counter(out, "ballast_http_slow_dropped_total", "Clients dropped because they did not read.",
          s.slow_dropped_total);
  Counter(out, "ballast_http_timeouts_total", "Requests that did not arrive in time.",
          s.timeouts_total);
}

void AddTenants(Families& out, std::span<const TenantTotals> tenants) {
  struct Row {
    const char* name;
    const char* help;
    int64_t TenantTotals::* field;
  };
  constexpr Row kRows[] = {
      {"ballast_tenant_requests_total", "Requests let in.", &TenantTotals::requests},
      {"ballast_tenant_refused_total", "Requests over a quota.", &TenantTotals::refused},
      {"ballast_tenant_prompt_tokens_total", "Prompt tokens.", &TenantTotals::prompt_tokens},
      {"ballast_tenant_generated_tokens_total", "Tokens generated.",
       &TenantTotals::completion_tokens},
      {"ballast_tenant_requests_running", "Requests being answered.", &TenantTotals::running},
  };
  if (tenants.empty()) return;
  for (const Row& row : kRows) {
    const auto type = row.field == &TenantTotals::running ? prometheus::MetricType::Gauge
                                                          : prometheus::MetricType::Counter;
    auto& family = AddFamily(out, row.name, row.help, type);
    for (const TenantTotals& tenant : tenants) {
      AddMetric(family, static_cast<double>(tenant.*row.field)).label = {{"tenant", tenant.tenant}};
    }
  }
}

}  // namespace

struct ServerMetrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& replies = prometheus::BuildCounter()
                                                         .Name("ballast_http_replies_total")
                                                         .Help("Replies by route and status.")
                                                         .Register(registry);
  prometheus::Family<prometheus::Counter>& tokens =
      prometheus::BuildCounter()
          .Name("ballast_request_tokens_total")
          .Help("Tokens of answered requests: prompt (cached ones included), cached, generated.")
          .Register(registry);
  prometheus::Counter& prompt_tokens = tokens.Add({{"kind", "prompt"}});
  prometheus::Counter& cached_tokens = tokens.Add({{"kind", "cached"}});
  prometheus::Counter& generated_tokens = tokens.Add({{"kind", "generated"}});
  prometheus::Counter& abandoned = prometheus::BuildCounter()
                                       .Name("ballast_requests_abandoned_total")
                                       .Help("Requests cancelled because their client left.")
                                       .Register(registry)
                                       .Add({});
  prometheus::Histogram& first_token =
      prometheus::BuildHistogram()
          .Name("ballast_time_to_first_token_seconds")
          .Help("From a request's arrival to its first token.")
          .Register(registry)
          .Add({}, prometheus::Histogram::BucketBoundaries{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
                                                           10, 30, 60, 300});
  prometheus::Histogram& token_interval =
      prometheus::BuildHistogram()
          .Name("ballast_time_per_output_token_seconds")
          .Help("Mean time between one request's tokens.")
          .Register(registry)
          .Add({}, prometheus::Histogram::BucketBoundaries{0.0025, 0.005, 0.01, 0.02, 0.03, 0.05,
                                                           0.075, 0.1, 0.2, 0.5, 1});
  prometheus::Histogram& generation =
      prometheus::BuildHistogram()
          .Name("ballast_request_duration_seconds")
          .Help("From a request's arrival to its last token.")
          .Register(registry)
          .Add({}, prometheus::Histogram::BucketBoundaries{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
                                                           120, 300, 600});
};

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::CountReply(std::string_view route, int status) {
  impl_->replies.Add({{"route", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}
void ServerMetrics::ObserveFirstToken(double seconds) { impl_->first_token.Observe(seconds); }
void ServerMetrics::ObserveTokenInterval(double seconds) { impl_->token_interval.Observe(seconds); }
void ServerMetrics::ObserveGeneration(double seconds) { impl_->generation.Observe(seconds); }
void ServerMetrics::CountTokens(const Usage& usage) {
  impl_->prompt_tokens.Increment(static_cast<double>(usage.prompt_tokens));
  impl_->cached_tokens.Increment(static_cast<double>(usage.cached_tokens));
  impl_->generated_tokens.Increment(static_cast<double>(usage.completion_tokens));
}
void ServerMetrics::CountAbandoned() { impl_->abandoned.Increment(); }

std::string ServerMetrics::Render(const EngineClient& client, const HttpStats& http,
                                  std::span<const TenantTotals> tenants) const {
  const EngineInfo& info = client.info();
  Families families = impl_->registry.Collect();
  auto& about = AddFamily(families, "ballast_model_info", "The loaded model; always 1.",
                          prometheus::MetricType::Gauge);
  AddMetric(about, 1).label = {{"model", info.model_id},
                               {"architecture", info.architecture},
                               {"isa", info.isa},
                               {"kv_dtype", info.kv_dtype},
                               {"activations", info.activations}};
  AddEngine(families, client.Stats());
  if (const EngineHistograms* histograms = client.histograms()) {
    AddHistograms(families, *histograms);
  }
  AddHttp(families, http);
  AddTenants(families, tenants);
  Gauge(families, "ballast_resident_bytes", "Resident memory of the process.",
        static_cast<double>(ResidentBytes()));
  return prometheus::TextSerializer().Serialize(families);
}

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace ballast
