#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/unicode.h"

namespace ballast::jinja {
namespace {

/// str.splitlines ends lines at these.
bool IsLineBreak(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool Matches(uint32_t c, std::string_view character, std::optional<std::string_view> characters) {
  if (!characters) return IsPythonSpace(c);
  return characters->find(character) != std::string_view::npos;
}

/// The start of the character that ends at `end`.
size_t PreviousStart(std::string_view bytes, size_t end) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && (static_cast<uint8_t>(bytes[start]) & 0xC0) == 0x80) {
    --start;
  }
  return start;
}

/// Byte offsets of all characters, and the end.
std::vector<size_t> Offsets(std::string_view bytes) {
  std::vector<size_t> offsets;
  offsets.reserve(bytes.size() + 1);
  for (size_t i = 0; i < bytes.size(); i += DecodeUtf8(bytes, i).length) offsets.push_back(i);
  offsets.push_back(bytes.size());
  return offsets;
}

std::vector<Value> SplitSpaces(const Text& text, int64_t limit) {
  std::vector<Value> parts;
  const std::string_view bytes = text.bytes;
  size_t i = 0;
  auto skip = [&](bool spaces) {
    while (i < bytes.size()) {
      const Utf8Step step = DecodeUtf8(bytes, i);
      if (IsPythonSpace(step.code_point) != spaces) return;
      i += step.length;
    }
  };
  while (true) {
    skip(true);
    if (i >= bytes.size()) return parts;
    const size_t start = i;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(Value::String(Substring(text, start, bytes.size())));
      return parts;
    }
    skip(false);
    parts.push_back(Value::String(Substring(text, start, i)));
  }
}

std::vector<Value> RSplitSpaces(const Text& text, int64_t limit) {
  if (limit < 0) return SplitSpaces(text, -1);
  std::vector<Value> parts;
  Text rest = Strip(text, Side::kRight, std::nullopt);
  while (!rest.bytes.empty()) {
    size_t start = rest.bytes.size();
    while (start > 0) {
      const size_t previous = PreviousStart(rest.bytes, start);
      if (IsPythonSpace(DecodeUtf8(rest.bytes, previous).code_point)) break;
      start = previous;
    }
    if (limit-- == 0) {
      parts.push_back(Value::String(std::move(rest)));
      break;
    }
    parts.push_back(Value::String(Substring(rest, start, rest.bytes.size())));
    rest = Strip(Substring(rest, 0, start), Side::kRight, std::nullopt);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text Substring(const Text& text, size_t begin, size_t end) {
  TextBuilder builder;
  builder.Append(text, begin, end);
  return builder.Take();
}

Text Strip(const Text& text, Side side, std::optional<std::string_view> characters) {
  const std::string_view bytes = text.bytes;
  size_t begin = 0;
  size_t end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end) {
      const Utf8Step step = DecodeUtf8(bytes, begin);
      if (!Matches(step.code_point, bytes.substr(begin, step.length), characters)) break;
      begin += step.length;
    }
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      const size_t start = PreviousStart(bytes, end);
      const Utf8Step step = DecodeUtf8(bytes, start);
      if (!Matches(step.code_point, bytes.substr(start, end - start), characters)) break;
      end = start;
    }
  }
  return Substring(text, begin, end);
}

