// Role: a server without a model, for client and browser tests: ballast_fake_server [--name value]…
// Prints {"port": N} and serves until its input ends.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "server/server.h"
#include "server/testing/fake_engine.h"

int main(int argc, char** argv) {
  ballast::FakeEngine::Options engine_options;
  engine_options.model_id = "smollm2-135m-instruct";
  engine_options.reply = "The capital of France is Paris. The capital of Italy is Rome.";
  ballast::ServerOptions options;
  options.port = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--step-ms") {
      engine_options.step_ms = std::atoll(value);
    } else if (name == "--context") {
      engine_options.context = std::atoll(value);
    } else if (name == "--queue") {
      engine_options.queue_limit = static_cast<size_t>(std::atoll(value));
    } else if (name == "--running") {
      engine_options.max_running = static_cast<size_t>(std::atoll(value));
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  ballast::FakeEngine engine(engine_options);
  auto server = ballast::Server::Start(options, engine);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("{\"port\": %d}\n", (*server)->port());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  (*server)->Stop();
  return 0;
}
