#include "server/generation_call.h"

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "server/request_id.h"

namespace ballast {

namespace {

// Comments keep proxies and impatient clients at ease: at least one a second until the first token.
constexpr int64_t kTickMs = 400;
constexpr auto kCommentEvery = std::chrono::milliseconds(550);
constexpr auto kQuietStreamComment = std::chrono::seconds(5);

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

/// Ties one engine request to its call; keeps the call alive until the final event.
class GenerationCall::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<GenerationCall> call, size_t index)
      : call_(std::move(call)), index_(index) {}
  void OnProgress(int64_t done, int64_t total) override { call_->OnProgress(index_, done, total); }
  void OnTokens(TokenEvent event) override { call_->OnTokens(index_, std::move(event)); }
  void OnFinish(FinishEvent event) override { call_->OnFinish(index_, std::move(event)); }
  void OnError(Error error) override { call_->OnError(index_, error); }

 private:
  const std::shared_ptr<GenerationCall> call_;
  const size_t index_;
};

GenerationCall::GenerationCall(Setup setup)
    : setup_(std::move(setup)),
      choices_(setup_.prompts.size() * static_cast<size_t>(setup_.body.n)) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].prompt_total = static_cast<int64_t>(PromptOf(i).size());
    if (setup_.body.endpoint == kChat) {
      choices_[i].parser.emplace(setup_.tool_format, setup_.thinking,
                                 setup_.loose_calls ? setup_.body.generation.grammar : nullptr);
    }
  }
}

void GenerationCall::Run(Setup setup) {
  std::make_shared<GenerationCall>(std::move(setup))->Start();
}

void GenerationCall::Start() {
  const std::weak_ptr<GenerationCall> weak = weak_from_this();
  registration_ = setup_.registry->Add({.id = setup_.reply.id,
                                        .request_id = setup_.log->id(),
                                        .tenant = setup_.body.generation.tenant,
                                        .route = setup_.route,
                                        .model = setup_.reply.model,
                                        .stream = setup_.body.stream,
                                        .choices = static_cast<int64_t>(choices_.size()),
                                        .max_tokens = setup_.body.generation.max_tokens,
                                        .arrived = arrived_},
                                       weak);
  setup_.exchange->OnClosed([weak] {
    if (const auto self = weak.lock()) self->ClientLeft();
  });
  for (size_t i = 0; i < choices_.size(); ++i) {
    GenerationRequest request = setup_.body.generation;
    request.prompt = PromptOf(i);
    // The first choice is what the request alone would get; the others have seeds of their own.
    const uint64_t variant = i % static_cast<size_t>(setup_.body.n);
    if (variant > 0) request.sampling.seed = CounterHash(request.sampling.seed, variant, 0);
    request.echo_progress = true;
    const Result<RequestId> id =
        setup_.engine->Submit(std::move(request), std::make_shared<Sink>(shared_from_this(), i));
    std::vector<RequestId> cancel;
    {
      const std::lock_guard lock(mutex_);
      if (id) {
        choices_[i].id = *id;
        choices_[i].submitted = true;
        // The client may have left, or another choice failed, before the id was known.
        if (over_ && !choices_[i].finished) cancel.push_back(*id);
      } else {
        ApiError error = FromError(id.error());
        if (error.param.empty() && error.code == "context_length_exceeded") {
          error.param = setup_.body.endpoint == kChat ? "messages" : "prompt";
        }
        Fail(error);
        cancel = Unfinished(choices_);
      }
    }
    CancelAll(*setup_.engine, cancel);
    const std::lock_guard lock(mutex_);
    if (over_) return;
  }
  if (!setup_.body.stream) return;
  const std::lock_guard lock(mutex_);
  if (over_) return;
  EnsureStreaming();
  setup_.exchange->Every(kTickMs, [weak] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

void GenerationCall::ClientLeft() {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
    cancel = Unfinished(choices_);
  }
  setup_.metrics->CountAbandoned();
  setup_.metrics->CountReply(setup_.route, kClientLeft);
  CancelAll(*setup_.engine, cancel);
}

LiveProgress GenerationCall::Progress() {
  const std::lock_guard lock(mutex_);
  LiveProgress progress;
  progress.over = over_;
  for (const Choice& choice : choices_) {
    progress.prompt_tokens += choice.prompt_total;
    progress.prompt_done += choice.prompt_done;
    progress.generated_tokens += choice.generated;
  }
  if (progress.prompt_done > 0) progress.state = LiveState::kPrefill;
  if (progress.generated_tokens > 0) progress.state = LiveState::kDecode;
  return progress;
}

bool GenerationCall::Cancel(const ApiError& why) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return false;
    Fail(why);
    cancel = Unfinished(choices_);
  }
  CancelAll(*setup_.engine, cancel);
  return true;
}

