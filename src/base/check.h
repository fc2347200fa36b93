// Role: CHECK, which aborts on a programmer's error. Never used on input from users or files.
#ifndef BALLAST_BASE_CHECK_H_
#define BALLAST_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition) \
  do {                    \
  } while (false && (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif

#endif  // BALLAST_BASE_CHECK_H_
