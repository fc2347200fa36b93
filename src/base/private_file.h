// Role: files with secrets: readable by their owner only, and never half written.
// Thread: any; two writers of one path: the last one wins whole.
#ifndef BALLAST_BASE_PRIVATE_FILE_H_
#define BALLAST_BASE_PRIVATE_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ballast {

/// The content of a regular file that nobody but its owner may read or write.
/// Errors, all naming the path: kNotFound; kPermissionDenied (cannot be opened, or group or others
/// have a permission on it); kInvalidArgument (no regular file, more than `max_bytes`).
Result<std::string> ReadPrivateFile(const std::string& path, size_t max_bytes);

enum class IfPresent { kReplace, kKeep };

/// Writes a file of mode 0600 under another name beside it, syncs and renames it into place.
/// kKeep: a file that is there already, or appears meanwhile, stays; that is kAlreadyExists.
/// Errors: kUnavailable, kAlreadyExists, naming the path.
Status WritePrivateFile(const std::string& path, std::string_view content, IfPresent if_present);

/// Writes everything to an open file. False on the first failure, errno saying why.
bool WriteAll(int fd, std::string_view content);

/// Makes the folder and those above it, mode 0700. Errors: kUnavailable naming the path.
Status MakePrivateFolder(const std::string& path);

}  // namespace ballast

#endif  // BALLAST_BASE_PRIVATE_FILE_H_
