// Role: `ballast run`: a chat in the terminal. Thread: main reads and prints; the engine thread
// delivers text to a sink that hands it over.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/runtime.h"

namespace ballast {

namespace {

constexpr int32_t kRunStepRows = 512;
constexpr int64_t kPollMs = 50;  // how soon Ctrl-C is noticed

std::atomic<bool> g_interrupted{false};  // set by the signal handler, which can reach nothing else
void OnInterrupt(int) { g_interrupted.store(true); }

// Prints text as it arrives and lets main wait for the end.
class TerminalSink final : public RequestSink {
 public:
  void OnProgress(int64_t, int64_t) override {}
  void OnTokens(TokenEvent event) override { Print(event.text); }
  void OnFinish(FinishEvent event) override {
    Print(event.text);
    const std::lock_guard lock(mutex_);
    finish_ = std::move(event);
    done_.notify_all();
  }
  void OnError(Error error) override {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_.notify_all();
  }

  /// Waits for the final event; calls `cancel` once when Ctrl-C is pressed.
  template <class Cancel>
  Result<FinishEvent> Wait(Cancel cancel) {
    std::unique_lock lock(mutex_);
    bool cancelled = false;
    while (!finish_.has_value() && !error_.has_value()) {
      done_.wait_for(lock, std::chrono::milliseconds(kPollMs));
      if (g_interrupted.load() && !cancelled) {
        cancelled = true;
        lock.unlock();
        cancel();
        lock.lock();
      }
    }
    if (error_.has_value()) return *error_;
    return *finish_;
  }
  const std::string& text() const { return text_; }

 private:
  void Print(const std::string& text) {
    text_ += text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<FinishEvent> finish_;
  std::optional<Error> error_;
  std::string text_;
};

class Chat {
 public:
  Chat(const Options& options, Engine& engine) : options_(options), engine_(engine) {
    if (!options.system.empty()) Append("system", options.system);
  }

  Status Turn(const std::string& user_text) {
    Append("user", user_text);
    GenerationRequest request;
    ASSIGN_OR_RETURN(request.prompt, PromptTokens(user_text));
    request.sampling.temperature = options_.temperature;
    request.sampling.seed = options_.seed;
    request.max_tokens = options_.max_tokens;
    auto sink = std::make_shared<TerminalSink>();
    g_interrupted.store(false);
    ASSIGN_OR_RETURN(const RequestId id, engine_.Submit(std::move(request), sink));
    ASSIGN_OR_RETURN(const FinishEvent finish, sink->Wait([&] { engine_.Cancel(id); }));
    std::printf("\n");
    Append("assistant", sink->text());
    if (isatty(STDERR_FILENO) == 1) PrintSpeed(finish);
    return OkStatus();
  }

 private:
  void Append(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }

  // Without a template the model continues the plain text.
  Result<std::vector<TokenId>> PromptTokens(const std::string& user_text) const {
    const Tokenizer& tokenizer = engine_.tokenizer();
    std::vector<TokenId> tokens;
    if (const ChatTemplate* chat = engine_.chat_template(); chat != nullptr) {
      const auto name = [&](std::optional<TokenId> token) {
        return token.has_value() ? tokenizer.TokenBytes(*token) : std::string();
      };
      ASSIGN_OR_RETURN(const auto spans,
                       chat->Render(messages_, Json(), true, Json::object(), name(tokenizer.bos()),
                                    name(tokenizer.eos())));
      tokens = tokenizer.EncodeSpans(spans);
    } else {
      tokens = tokenizer.Encode(user_text);
    }
    EnsureBos(tokenizer, &tokens);
    return tokens;
  }

  static void PrintSpeed(const FinishEvent& finish) {
    const double decode_s = finish.timings.predicted_ms / 1000;
    std::fprintf(
        stderr, "\033[2m[%lld prompt tokens, %lld new, %.1f tokens/s]\033[0m\n",
        static_cast<long long>(finish.usage.prompt_tokens),
        static_cast<long long>(finish.usage.completion_tokens),
        decode_s > 0 ? static_cast<double>(finish.usage.completion_tokens - 1) / decode_s : 0.0);
  }

  const Options& options_;
  Engine& engine_;
  Json messages_ = Json::array();
};

}  // namespace

Status CommandRun(const Options& options) {
  ASSIGN_OR_RETURN(Runtime runtime, LoadRuntime(options, kRunStepRows, KvBudget::kWholeBudget, 0));
  const std::string name = runtime.name;
  ASSIGN_OR_RETURN(const auto engine, StartEngine(options, std::move(runtime)));
  Chat chat(options, *engine);
  if (!options.prompt.empty()) return chat.Turn(options.prompt);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) {
    std::printf("%s. %s Ctrl-C stops an answer, Ctrl-D leaves.\n", name.c_str(),
                engine->chat_template() == nullptr
                    ? "The model has no chat template: it continues what you type."
                    : "Ask something.");
  }
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
  std::string line;
  for (;;) {
    if (terminal) std::printf(">>> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    const Status status = chat.Turn(line);
    if (!status.has_value()) {
      // A conversation that outgrew the context ends; a scripted one fails.
      if (!terminal) return status;
      std::fprintf(stderr, "ballast: %s\n", status.error().message.c_str());
    }
  }
  if (terminal) std::printf("\n");
  return OkStatus();
}

}  // namespace ballast
