// The values of `format` that a regular language expresses exactly.
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "text/grammar/regex.h"
#include "text/grammar/schema_loader.h"

namespace ballast::grammar {
namespace {

// RFC 3339 full-date, with the lengths of months and the Gregorian leap years.
constexpr std::string_view kDate =
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kParts = "(?:\\.\\d{1,18})?";  // of a second
// RFC 3986.
constexpr std::string_view kHex = "[0-9A-Fa-f]";
constexpr std::string_view kOctet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

/// RFC 3339 full-time. A leap second is 23:59:60 in UTC, so each offset has one local time. It may
/// have a fraction beside a whole number of hours; for every minute that would cost an automaton
/// thirteen times as large.
std::string TimePattern() {
  std::string out = fmt::format(
      "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d{}(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
      "|23:59:60{}[zZ]",
      kParts, kParts);
  for (int local = 0; local < 1440; ++local) {
    const int east = (local + 1) % 1440;  // local − offset = 23:59
    const int west = (1440 - east) % 1440;
    out += fmt::format("|{:02}:{:02}:60{}(?:\\+{:02}:{:02}|-{:02}:{:02})", local / 60, local % 60,
                       local % 60 == 59 ? "(?:\\.\\d{1,6})?" : "", east / 60, east % 60, west / 60,
                       west % 60);
  }
  return out + ")";
}

std::string Ipv4Pattern() { return fmt::format("(?:{0}\\.{0}\\.{0}\\.{0})", kOctet); }

std::string Ipv6Pattern() {
  const std::string h = fmt::format("{}{{1,4}}", kHex);
  const std::string last = fmt::format("(?:{0}:{0}|{1})", h, Ipv4Pattern());
  return fmt::format(
      "(?:(?:{0}:){{6}}{1}|::(?:{0}:){{5}}{1}|{0}?::(?:{0}:){{4}}{1}"
      "|(?:(?:{0}:){{0,1}}{0})?::(?:{0}:){{3}}{1}|(?:(?:{0}:){{0,2}}{0})?::(?:{0}:){{2}}{1}"
      "|(?:(?:{0}:){{0,3}}{0})?::{0}:{1}|(?:(?:{0}:){{0,4}}{0})?::{1}"
      "|(?:(?:{0}:){{0,5}}{0})?::{0}|(?:(?:{0}:){{0,6}}{0})?::)",
      "(?:" + h + ")", last);
}

/// RFC 5321 Mailbox, ASCII; lengths of the parts as in the RFC are not counted.
std::string EmailPattern() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return "(?:" + atom + "(?:\\." + atom + ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" + label +
         "(?:\\." + label + ")*|\\[(?:" + Ipv4Pattern() + "|IPv6:" + Ipv6Pattern() + ")\\])";
}

struct UriParts {
  std::string unreserved = "A-Za-z0-9._~\\-", sub = "!$&'()*+,;=";
  std::string escaped = fmt::format("%{0}{0}", kHex);
  std::string pchar = "(?:[" + unreserved + sub + ":@]|" + escaped + ")";
  std::string segments = "(?:/" + pchar + "*)*";
  std::string authority = "(?:(?:[" + unreserved + sub + ":]|" + escaped +
                          ")*@)?(?:\\[(?:" + Ipv6Pattern() + "|[vV]" + std::string(kHex) + "+\\.[" +
                          unreserved + sub + ":]+)\\]|(?:[" + unreserved + sub + "]|" + escaped +
                          ")*)(?::\\d*)?";
  std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  std::string hierarchy = "//" + authority + segments + "|/(?:" + pchar + "+" + segments + ")?";
  std::string uri =
      "[A-Za-z][A-Za-z0-9+.-]*:(?:" + hierarchy + "|" + pchar + "+" + segments + "|)" + tail;
  std::string relative = "(?:" + hierarchy + "|(?:[" + unreserved + sub + "@]|" + escaped + ")+" +
                         segments + "|)" + tail;
};

/// RFC 3339 appendix A.
std::string DurationPattern() {
  const std::string n = "\\d{1,80}";
  const std::string time =
      "T(?:" + n + "H(?:" + n + "M(?:" + n + "S)?)?|" + n + "M(?:" + n + "S)?|" + n + "S)";
  const std::string day = n + "D";
  const std::string month = n + "M(?:" + day + ")?";
  return "P(?:(?:" + day + "|" + month + "|" + n + "Y(?:" + month + ")?)(?:" + time + ")?|" + time +
         "|" + n + "W)";
}

std::string PatternOf(std::string_view format) {
  const std::string pointer = "(?:/(?:[^~/]|~[01])*)*";
  if (format == "date") return std::string(kDate);
  if (format == "time") return TimePattern();
  if (format == "date-time") return std::string(kDate) + "[tT]" + TimePattern();
  if (format == "duration") return DurationPattern();
  if (format == "uuid") return fmt::format("{0}{{8}}-(?:{0}{{4}}-){{3}}{0}{{12}}", kHex);
  if (format == "ipv4") return Ipv4Pattern();
  if (format == "ipv6") return Ipv6Pattern();
  if (format == "email") return EmailPattern();
  if (format == "uri") return UriParts().uri;
  if (format == "uri-reference") {
    const UriParts parts;
    return "(?:" + parts.uri + "|" + parts.relative + ")";
  }
  if (format == "json-pointer") return pointer;
  if (format == "relative-json-pointer") return "(?:0|[1-9]\\d{0,8})(?:#|" + pointer + ")";
  return {};
}

}  // namespace

std::vector<std::string_view> FormatNames() {
  return {"date", "time",  "date-time", "duration",      "uuid",         "ipv4",
          "ipv6", "email", "uri",       "uri-reference", "json-pointer", "relative-json-pointer"};
}

Result<Dfa> Quote(const Dfa& body) {
  Nfa nfa;
  const int32_t start = nfa.AddState(), closing = nfa.AddState(), end = nfa.AddState();
  nfa.Accept(end);
  nfa.AddEdge(closing, '"', '"', end);
  nfa.AddEdge(start, '"', '"', nfa.AddDfa(body, closing));
  return Determinize(nfa, start, body.num_states() + 8);
}

Result<StringPattern> FormatPattern(std::string_view format) {
  const std::string pattern = PatternOf(format);
  if (pattern.empty()) {
    return Unimplemented("the format '{}' is not supported", format.substr(0, 60));
  }
  static std::mutex mutex;
  static auto* cache = new std::map<std::string, StringPattern, std::less<>>();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto it = cache->find(format);
  if (it != cache->end()) return it->second;
  // The times with their leap seconds are large before they are minimised.
  constexpr int32_t kFormatStates = 60'000;
  ASSIGN_OR_RETURN(Dfa dfa,
                   CompileRegexDfa(pattern, Anchor::kWhole, Spelling::kJson, kFormatStates));
  ASSIGN_OR_RETURN(Dfa quoted, Quote(dfa));
  StringPattern out;
  out.dfa = std::make_shared<const Dfa>(std::move(dfa));
  out.quoted = std::make_shared<const Dfa>(std::move(quoted));
  cache->emplace(std::string(format), out);
  return out;
}

}  // namespace ballast::grammar
