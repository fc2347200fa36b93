// Role: names of requests and replies. Thread: any.
#ifndef BALLAST_SERVER_REQUEST_ID_H_
#define BALLAST_SERVER_REQUEST_ID_H_

#include <string>
#include <string_view>

namespace ballast {

/// `prefix` and 24 random hex digits, e.g. "chatcmpl-5f…". For telling apart, not for secrets.
std::string RandomId(std::string_view prefix);

/// The caller's x-request-id if it is 1 to 128 printable ASCII characters without spaces, else a
/// new one.
std::string RequestIdFrom(std::string_view header);

}  // namespace ballast

#endif  // BALLAST_SERVER_REQUEST_ID_H_
