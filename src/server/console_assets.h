// Role: the console's built files (web/dist), compiled into the program. Thread: immutable.
#ifndef BALLAST_SERVER_CONSOLE_ASSETS_H_
#define BALLAST_SERVER_CONSOLE_ASSETS_H_

#include <span>
#include <string_view>

namespace ballast {

struct ConsoleAsset {
  std::string_view path;  // "/assets/index.js"
  std::string_view content_type;
  std::string_view sha256;  // of the body, hex
  std::string_view body;
};

/// All files; defined in code that CMake generates from web/dist.
std::span<const ConsoleAsset> ConsoleAssets();

/// The file at `path` ("/" is index.html), or null.
const ConsoleAsset* FindConsoleAsset(std::string_view path);

}  // namespace ballast

#endif  // BALLAST_SERVER_CONSOLE_ASSETS_H_
