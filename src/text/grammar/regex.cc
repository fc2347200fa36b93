#include "text/grammar/regex.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "text/grammar/limits.h"
#include "text/unicode.h"

namespace ballast::grammar {
namespace {

struct Node;
using NodePtr = std::unique_ptr<Node>;

enum class Kind { kEmpty, kSet, kConcat, kAlternate, kRepeat, kStart, kEnd };

struct Node {
  Kind kind = Kind::kEmpty;
  CodeSet set;
  std::vector<NodePtr> kids;
  int min = 0, max = -1;  ///< kRepeat; max −1: no bound
};

NodePtr Make(Kind kind) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}

NodePtr MakeSet(CodeSet set) {
  auto node = Make(Kind::kSet);
  node->set = NormaliseSet(std::move(set));
  return node;
}

const CodeSet kDigits = {{'0', '9'}};
const CodeSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// ECMA-262 WhiteSpace and LineTerminator.
const CodeSet kSpace = {{9, 13},          {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

struct CategoryName {
  std::string_view name, short_name;
};
// Unicode general categories: long names, and the short form that utf8proc prints.
constexpr CategoryName kCategories[] = {
    {"Letter", "L"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Control", "Cc"},
    {"Other", "C"},
};

std::optional<CodeSet> CategorySet(std::string_view name) {
  for (const auto& [long_name, short_name] : kCategories) {
    if (name == long_name) name = short_name;
  }
  static constexpr std::string_view kKnown[] = {
      "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
      "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
      "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf"};
  if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
    return std::nullopt;
  }
  CodeSet out;
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const char* category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    if (category[0] != name[0] || (name.size() == 2 && category[1] != name[1])) continue;
    if (!out.empty() && out.back().hi + 1 == code) {
      out.back().hi = code;
    } else {
      out.push_back({code, code});
    }
  }
  return NormaliseSet(std::move(out));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<NodePtr> Parse() {
    if (text_.size() > kMaxRegexBytes) {
      return ResourceExhausted("the expression has {} bytes, the limit is {}", text_.size(),
                               kMaxRegexBytes);
    }
    if (!IsValidUtf8(text_)) return InvalidArgument("the expression is not valid UTF-8");
    ASSIGN_OR_RETURN(NodePtr node, Alternation(0));
    if (pos_ < text_.size()) return Bad("unmatched ')'");
    return node;
  }

 private:
  Error Bad(std::string_view what) const {
    return InvalidArgument("{} at byte {} of the expression '{}'", what, pos_,
                           text_.substr(0, 200));
  }
  Error Refused(std::string_view what) const {
    return Unimplemented("{} is not supported (byte {} of the expression '{}')", what, pos_,
                         text_.substr(0, 200));
  }
  bool More() const { return pos_ < text_.size(); }
  char Peek(size_t ahead = 0) const {
    return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
  }
  bool Take(std::string_view prefix) {
    if (text_.substr(pos_, prefix.size()) != prefix) return false;
    pos_ += prefix.size();
    return true;
  }
  uint32_t TakeCode() {
    const Utf8Step step = DecodeUtf8(text_, pos_);
    pos_ += step.length;
    return step.code_point;
  }

  Result<NodePtr> Alternation(int depth) {
    if (depth > kMaxRegexDepth) {
      return ResourceExhausted("groups nest deeper than the limit of {}", kMaxRegexDepth);
    }
    auto out = Make(Kind::kAlternate);
    do {
      auto branch = Make(Kind::kConcat);
      while (More() && Peek() != '|' && Peek() != ')') {
        ASSIGN_OR_RETURN(NodePtr atom, Atom(depth));
        ASSIGN_OR_RETURN(atom, Quantified(std::move(atom)));
        branch->kids.push_back(std::move(atom));
      }
      out->kids.push_back(std::move(branch));
    } while (Take("|"));
    return out;
  }

  Result<NodePtr> Atom(int depth) {
    switch (Peek()) {
      case '(':
        return Group(depth);
      case '[':
        return Class();
      case '.':
        ++pos_;
        return MakeSet(ComplementSet(kLineEnds));
      case '^':
        ++pos_;
        return Make(Kind::kStart);
      case '$':
        ++pos_;
        return Make(Kind::kEnd);
      case '*':
      case '+':
      case '?':
        return Bad("nothing to repeat");
      case '\\': {
        ASSIGN_OR_RETURN(CodeSet set, Escape());
        return MakeSet(std::move(set));
      }
      default: {
        const uint32_t code = TakeCode();
        return MakeSet({{code, code}});
      }
    }
  }

  Result<NodePtr> Group(int depth) {
    ++pos_;
    if (Take("?")) {
      if (Peek() == '=' || Peek() == '!' || (Peek() == '<' && (Peek(1) == '=' || Peek(1) == '!'))) {
        return Refused("look-around");
      }
      const bool named = Take("P<") || Take("<");
      if (named) {
        while (More() && Peek() != '>') ++pos_;
        if (!Take(">")) return Bad("an unfinished group name");
      } else if (!Take(":")) {
        return Refused("a group flag");
      }
    }
    ASSIGN_OR_RETURN(NodePtr inner, Alternation(depth + 1));
    if (!Take(")")) return Bad("a missing ')'");
    return inner;
  }

  /// Reads digits; −1 if there are none.
  int Number() {
    if (Peek() < '0' || Peek() > '9') return -1;
    int64_t value = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      value = std::min<int64_t>(value * 10 + (text_[pos_++] - '0'), 1'000'000'000);
    }
    return static_cast<int>(value);
  }

  Result<NodePtr> Quantified(NodePtr atom) {
    int min = 0, max = -1;
    const size_t start = pos_;
    if (Take("*")) {
      min = 0;
    } else if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if (Take("{")) {
      min = Number();
      max = min;
      if (min >= 0 && Take(",")) max = Number();
      if (min < 0 || !Take("}")) {
        pos_ = start;
        return Refused("'{' that is not a repetition (write '\\{')");
      }
    } else {
      return atom;
    }
    if (max >= 0 && min > max) return Bad("a repetition whose minimum exceeds its maximum");
    if (min > kMaxRegexRepeat || max > kMaxRegexRepeat) {
      return ResourceExhausted("the repetition at byte {} counts to {}, the limit is {}", start,
                               std::max(min, max), kMaxRegexRepeat);
    }
    Take("?");  // a lazy quantifier describes the same texts
    if (Peek() == '*' || Peek() == '+' || Peek() == '?' || Peek() == '{') {
      return Refused("a quantifier of a quantifier");
    }
    if (atom->kind == Kind::kStart || atom->kind == Kind::kEnd) {
      return Refused("a repeated anchor");
    }
    auto out = Make(Kind::kRepeat);
    out->min = min;
    out->max = max;
    out->kids.push_back(std::move(atom));
    return out;
  }

  Result<uint32_t> Hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = Peek();
      const int d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (d < 0) return Bad("a missing hex digit");
      value = value * 16 + static_cast<uint32_t>(d);
      ++pos_;
    }
    return value;
  }

