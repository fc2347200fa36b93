#include "server/embedding_call.h"

#include <algorithm>
#include <utility>

#include "server/request_id.h"

namespace ballast {

namespace {

// Enough to fill a step, few enough to leave the queue to others.
constexpr size_t kInFlight = 8;

}  // namespace

/// Ties one engine request to its call; keeps the call alive until the final event.
class EmbeddingCall::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<EmbeddingCall> call, size_t index) : call_(std::move(call)), index_(index) {}
  void OnProgress(int64_t done, int64_t) override { call_->OnProgress(index_, done); }
  void OnTokens(TokenEvent) override {}
  void OnFinish(FinishEvent event) override { call_->OnFinish(index_, std::move(event)); }
  void OnError(Error error) override { call_->OnError(index_, error); }

 private:
  const std::shared_ptr<EmbeddingCall> call_;
  const size_t index_;
};

EmbeddingCall::EmbeddingCall(Setup setup)
    : setup_(std::move(setup)), inputs_(setup_.body.inputs.size()) {}

void EmbeddingCall::Run(Setup setup) { std::make_shared<EmbeddingCall>(std::move(setup))->Start(); }

void EmbeddingCall::Start() {
  registration_ = setup_.registry->Add({.id = RandomId("embd-"),
                                        .request_id = setup_.log->id(),
                                        .tenant = setup_.request.tenant,
                                        .route = setup_.route,
                                        .model = setup_.model},
                                       weak_from_this());
  setup_.exchange->OnClosed([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ClientLeft();
  });
  for (size_t i = 0; i < std::min(kInFlight, inputs_.size()); ++i) SubmitNext();
}

void EmbeddingCall::SubmitNext() {
  size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (over_ || next_ == inputs_.size()) return;
    index = next_++;
  }
  GenerationRequest request = setup_.request;
  request.prompt = setup_.body.inputs[index];
  request.pooling = setup_.body.pooling;
  request.echo_progress = true;
  const Result<RequestId> id =
      setup_.engine->Submit(std::move(request), std::make_shared<Sink>(shared_from_this(), index));
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (id) {
      inputs_[index].id = *id;
      inputs_[index].submitted = true;
      // The client may have left, or another input failed, before the id was known.
      if (over_ && !inputs_[index].finished) cancel.push_back(*id);
    } else {
      ApiError error = FromError(id.error());
      if (error.param.empty() && error.status == 400) error.param = fmt::format("input[{}]", index);
      cancel = Fail(error);
    }
  }
  CancelAll(*setup_.engine, cancel);
}

void EmbeddingCall::ClientLeft() {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
    cancel = Unfinished(inputs_);
  }
  setup_.metrics->CountAbandoned();
  setup_.metrics->CountReply(setup_.route, kClientLeft);
  CancelAll(*setup_.engine, cancel);
}

LiveProgress EmbeddingCall::Progress() {
  const std::lock_guard lock(mutex_);
  LiveProgress progress;
  progress.over = over_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    progress.prompt_tokens += static_cast<int64_t>(setup_.body.inputs[i].size());
    progress.prompt_done += inputs_[i].prompt_done;
  }
  if (progress.prompt_done > 0) progress.state = LiveState::kPrefill;
  return progress;
}

bool EmbeddingCall::Cancel(const ApiError& why) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return false;
    cancel = Fail(why);
  }
  CancelAll(*setup_.engine, cancel);
  return true;
}

void EmbeddingCall::OnProgress(size_t index, int64_t done) {
  const std::lock_guard lock(mutex_);
  inputs_[index].prompt_done = done;
}

void EmbeddingCall::OnFinish(size_t index, FinishEvent event) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    inputs_[index].finished = true;
    setup_.account->AddUsage(event.usage.prompt_tokens, 0);
    if (over_) return;
    if (event.embedding.empty()) {
      cancel = Fail(EndedEarly(event.reason));
    } else {
      inputs_[index].embedding = Shorten(std::move(event.embedding), setup_.body.dimensions);
      prompt_tokens_ += event.usage.prompt_tokens;
      if (++finished_ == inputs_.size()) SendReply();
    }
  }
  CancelAll(*setup_.engine, cancel);
  SubmitNext();
}

void EmbeddingCall::OnError(size_t index, const Error& error) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    inputs_[index].finished = true;
    if (over_) return;
    cancel = Fail(FromError(error));
  }
  CancelAll(*setup_.engine, cancel);
}

std::vector<RequestId> EmbeddingCall::Fail(const ApiError& error) {
  if (over_) return {};
  over_ = true;
  setup_.log->SetError(error.code);
  setup_.metrics->CountReply(setup_.route, error.status);
  HttpResponse response = ErrorResponse(error);
  response.headers.insert(response.headers.end(), setup_.headers.begin(), setup_.headers.end());
  setup_.exchange->Send(std::move(response));
  return Unfinished(inputs_);
}

// Written by hand: a JSON tree of millions of numbers would take a hundred bytes each.
void EmbeddingCall::SendReply() {
  over_ = true;
  Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  setup_.log->SetUsage(usage, {});
  setup_.metrics->CountTokens(usage);
  setup_.metrics->CountReply(setup_.route, 200);
  std::string body = R"({"object":"list","data":[)";
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (i > 0) body.push_back(',');
    body += fmt::format(R"({{"object":"embedding","index":{},"embedding":)", i);
    body += setup_.body.base64 ? '"' + Base64Floats(inputs_[i].embedding) + '"'
                               : FloatArray(inputs_[i].embedding);
    body.push_back('}');
  }
  body += fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                      DumpJson(Json(setup_.model)), prompt_tokens_, prompt_tokens_);
  HttpResponse response;
  response.body = std::move(body);
  response.headers = setup_.headers;
  setup_.exchange->Send(std::move(response));
}

}  // namespace ballast
