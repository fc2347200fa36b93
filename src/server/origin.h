// Role: decides whether a request comes from a page that may call this server. Thread: pure
// functions.
#ifndef BALLAST_SERVER_ORIGIN_H_
#define BALLAST_SERVER_ORIGIN_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// The name of a Host header without its port and brackets.
std::string_view HostName(std::string_view host);

/// "localhost", 127.x.y.z or ::1, as one gives it to listen on.
bool IsLoopbackHost(std::string_view host);

/// True for a Host header that no DNS entry can make: an IP literal, "localhost" or a name below
/// it.
bool HostIsLocal(std::string_view host);

/// True if `origin` ("http://host:port") names the same host and port as the Host header.
bool OriginIsHost(std::string_view origin, std::string_view host);

/// True if `list` has `value` (ASCII case ignored).
bool Contains(const std::vector<std::string>& list, std::string_view value);

}  // namespace ballast

#endif  // BALLAST_SERVER_ORIGIN_H_
