// Role: byte strings as a tree laid out depth first, so that a walk is one loop over an array and
// a refused prefix skips its whole subtree. Thread: immutable after Build.
#ifndef BALLAST_TEXT_GRAMMAR_BYTE_TREE_H_
#define BALLAST_TEXT_GRAMMAR_BYTE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ballast::grammar {

class ByteTree {
 public:
  /// Node 0 is the root. A node's subtree is [node, end).
  struct Node {
    uint32_t end = 0;
    uint32_t first_item = 0;  ///< strings that end here: [first_item, items_end(node))
    uint16_t depth = 0;
    uint8_t byte = 0;
  };

  /// `sorted`: ascending, repeats allowed. String i of it is item i.
  void Build(const std::vector<std::string_view>& sorted);

  const std::vector<Node>& nodes() const { return nodes_; }
  uint32_t items_end(size_t node) const {
    return node + 1 < nodes_.size() ? nodes_[node + 1].first_item : num_items_;
  }
  int max_depth() const { return max_depth_; }
  size_t bytes() const { return nodes_.capacity() * sizeof(Node); }

 private:
  std::vector<Node> nodes_{Node{}};
  uint32_t num_items_ = 0;
  int max_depth_ = 0;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_BYTE_TREE_H_