void GenerationCall::EnsureStreaming() {
  if (streaming_) return;
  streaming_ = true;
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers = setup_.headers;
  head.headers.emplace_back("Cache-Control", "no-store");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  setup_.exchange->StartStream(std::move(head));
  last_write_ = std::chrono::steady_clock::now();
  if (setup_.body.endpoint != kChat) return;
  Json delta;
  delta["role"] = "assistant";
  delta["content"] = "";
  for (size_t i = 0; i < choices_.size(); ++i) WriteChoice(i, delta, nullptr, nullptr);
}

void GenerationCall::WriteData(const Json& json) {
  setup_.exchange->Write(SseData(json));
  last_write_ = std::chrono::steady_clock::now();
}

void GenerationCall::WriteChoice(size_t index, const Json& delta, const Json& logprobs,
                                 const Json& finish) {
  Json choice;
  choice["index"] = index;
  if (setup_.body.endpoint == kChat) {
    choice["delta"] = delta;
  } else {
    choice["text"] = delta;
  }
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = finish;
  if (const std::string& stop = choices_[index].stop; !finish.is_null() && !stop.empty()) {
    choice["stop_reason"] = stop;
  }
  Json chunk = ReplyEnvelope(setup_.reply, /*streamed=*/true);
  chunk["choices"] = Json::array({std::move(choice)});
  if (setup_.body.include_usage) chunk["usage"] = nullptr;
  const bool last_chunk = !finish.is_null() && !setup_.body.include_usage;
  if (!finish.is_null() && !setup_.warnings.empty()) chunk["warnings"] = setup_.warnings;
  if (last_chunk) {
    chunk["timings"] = TimingsJson(choices_[index].usage, choices_[index].timings);
  }
  WriteData(chunk);
}

void GenerationCall::Tick() {
  const std::lock_guard lock(mutex_);
  if (over_ || !streaming_) return;
  const auto quiet = std::chrono::steady_clock::now() - last_write_;
  if (first_token_ != Time::max()) {
    if (quiet >= kQuietStreamComment) {
      setup_.exchange->Write(": generating\n\n");
      last_write_ = std::chrono::steady_clock::now();
    }
    return;
  }
  if (quiet < kCommentEvery) return;
  int64_t done = 0;
  int64_t total = 0;
  for (const Choice& choice : choices_) {
    done += choice.prompt_done;
    total += choice.prompt_total;
  }
  setup_.exchange->Write(fmt::format(": prefill {}/{}\n\n", done, total));
  last_write_ = std::chrono::steady_clock::now();
}

void GenerationCall::OnProgress(size_t index, int64_t done, int64_t total) {
  const std::lock_guard lock(mutex_);
  choices_[index].prompt_done = done;
  choices_[index].prompt_total = total;
}

void GenerationCall::OnTokens(size_t index, TokenEvent event) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  Choice& choice = choices_[index];
  if (first_token_ == Time::max()) {
    first_token_ = std::chrono::steady_clock::now();
    setup_.metrics->ObserveFirstToken(Seconds(first_token_ - arrived_));
  }
  choice.prompt_done = choice.prompt_total;
  choice.generated += static_cast<int64_t>(event.tokens.size());
  const bool chat = setup_.body.endpoint == kChat;
  Json logprobs;
  Json& target = setup_.body.stream ? logprobs : choice.logprobs;
  if (!event.logprobs.empty()) {
    if (chat) {
      AppendChatLogprobs(event, target);
    } else {
      AppendCompletionLogprobs(event, choice.text_offset, target);
    }
  }
  if (setup_.body.stream) EnsureStreaming();
  TakeText(index, event.text, /*last=*/false, std::move(logprobs));
}

