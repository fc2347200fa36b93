// Role: text from files and requests made fit for a terminal. Thread: pure functions.
#ifndef BALLAST_BASE_PRINTABLE_H_
#define BALLAST_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace ballast {

/// `text` with control characters other than newline and tab written as \xNN, so that what a file
/// holds cannot move the cursor, change colours or hide words.
std::string Printable(std::string_view text);

}  // namespace ballast

#endif  // BALLAST_BASE_PRINTABLE_H_
