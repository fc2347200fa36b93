// Role: runs another engine's benchmark program (llama-bench, mainline's or ik's options) for one
// measurement and reads its figure. The program is the user's; nothing of it is built here.
// Thread: main only; blocks while the program runs.
#ifndef BALLAST_CLI_BENCH_PEER_H_
#define BALLAST_CLI_BENCH_PEER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ballast {

/// One row of the speed table.
struct SpeedCase {
  enum class Kind { kPrefill, kDecode } kind = Kind::kPrefill;
  int64_t tokens = 0;  // prompt length, or tokens decoded a sequence
  int64_t depth = 0;   // tokens in the cache before
  int32_t batch = 1;   // sequences decoding at once
};

/// A peer: a program, or figures from a file.
class BenchPeer {
 public:
  virtual ~BenchPeer() = default;
  virtual const std::string& name() const = 0;
  /// Tokens per second, summed over the batch. Errors: kUnimplemented when the peer has no way to
  /// measure this case; others when it failed.
  virtual Result<double> Measure(const SpeedCase& speed_case) = 0;
};

/// Parses NAME=COMMAND ARGS and finds out which options the program knows.
/// For batches > 1 a program named llama-batched-bench beside it is used.
Result<std::unique_ptr<BenchPeer>> MakeProgramPeer(const std::string& spec,
                                                   const std::string& model_path, int32_t threads);

/// Parses NAME=FILE: JSON [{"kind": "prefill", "n": 512, "depth": 0, "batch": 1, "tokens_per_s":
/// x}].
Result<std::unique_ptr<BenchPeer>> MakeFilePeer(const std::string& spec);

/// Splits NAME=REST. Errors: kInvalidArgument naming the flag.
Result<std::pair<std::string, std::string>> SplitPeerSpec(const std::string& flag,
                                                          const std::string& spec);

}  // namespace ballast

#endif  // BALLAST_CLI_BENCH_PEER_H_