void GenerationCall::TakeText(size_t index, std::string_view text, bool last, Json logprobs) {
  Choice& choice = choices_[index];
  const bool stream = setup_.body.stream;
  if (!choice.parser) {
    if (!stream) choice.text += text;
    if (stream && (!text.empty() || !logprobs.is_null()))
      WriteChoice(index, text, logprobs, nullptr);
    return;
  }
  ReplyPieces pieces;
  choice.parser->Push(text, &pieces);
  if (last) choice.parser->Finish(&pieces);
  // Log probabilities belong to tokens, not to pieces: they go with the first, or alone.
  if (stream && pieces.empty() && !logprobs.is_null()) {
    pieces.push_back({ReplyPiece::Kind::kContent, ""});
  }
  for (const ReplyPiece& piece : pieces) {
    const Json delta = TakePiece(choice, piece);
    if (stream) WriteChoice(index, delta, std::exchange(logprobs, nullptr), nullptr);
  }
}

Json GenerationCall::TakePiece(Choice& choice, const ReplyPiece& piece) const {
  const bool whole = !setup_.body.stream;
  switch (piece.kind) {
    case ReplyPiece::Kind::kContent:
      if (whole) choice.text += piece.text;
      return Json{{"content", piece.text}};
    case ReplyPiece::Kind::kReasoning:
      if (whole) choice.reasoning += piece.text;
      return Json{{"reasoning_content", piece.text}};
    case ReplyPiece::Kind::kCall: {
      Json call;
      call["id"] = RandomId("call_");
      call["type"] = "function";
      call["function"] = Json{{"name", piece.text}, {"arguments", ""}};
      choice.tool_calls.push_back(call);
      Json first;
      first["index"] = choice.tool_calls.size() - 1;
      first.update(call);
      return Json{{"tool_calls", Json::array({std::move(first)})}};
    }
    case ReplyPiece::Kind::kArguments: {
      if (whole) {
        Json& arguments = choice.tool_calls.back()["function"]["arguments"];
        arguments.get_ref<std::string&>() += piece.text;
      }
      Json more;
      more["index"] = choice.tool_calls.size() - 1;
      more["function"] = Json{{"arguments", piece.text}};
      return Json{{"tool_calls", Json::array({std::move(more)})}};
    }
  }
  return Json::object();
}

std::string_view GenerationCall::Ending(const Choice& choice) const {
  const bool called = choice.reason == FinishReason::kStop && !choice.tool_calls.empty();
  return called ? "tool_calls" : FinishReasonName(choice.reason);
}

void GenerationCall::OnFinish(size_t index, FinishEvent event) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    Choice& choice = choices_[index];
    choice.finished = true;
    choice.reason = event.reason;
    choice.stop = event.stop;
    choice.usage = event.usage;
    choice.timings = event.timings;
    setup_.log->SetUsage(TotalUsage(), TotalTimings());
    // As in `usage`: the choices of a prompt share it.
    const bool first = index % static_cast<size_t>(setup_.body.n) == 0;
    setup_.account->AddUsage(first ? event.usage.prompt_tokens : 0, event.usage.completion_tokens);
    if (over_) return;
    if (event.reason == FinishReason::kCancelled || event.reason == FinishReason::kDeadline) {
      Fail(EndedEarly(event.reason));
      cancel = Unfinished(choices_);
    } else {
      if (setup_.body.stream) EnsureStreaming();
      TakeText(index, event.text, /*last=*/true, nullptr);
      if (setup_.body.stream) {
        const Json delta = choice.parser ? Json::object() : Json("");
        WriteChoice(index, delta, nullptr, Ending(choice));
      }
      const bool all = std::all_of(choices_.begin(), choices_.end(),
                                   [](const Choice& other) { return other.finished; });
      if (all) Complete();
    }
  }
  CancelAll(*setup_.engine, cancel);
}

void GenerationCall::OnError(size_t index, const Error& error) {
  std::vector<RequestId> cancel;
  {
    const std::lock_guard lock(mutex_);
    choices_[index].finished = true;
    if (over_) return;
    Fail(FromError(error));
    cancel = Unfinished(choices_);
  }
  CancelAll(*setup_.engine, cancel);
}