std::vector<Value> Split(const Text& text, std::optional<std::string_view> separator, int64_t limit,
                         bool from_right) {
  if (!separator) return from_right ? RSplitSpaces(text, limit) : SplitSpaces(text, limit);
  if (separator->empty()) Fail("empty separator");
  std::vector<Value> parts;
  const std::string_view bytes = text.bytes;
  auto more = [&] { return limit < 0 || static_cast<int64_t>(parts.size()) < limit; };
  if (from_right) {
    size_t end = bytes.size();
    while (more() && end >= separator->size()) {
      const size_t at = bytes.rfind(*separator, end - separator->size());
      if (at == std::string_view::npos) break;
      parts.push_back(Value::String(Substring(text, at + separator->size(), end)));
      end = at;
    }
    parts.push_back(Value::String(Substring(text, 0, end)));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  size_t start = 0;
  while (more()) {
    const size_t at = bytes.find(*separator, start);
    if (at == std::string_view::npos) break;
    parts.push_back(Value::String(Substring(text, start, at)));
    start = at + separator->size();
  }
  parts.push_back(Value::String(Substring(text, start, bytes.size())));
  return parts;
}

std::vector<Value> SplitLines(const Text& text, bool keep_ends) {
  std::vector<Value> lines;
  const std::string_view bytes = text.bytes;
  size_t start = 0;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = DecodeUtf8(bytes, i);
    const size_t line_end = i;
    i += step.length;
    if (!IsLineBreak(step.code_point)) continue;
    if (step.code_point == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    lines.push_back(Value::String(Substring(text, start, keep_ends ? i : line_end)));
    start = i;
  }
  if (start < bytes.size()) {
    lines.push_back(Value::String(Substring(text, start, bytes.size())));
  }
  return lines;
}

Text Replace(const Text& text, std::string_view from, const Text& to, int64_t limit) {
  TextBuilder builder;
  const std::string_view bytes = text.bytes;
  size_t start = 0;
  if (from.empty()) {
    // Between all characters, as Python does.
    int64_t count = 0;
    for (size_t i = 0;;) {
      if (limit >= 0 && count++ >= limit) {
        builder.Append(text, i, bytes.size());
        break;
      }
      builder.Append(to);
      if (i >= bytes.size()) break;
      const size_t next = i + DecodeUtf8(bytes, i).length;
      builder.Append(text, i, next);
      i = next;
    }
    return builder.Take();
  }
  for (int64_t count = 0; limit < 0 || count < limit; ++count) {
    const size_t at = bytes.find(from, start);
    if (at == std::string_view::npos) break;
    builder.Append(text, start, at);
    builder.Append(to);
    start = at + from.size();
  }
  builder.Append(text, start, bytes.size());
  return builder.Take();
}

Text MapCase(const Text& text, Case mode) {
  TextBuilder builder;
  const std::string_view bytes = text.bytes;
  bool word_start = true;
  size_t run = 0;
  std::string mapped;
  auto flush = [&](bool trusted) {
    builder.Append(mapped, trusted);
    mapped.clear();
  };
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = DecodeUtf8(bytes, i);
    const uint32_t c = step.code_point;
    bool upper = mode == Case::kUpper;
    switch (mode) {
      case Case::kCapitalize:
        upper = i == 0;
        break;
      case Case::kPythonTitle:
        upper = word_start;
        word_start = !IsAlpha(c);
        break;
      case Case::kTitle:
        upper = word_start;
        word_start = IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
        break;
      default:
        break;
    }
    if (upper && c == 0xDF) {
      mapped += mode == Case::kUpper ? "SS" : "Ss";  // the one common expanding letter
    } else {
      AppendUtf8(upper ? ToUpper(c) : ToLower(c), &mapped);
    }
    i += step.length;
    if (run < text.runs.size() && i >= text.runs[run].end) flush(text.runs[run++].trusted);
  }
  flush(false);
  return builder.Take();
}

size_t Length(const Text& text) { return Utf8Length(text.bytes); }

std::vector<Value> Characters(const Text& text) {
  std::vector<Value> out;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t length = DecodeUtf8(text.bytes, i).length;
    out.push_back(Value::String(Substring(text, i, i + length)));
    i += length;
  }
  return out;
}

std::vector<size_t> SliceIndices(size_t length, std::optional<int64_t> start,
                                 std::optional<int64_t> stop, int64_t step) {
  const auto size = static_cast<int64_t>(length);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  auto settle = [&](std::optional<int64_t> index, int64_t absent) {
    if (!index) return absent;
    const int64_t at = *index < 0 ? *index + size : *index;
    return std::clamp(at, low, high);
  };
  const int64_t from = settle(start, step > 0 ? low : high);
  const int64_t to = settle(stop, step > 0 ? high : low);
  std::vector<size_t> out;
  if (step > 0) {
    for (int64_t i = from; i < to; i += std::min(step, size + 1)) {
      out.push_back(static_cast<size_t>(i));
    }
  } else {
    for (int64_t i = from; i > to; i += std::max(step, -size - 1)) {
      out.push_back(static_cast<size_t>(i));
    }
  }
  return out;
}

Text SliceText(const Text& text, std::optional<int64_t> start, std::optional<int64_t> stop,
               int64_t step) {
  const std::vector<size_t> offsets = Offsets(text.bytes);
  const std::vector<size_t> picked = SliceIndices(offsets.size() - 1, start, stop, step);
  if (picked.empty()) return {};
  if (step == 1) return Substring(text, offsets[picked.front()], offsets[picked.back() + 1]);
  TextBuilder builder;
  for (const size_t i : picked) builder.Append(text, offsets[i], offsets[i + 1]);
  return builder.Take();
}

int64_t Find(const Text& text, std::string_view needle, bool from_right) {
  const std::string_view bytes = text.bytes;
  const size_t at = from_right ? bytes.rfind(needle) : bytes.find(needle);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(Utf8Length(bytes.substr(0, at)));
}

Text Indent(const Text& text, const Text& indention, bool first, bool blank) {
  TextBuilder with_newline;
  with_newline.Append(text);
  with_newline.Append("\n", true);
  const std::vector<Value> lines = SplitLines(with_newline.text(), false);
  TextBuilder builder;
  if (first) builder.Append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      builder.Append("\n", true);
      if (blank || !lines[i].str().empty()) builder.Append(indention);
    }
    builder.Append(lines[i].text());
  }
  return builder.Take();
}

}  // namespace ballast::jinja
