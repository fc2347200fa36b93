#include "server/console_assets.h"

namespace ballast {

const ConsoleAsset* FindConsoleAsset(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const ConsoleAsset& asset : ConsoleAssets()) {
    if (asset.path == path) return &asset;
  }
  return nullptr;
}

}  // namespace ballast
