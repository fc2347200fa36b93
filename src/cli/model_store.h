// Role: what commands do with named models: make sure that one is on disk.
// Thread: main only; blocks on the network.
#ifndef BALLAST_CLI_MODEL_STORE_H_
#define BALLAST_CLI_MODEL_STORE_H_

#include <string>

#include "base/result.h"
#include "catalog/catalog.h"
#include "cli/progress.h"

namespace ballast {

/// Resolves `name` and fetches the model if it is missing.
Result<ResolvedModel> EnsureModel(const std::string& name, ProgressMode mode);

}  // namespace ballast

#endif  // BALLAST_CLI_MODEL_STORE_H_