  Result<CodeSet> UnicodeEscape() {
    uint32_t code = 0;
    if (Take("{")) {
      int digits = 0;
      while (Peek() != '}' && digits < 6) {
        ASSIGN_OR_RETURN(const uint32_t digit, Hex(1));
        code = code * 16 + digit;
        ++digits;
      }
      if (!Take("}") || code > 0x10FFFF) return Bad("a bad \\u{…}");
    } else {
      ASSIGN_OR_RETURN(code, Hex(4));
      if (code >= 0xD800 && code < 0xDC00 && Take("\\u")) {
        ASSIGN_OR_RETURN(const uint32_t low, Hex(4));
        if (low < 0xDC00 || low > 0xDFFF) return Bad("a high surrogate without a low one");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    return CodeSet{{code, code}};
  }

  Result<CodeSet> Property(bool negated) {
    std::string_view name;
    if (Take("{")) {
      const size_t end = text_.find('}', pos_);
      if (end == std::string_view::npos) return Bad("an unfinished \\p{…}");
      name = text_.substr(pos_, end - pos_);
      pos_ = end + 1;
    } else if (More()) {
      name = text_.substr(pos_++, 1);
    }
    const auto set = CategorySet(name);
    if (!set) return Refused("the Unicode property '" + std::string(name) + "'");
    return negated ? ComplementSet(*set) : *set;
  }

  /// At a backslash: the characters that the escape stands for.
  Result<CodeSet> Escape() {
    ++pos_;
    if (!More()) return Bad("a trailing backslash");
    const uint32_t code = TakeCode();
    switch (code) {
      case 'd':
        return kDigits;
      case 'D':
        return ComplementSet(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return ComplementSet(kWord);
      case 's':
        return kSpace;
      case 'S':
        return ComplementSet(kSpace);
      case 'p':
      case 'P':
        return Property(code == 'P');
      case 'u':
        return UnicodeEscape();
      case 'x': {
        ASSIGN_OR_RETURN(const uint32_t value, Hex(2));
        return CodeSet{{value, value}};
      }
      case 'c': {
        const char letter = Peek();
        if ((letter | 0x20) < 'a' || (letter | 0x20) > 'z') return Bad("a bad \\c");
        ++pos_;
        const auto value = static_cast<uint32_t>(letter & 0x1F);
        return CodeSet{{value, value}};
      }
      default:
        return SimpleEscape(code);
    }
  }

  Result<CodeSet> SimpleEscape(uint32_t code) {
    static constexpr std::pair<uint32_t, uint32_t> kControls[] = {
        {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'0', 0}};
    for (const auto& [letter, value] : kControls) {
      if (letter != code) continue;
      if (code == '0' && Peek() >= '0' && Peek() <= '9') return Refused("an octal escape");
      return CodeSet{{value, value}};
    }
    if (code >= '1' && code <= '9') return Refused("a back reference");
    if (code == 'b' || code == 'B') return Refused("a word boundary");
    if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return Bad("an unknown escape");
    return CodeSet{{code, code}};
  }

  /// One member of a class: a set, and its code if it is a single character.
  Result<std::pair<CodeSet, std::optional<uint32_t>>> Member() {
    if (Peek() != '\\') {
      const uint32_t code = TakeCode();
      return std::pair(CodeSet{{code, code}}, std::optional(code));
    }
    if (Peek(1) == 'b') {
      pos_ += 2;
      return std::pair(CodeSet{{'\b', '\b'}}, std::optional<uint32_t>('\b'));
    }
    ASSIGN_OR_RETURN(CodeSet set, Escape());
    std::optional<uint32_t> single;
    if (set.size() == 1 && set[0].lo == set[0].hi) single = set[0].lo;
    return std::pair(std::move(set), single);
  }

  Result<NodePtr> Class() {
    ++pos_;
    const bool negated = Take("^");
    CodeSet set;
    if (Peek() == ']') return Refused("an empty class");
    while (More() && Peek() != ']') {
      if (Peek() == '[' && Peek(1) == ':') return Refused("a POSIX class");
      ASSIGN_OR_RETURN(auto first, Member());
      if (Peek() == '-' && Peek(1) != ']' && Peek(1) != '\0') {
        ++pos_;
        ASSIGN_OR_RETURN(auto second, Member());
        if (!first.second || !second.second) return Bad("a class as the end of a range");
        if (*first.second > *second.second) return Bad("a range out of order");
        set.push_back({*first.second, *second.second});
        continue;
      }
      set.insert(set.end(), first.first.begin(), first.first.end());
    }
    if (!Take("]")) return Bad("a missing ']'");
    set = NormaliseSet(std::move(set));
    return MakeSet(negated ? ComplementSet(set) : std::move(set));
  }

  std::string_view text_;
  size_t pos_ = 0;
};

class Emitter {
 public:
  explicit Emitter(Spelling spelling) : spelling_(spelling) {}

  Status Emit(const Node& node, int32_t from, int32_t to) {
    if (nfa.size() > kMaxNfaStates) {
      return ResourceExhausted("the expression needs more than the limit of {} states",
                               kMaxNfaStates);
    }
    switch (node.kind) {
      case Kind::kEmpty:
        nfa.AddEmpty(from, to);
        return OkStatus();
      case Kind::kSet:
        AddCodes(&nfa, from, to, node.set, spelling_);
        return OkStatus();
      case Kind::kStart:
        nfa.AddEmpty(from, to, Nfa::When::kAtStart);
        return OkStatus();
      case Kind::kEnd:
        nfa.AddEmpty(from, to, Nfa::When::kAtEnd);
        return OkStatus();
      case Kind::kConcat:
        return EmitConcat(node, from, to);
      case Kind::kAlternate:
        for (const NodePtr& kid : node.kids) {
          RETURN_IF_ERROR(Emit(*kid, from, to));
        }
        return OkStatus();
      case Kind::kRepeat:
        return EmitRepeat(node, from, to);
    }
    return OkStatus();
  }

  Nfa nfa;

 private:
  Status EmitConcat(const Node& node, int32_t from, int32_t to) {
    for (const NodePtr& kid : node.kids) {
      const int32_t next = nfa.AddState();
      RETURN_IF_ERROR(Emit(*kid, from, next));
      from = next;
    }
    nfa.AddEmpty(from, to);
    return OkStatus();
  }

  Status EmitRepeat(const Node& node, int32_t from, int32_t to) {
    const Node& kid = *node.kids[0];
    for (int i = 0; i < node.min; ++i) {
      const int32_t next = nfa.AddState();
      RETURN_IF_ERROR(Emit(kid, from, next));
      from = next;
    }
    if (node.max < 0) {
      // A state of its own, so that the loop does not leak into what `from` also starts.
      const int32_t loop = nfa.AddState();
      nfa.AddEmpty(from, loop);
      const int32_t back = nfa.AddState();
      RETURN_IF_ERROR(Emit(kid, loop, back));
      nfa.AddEmpty(back, loop);
      from = loop;
    }
    for (int i = node.min; i < node.max; ++i) {
      nfa.AddEmpty(from, to);
      const int32_t next = nfa.AddState();
      RETURN_IF_ERROR(Emit(kid, from, next));
      from = next;
    }
    nfa.AddEmpty(from, to);
    return OkStatus();
  }

  Spelling spelling_;
};

}  // namespace

Result<Dfa> CompileRegexDfa(std::string_view pattern, Anchor anchor, Spelling spelling,
                            int32_t max_states) {
  ASSIGN_OR_RETURN(const NodePtr tree, Parser(pattern).Parse());
  Emitter emitter(spelling);
  Nfa& nfa = emitter.nfa;
  const int32_t start = nfa.AddState(), first = nfa.AddState();
  const int32_t last = nfa.AddState(), end = nfa.AddState();
  nfa.AddEmpty(start, first);
  nfa.AddEmpty(last, end);
  nfa.Accept(end);
  if (anchor == Anchor::kSearch) {
    AddCodes(&nfa, first, first, AllCodes(), spelling);
    AddCodes(&nfa, end, end, AllCodes(), spelling);
  }
  RETURN_IF_ERROR(emitter.Emit(*tree, first, last));
  return Determinize(nfa, start, max_states);
}

}  // namespace ballast::grammar
