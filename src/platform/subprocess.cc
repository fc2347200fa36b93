#include "platform/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/check.h"

extern char** environ;

namespace ballast {

namespace {

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Result<pid_t> Spawn(const std::vector<std::string>& argv, int write_fd,
                    SubprocessOptions::Stderr stderr_mode) {
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_fd, 1);
  if (stderr_mode == SubprocessOptions::Stderr::kMerge) {
    posix_spawn_file_actions_adddup2(&actions, write_fd, 2);
  } else if (stderr_mode == SubprocessOptions::Stderr::kDiscard) {
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Its own group, so that a timeout also ends what the program started.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, args[0], &actions, &attributes, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) return NotFound("program '{}' is not installed", argv[0]);
  if (error != 0) return Unavailable("cannot start '{}': {}", argv[0], std::strerror(error));
  return pid;
}

// Reads until the end of output or the deadline; false on the deadline.
bool Drain(int fd, int64_t deadline_ms, size_t max_bytes, std::string* output) {
  char buffer[16384];
  for (;;) {
    const int64_t left_ms = deadline_ms == 0 ? -1 : deadline_ms - NowMs();
    if (deadline_ms != 0 && left_ms <= 0) return false;
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(left_ms < 0 ? -1 : left_ms));
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    const size_t room = max_bytes - std::min(max_bytes, output->size());
    output->append(buffer, std::min(static_cast<size_t>(n), room));
  }
}

}  // namespace

Result<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv,
                                       const SubprocessOptions& options) {
  CHECK(!argv.empty());
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return Unavailable("pipe: {}", std::strerror(errno));
  auto pid = Spawn(argv, fds[1], options.stderr_mode);
  close(fds[1]);
  if (!pid.has_value()) {
    close(fds[0]);
    return pid.error();
  }
  SubprocessResult result;
  const int64_t deadline_ms = options.timeout_ms == 0 ? 0 : NowMs() + options.timeout_ms;
  const bool finished = Drain(fds[0], deadline_ms, options.max_output_bytes, &result.output);
  close(fds[0]);
  if (!finished) kill(-*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!finished) {
    return MakeError(Code::kDeadlineExceeded, "'{}' did not finish within {} ms", argv[0],
                     options.timeout_ms);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Result<std::vector<std::string>> SplitCommandLine(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\'') {
      if (c == '\'')
        quote = 0;
      else
        word += c;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      in_word = true;
    } else if (quote == '"') {
      if (c == '"')
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return InvalidArgument("command line '{}' has an unclosed {} quote", line, quote);
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace ballast
