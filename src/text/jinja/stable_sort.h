// Role: a stable merge sort for comparisons that come from templates: they may throw and need not
// be a consistent order (NaN), which std::sort must not be given.
// Thread: pure.
#ifndef BALLAST_TEXT_JINJA_STABLE_SORT_H_
#define BALLAST_TEXT_JINJA_STABLE_SORT_H_

#include <algorithm>
#include <utility>
#include <vector>

namespace ballast::jinja {

/// Bottom-up merging; `less(a, b)` says whether a goes before b. Cost: O(n log n) comparisons.
template <class T, class Less>
void StableSort(std::vector<T>* items, const Less& less) {
  std::vector<T> from = std::move(*items);
  std::vector<T> to;
  const size_t count = from.size();
  for (size_t width = 1; width < count; width *= 2) {
    to.clear();
    to.reserve(count);
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t left = start;
      const size_t middle = std::min(start + width, count);
      size_t right = middle;
      const size_t end = std::min(start + 2 * width, count);
      while (left < middle && right < end) {
        to.push_back(std::move(less(from[right], from[left]) ? from[right++] : from[left++]));
      }
      while (left < middle) to.push_back(std::move(from[left++]));
      while (right < end) to.push_back(std::move(from[right++]));
    }
    std::swap(from, to);
  }
  *items = std::move(from);
}

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_STABLE_SORT_H_
