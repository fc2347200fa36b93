// Role: the command line of make_model_lib.h.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/make_model_lib.h"

int main(int argc, char** argv) {
  ballast::ModelRecipe recipe;
  std::string format = "gguf", out;
  bool no_chat_template = false, tied = false, untied = false;
  CLI::App app("Writes a small seeded model. Options left out take the architecture's defaults.");
  app.add_option("--arch", recipe.architecture,
                 fmt::format("{}", fmt::join(ballast::SeededArchitectures(), ", ")));
  app.add_option("--type", recipe.type,
                 "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, mixed");
  app.add_option("--layers", recipe.layers);
  app.add_option("--hidden", recipe.hidden);
  app.add_option("--heads", recipe.heads);
  app.add_option("--kv-heads", recipe.kv_heads);
  app.add_option("--head-dim", recipe.head_dim);
  app.add_option("--ffn", recipe.ffn);
  app.add_option("--vocab", recipe.vocab);
  app.add_option("--context", recipe.context);
  app.add_option("--sliding-window", recipe.sliding_window, "gemma3: tokens");
  app.add_option("--seed", recipe.seed);
  app.add_option("--format", format, "gguf (a file) or safetensors (a directory)")
      ->check(CLI::IsMember({"gguf", "safetensors"}));
  app.add_option("--shards", recipe.shards, "safetensors: files");
  auto* tied_flag = app.add_flag("--tied", tied, "the head is the embedding");
  app.add_flag("--untied", untied, "the head is a matrix of its own")->excludes(tied_flag);
  app.add_flag("--no-chat-template", no_chat_template);
  app.add_option("--out", out, "path to write")->required();
  CLI11_PARSE(app, argc, argv);
  recipe.chat_template = !no_chat_template;
  if (tied) recipe.tying = ballast::HeadTying::kTied;
  if (untied) recipe.tying = ballast::HeadTying::kUntied;
  if (format == "safetensors") recipe.format = ballast::ModelFileFormat::kSafetensors;
  const ballast::Status status = ballast::MakeModel(recipe, out);
  if (!status) {
    std::fprintf(stderr, "make_model: %s\n", status.error().message.c_str());
    return ballast::ExitCode(status.error().code);
  }
  return 0;
}
