// Role: flat schemas → grammar nodes. A node stands for a set of schemas that must all hold; sets
// are compiled once, so references may recurse. Choices multiply out into alternatives, each of
// which is split by type; what cannot be satisfied is found by a fixpoint and removed.
// Thread: one owner.
#ifndef BALLAST_TEXT_GRAMMAR_SCHEMA_COMPILER_H_
#define BALLAST_TEXT_GRAMMAR_SCHEMA_COMPILER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/nodes.h"
#include "text/grammar/schema_loader.h"

namespace ballast::grammar {

/// Sorted, without repeats.
using SchemaSet = std::vector<SchemaId>;

class SchemaCompiler {
 public:
  enum class Mode {
    kExact,
    /// oneOf is read as anyOf: more texts than allowed, enough to prove that there are none.
    kUpperBound,
  };
  SchemaCompiler(SchemaLoader* loader, GrammarData* data, Mode mode = Mode::kExact)
      : loader_(*loader), data_(*data), mode_(mode) {}

  /// The node of all values that satisfy every schema of `set`. Its depth is known only after
  /// ComputeDepths().
  Result<NodeId> Compile(SchemaSet set);

 private:
  struct Closure {
    SchemaSet set;
    std::vector<const SchemaGroup*> groups;
    uint32_t types = kAllTypes;
    bool never = false;
  };

  Result<NodeId> NewNode(NodeKind kind);
  Result<NodeId> AddLeaf(Dfa dfa);
  Result<NodeId> Constant(const Json& value);
  Closure Close(const SchemaSet& seed) const;
  Status Expand(const Closure& closure, std::vector<SchemaGroup>* pending, size_t next_group,
                std::vector<SchemaSet>* out);
  Result<std::vector<SchemaId>> Options(const SchemaGroup& group, uint32_t types);
  Result<bool> Disjoint(SchemaId a, SchemaId b, uint32_t types);
  Status AddAlternative(const SchemaSet& set, std::vector<NodeId>* kids);
  Status AddValues(const SchemaSet& set, const std::vector<Json>& values,
                   std::vector<NodeId>* kids);
  Status AddScalars(uint32_t types, std::vector<NodeId>* kids);
  Status AddNumber(const SchemaSet& set, uint32_t types, std::vector<NodeId>* kids);
  Status AddString(const SchemaSet& set, std::vector<NodeId>* kids);
  Status AddArray(const SchemaSet& set, std::vector<NodeId>* kids);
  Status AddObject(const SchemaSet& set, std::vector<NodeId>* kids);
  Status AddKeyClasses(const SchemaSet& set, ObjectTable* table);
  Result<Dfa> AllowedNames(const SchemaSet& set);
  /// The automaton (no quotes) of a string that satisfies all of `set`; other types are ignored.
  Result<Dfa> StringBody(const SchemaSet& set);
  Result<Dfa> QuotedString(const SchemaSet& set, bool counted);
  bool KnownEmpty(NodeId id) const;
  Error At(const SchemaSet& set, Error error) const;

  SchemaLoader& loader_;
  GrammarData& data_;
  Mode mode_;
  std::map<SchemaSet, NodeId> compiled_;
  std::map<SchemaSet, std::vector<NodeId>> alternatives_;
  std::map<uint64_t, NodeId> leaves_;
  std::map<std::string, NodeId> interned_;
  std::map<std::pair<std::vector<SchemaId>, uint32_t>, std::vector<SchemaId>> options_;
  int64_t cells_ = 0;
  int depth_ = 0;
};

/// Fills min_depth of every node from `first` on and drops what has no text: choices lose empty
/// kids, arrays and objects lose what cannot be filled. Then builds the key automata.
Status FinishNodes(GrammarData* data);

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_SCHEMA_COMPILER_H_
