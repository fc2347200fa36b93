#include "server/origin.h"

#include <arpa/inet.h>

#include <algorithm>

#include "http/types.h"

namespace ballast {

namespace {

bool IsIpLiteral(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

bool EndsWithIgnoreCase(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && EqualsIgnoreCase(text.substr(text.size() - end.size()), end);
}

}  // namespace

std::string_view HostName(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

bool IsLoopbackHost(std::string_view host) {
  return EqualsIgnoreCase(host, "localhost") || host == "::1" ||
         (host.starts_with("127.") && IsIpLiteral(std::string(host)));
}

bool HostIsLocal(std::string_view host) {
  const std::string_view name = HostName(host);
  return EqualsIgnoreCase(name, "localhost") || EndsWithIgnoreCase(name, ".localhost") ||
         IsIpLiteral(std::string(name));
}

bool OriginIsHost(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos || host.empty()) return false;
  // This server speaks plain HTTP: a page served over TLS came from somebody else.
  return EqualsIgnoreCase(origin.substr(0, scheme), "http") &&
         EqualsIgnoreCase(origin.substr(scheme + 3), host);
}

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& item) { return EqualsIgnoreCase(item, value); });
}

}  // namespace ballast