void GenerationCall::Fail(const ApiError& error) {
  if (over_) return;
  over_ = true;
  setup_.log->SetError(error.code);
  setup_.account->End(error.status);
  setup_.metrics->CountReply(setup_.route, error.status);
  if (!streaming_) {
    HttpResponse response = ErrorResponse(error);
    response.headers.insert(response.headers.end(), setup_.headers.begin(), setup_.headers.end());
    setup_.exchange->Send(std::move(response));
    return;
  }
  // The status line has long gone out. No [DONE] follows, so a cut stream never looks complete.
  Json json;
  json["error"] = ErrorObject(error);
  WriteData(json);
  setup_.exchange->Finish();
}

void GenerationCall::Complete() {
  over_ = true;
  setup_.account->End(200);
  Observe();
  setup_.metrics->CountReply(setup_.route, 200);
  if (setup_.body.stream) {
    EndStream();
  } else {
    SendWhole();
  }
}

void GenerationCall::Observe() const {
  setup_.metrics->CountTokens(TotalUsage());
  setup_.metrics->ObserveGeneration(Seconds(std::chrono::steady_clock::now() - arrived_));
  for (const Choice& choice : choices_) {
    if (choice.usage.completion_tokens < 2) continue;
    const auto intervals = static_cast<double>(choice.usage.completion_tokens - 1);
    setup_.metrics->ObserveTokenInterval(choice.timings.predicted_ms / 1e3 / intervals);
  }
}

Usage GenerationCall::TotalUsage() const {
  Usage total;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Usage& usage = choices_[i].usage;
    total.completion_tokens += usage.completion_tokens;
    if (i % static_cast<size_t>(setup_.body.n) != 0) continue;  // the same prompt again
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
  }
  return total;
}

// Prompts of one call run side by side, so times are the longest and not the sum.
Timings GenerationCall::TotalTimings() const {
  Timings total;
  for (const Choice& choice : choices_) {
    total.queue_ms = std::max(total.queue_ms, choice.timings.queue_ms);
    total.prompt_ms = std::max(total.prompt_ms, choice.timings.prompt_ms);
    total.predicted_ms = std::max(total.predicted_ms, choice.timings.predicted_ms);
    total.preemptions += choice.timings.preemptions;
  }
  return total;
}

Json GenerationCall::ChoiceJson(size_t index) const {
  const Choice& choice = choices_[index];
  Json json;
  json["index"] = index;
  if (setup_.body.endpoint == kChat) {
    const bool silent = choice.text.empty() && !choice.tool_calls.empty();
    Json message = Json{{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
    if (!silent) message["content"] = choice.text;
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    if (!choice.tool_calls.empty()) message["tool_calls"] = choice.tool_calls;
    json["message"] = std::move(message);
  } else {
    json["text"] = choice.text;
  }
  json["logprobs"] = choice.logprobs;
  json["finish_reason"] = Ending(choice);
  if (!choice.stop.empty()) json["stop_reason"] = choice.stop;
  return json;
}

void GenerationCall::SendWhole() {
  Json json = ReplyEnvelope(setup_.reply, /*streamed=*/false);
  json["choices"] = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) json["choices"].push_back(ChoiceJson(i));
  json["usage"] = UsageJson(TotalUsage());
  json["timings"] = TimingsJson(TotalUsage(), TotalTimings());
  if (!setup_.warnings.empty()) json["warnings"] = setup_.warnings;
  HttpResponse response;
  response.body = DumpJson(json);
  response.headers = setup_.headers;
  setup_.exchange->Send(std::move(response));
}

void GenerationCall::EndStream() {
  if (setup_.body.include_usage) {
    Json chunk = ReplyEnvelope(setup_.reply, /*streamed=*/true);
    chunk["choices"] = Json::array();
    chunk["usage"] = UsageJson(TotalUsage());
    chunk["timings"] = TimingsJson(TotalUsage(), TotalTimings());
    WriteData(chunk);
  }
  setup_.exchange->Write("data: [DONE]\n\n");
  setup_.exchange->Finish();
}

}  // namespace ballast
