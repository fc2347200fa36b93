// Role: `ballast inspect`: what a model file holds, without loading it. Thread: main only.
#include <cstdio>
#include <map>

#include "base/json.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/model_store.h"
#include "weights/source.h"

namespace ballast {

namespace {

// Long strings and arrays are cut: a vocabulary is no help on a screen.
constexpr size_t kMaxShownBytes = 120;

struct TypeTotals {
  int64_t tensors = 0;
  uint64_t bytes = 0;
};

std::map<std::string, TypeTotals> TotalsByType(const WeightSource& source) {
  std::map<std::string, TypeTotals> totals;
  for (const TensorInfo& tensor : source.tensors()) {
    TypeTotals& row = totals[std::string(DTypeName(tensor.type))];
    ++row.tensors;
    row.bytes += tensor.bytes;
  }
  return totals;
}

Json ShownValue(const Metadata& metadata, std::string_view key, const MetaValue& value) {
  switch (value.type) {
    case MetaType::kString: {
      std::string text(metadata.GetString(key).value_or(""));
      if (text.size() > kMaxShownBytes) text = text.substr(0, kMaxShownBytes) + "…";
      return text;
    }
    case MetaType::kArray:
      return fmt::format("[{} × {}]", value.count, MetaTypeName(value.element_type));
    case MetaType::kBool:
      return metadata.GetBool(key).value_or(false);
    case MetaType::kF32:
    case MetaType::kF64:
      return metadata.GetF64(key).value_or(0);
    default:
      return metadata.GetI64(key).value_or(0);
  }
}

Json TensorRow(const TensorInfo& tensor) {
  Json shape = Json::array();
  for (int i = tensor.rank - 1; i >= 0; --i) shape.push_back(tensor.dims[static_cast<size_t>(i)]);
  return Json{{"name", tensor.name},
              {"type", DTypeName(tensor.type)},
              {"shape", shape},
              {"bytes", tensor.bytes}};
}

void PrintJson(const ResolvedModel& resolved, const WeightSource& source) {
  Json document;
  document["name"] = resolved.model.name;
  document["path"] = resolved.path;
  document["format"] = source.format() == WeightFormat::kGguf ? "gguf" : "safetensors";
  document["architecture"] = source.architecture();
  document["file_bytes"] = source.file_bytes();
  document["metadata"] = Json::object();
  for (const auto& [key, value] : source.metadata().entries()) {
    document["metadata"][std::string(key)] = ShownValue(source.metadata(), key, value);
  }
  document["tensors"] = Json::array();
  for (const TensorInfo& tensor : source.tensors()) {
    document["tensors"].push_back(TensorRow(tensor));
  }
  std::printf("%s\n", DumpJson(document, 1).c_str());
}

void PrintText(const ResolvedModel& resolved, const WeightSource& source) {
  std::printf("%s\n  %s, architecture %s, %s\n\n", resolved.path.c_str(),
              source.format() == WeightFormat::kGguf ? "GGUF" : "safetensors",
              Printable(source.architecture()).c_str(), FormatBytes(source.file_bytes()).c_str());
  for (const auto& [key, value] : source.metadata().entries()) {
    std::printf("  %-44s %s\n", std::string(key).c_str(),
                DumpJson(ShownValue(source.metadata(), key, value)).c_str());
  }
  std::printf("\n  %-8s %8s %12s\n", "type", "tensors", "bytes");
  for (const auto& [type, totals] : TotalsByType(source)) {
    std::printf("  %-8s %8lld %12llu\n", type.c_str(), static_cast<long long>(totals.tensors),
                static_cast<unsigned long long>(totals.bytes));
  }
}

}  // namespace

Status CommandInspect(const Options& options) {
  ASSIGN_OR_RETURN(
      const ResolvedModel resolved,
      EnsureModel(options.model, options.json ? ProgressMode::kQuiet : ProgressMode::kAuto));
  ASSIGN_OR_RETURN(const auto source, OpenWeights(resolved.path));
  if (options.json) {
    PrintJson(resolved, *source);
  } else {
    PrintText(resolved, *source);
  }
  return OkStatus();
}

}  // namespace ballast
