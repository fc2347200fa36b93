// Safetensors headers, shard indexes and config.json: any bytes are read or refused with a message,
// and tensors stay inside the file. The first byte of the input chooses the parser.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/json.h"
#include "weights/hf_config.h"
#include "weights/safetensors.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckHeader(std::span<const std::byte> file) {
  const auto entries = ballast::ParseSafetensorsHeader(file, "fuzz");
  if (!entries) {
    Require(!entries.error().message.empty() && entries.error().message.size() < 4096);
    return;
  }
  uint64_t end = 0;
  for (const ballast::SafetensorsEntry& entry : *entries) {
    Require(entry.offset >= end && entry.offset + entry.bytes <= file.size());
    Require(entry.shape.size() <= 4);
    end = entry.offset + entry.bytes;
    (void)ballast::CanonicalTensorName("gemma3", entry.name);
  }
  Require(entries->empty() || end == file.size());
}

void CheckIndex(std::string_view text) {
  const auto index = ballast::ParseSafetensorsIndex(text, "fuzz");
  if (!index) return;
  for (const std::string& file : index->files) {
    Require(!file.empty() && file != ".." && file.find('/') == std::string::npos);
  }
  for (const auto& [name, place] : index->tensors) Require(place < index->files.size());
}

void CheckConfig(std::string_view text) {
  const auto json = ballast::ParseJson(text);
  if (!json) return;
  ballast::Metadata metadata("fuzz");
  const auto config = ballast::ReadHfConfig(*json, &metadata);
  if (!config) {
    Require(!config.error().message.empty());
    return;
  }
  const auto layers = metadata.GetI64(config->architecture + ".block_count");
  Require(layers && *layers >= 1 && *layers <= 4096);
  const auto head = metadata.GetI64(config->architecture + ".attention.key_length");
  Require(head && *head >= 1 && *head <= 4096);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'i':
      CheckIndex(text);
      break;
    case 'c':
      CheckConfig(text);
      break;
    default:
      CheckHeader(std::as_bytes(std::span(text)));
      break;
  }
  return 0;
}
