// Replies with tool calls, cut at any place. The first byte picks format, thinking and cut. Reading
// never fails, and what is read does not depend on the cut; a name comes before its arguments.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tools/call_parser.h"

namespace {

using ballast::ReplyPiece;
using ballast::ReplyPieces;

ReplyPieces Read(const ballast::ToolFormat* format, bool thinking, std::string_view text,
                 size_t cut) {
  ballast::ReplyParser parser(format, thinking);
  ReplyPieces pieces;
  parser.Push(text.substr(0, cut), &pieces);
  parser.Push(text.substr(cut), &pieces);
  parser.Finish(&pieces);
  return pieces;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto formats = ballast::ToolFormats();
  const size_t pick = data[0] % (formats.size() + 1);
  const ballast::ToolFormat* format = pick < formats.size() ? formats[pick] : nullptr;
  const bool thinking = data[0] >= 128;
  const ReplyPieces whole = Read(format, thinking, text, 0);
  if (Read(format, thinking, text, text.size() / 2) != whole) std::abort();
  if (Read(format, thinking, text, data[0] % (text.size() + 1)) != whole) std::abort();
  bool called = false;
  for (const ReplyPiece& piece : whole) {
    if (piece.kind == ReplyPiece::Kind::kCall) called = true;
    if (piece.kind == ReplyPiece::Kind::kArguments && !called) std::abort();
  }
  return 0;
}
