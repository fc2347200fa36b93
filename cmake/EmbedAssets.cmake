# Writes a .cc with every file below DIST as a ConsoleAsset. Run by cmake -P with DIST and OUT.
file(GLOB_RECURSE files RELATIVE ${DIST} ${DIST}/*)
list(SORT files)
list(FILTER files EXCLUDE REGEX "source\\.sha256$")
set(arrays "")
set(rows "")
set(index 0)
foreach(file IN LISTS files)
  file(READ ${DIST}/${file} hex HEX)
  file(SHA256 ${DIST}/${file} hash)
  # A literal a line: short enough for every compiler.
  string(REGEX REPLACE "(................................)" "\\1|" escaped "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${escaped}")
  string(REPLACE "|" "\"\n    \"" escaped "${escaped}")
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  if(file MATCHES "\\.html$")
    set(type "text/html; charset=utf-8")
  elseif(file MATCHES "\\.js$")
    set(type "text/javascript; charset=utf-8")
  elseif(file MATCHES "\\.css$")
    set(type "text/css; charset=utf-8")
  elseif(file MATCHES "\\.svg$")
    set(type "image/svg+xml")
  else()
    set(type "application/octet-stream")
  endif()
  string(APPEND arrays "constexpr char kFile${index}[] =\n    \"${escaped}\";\n")
  string(APPEND rows "    {\"/${file}\", \"${type}\", \"${hash}\", {kFile${index}, ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUT} "// Generated from web/dist; do not edit.
#include \"server/console_assets.h\"

namespace ballast {
namespace {
${arrays}
constexpr ConsoleAsset kAssets[] = {
${rows}};
}  // namespace

std::span<const ConsoleAsset> ConsoleAssets() { return kAssets; }

}  // namespace ballast
")
