#include "compiler/Report/Inspect.h"

#include "compiler/Report/InspectText.h"

#include "runtime-stub/format/Vulkan.h"
#include "targets/EthosU/Artefact.h"
#include "targets/Rknn/Toolkit.h"
#include "runtime-stub/format/Header.h"
#include "runtime-stub/format/bundle_generated.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <blake2.h>
#include <map>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using namespace format;

constexpr uint32_t kAbsent = 0xffffffffu;

const char *elementTypeName(int32_t type) {
  static const char *const names[] = {
      "undefined",      "float32",    "uint8",
      "int8",           "uint16",     "int16",
      "int32",          "int64",      "string",
      "bool",           "float16",    "float64",
      "uint32",         "uint64",     "complex64",
      "complex128",     "bfloat16",   "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
      "uint4",          "int4",       "float4e2m1",
      "float8e8m0",     "uint2",      "int2"};
  bool known = type > 0 && size_t(type) < std::size(names);
  return known ? names[type] : names[0];
}

std::string machineName(uint16_t machine) {
  return machine == 62    ? "x86-64"
         : machine == 183 ? "aarch64"
                          : "machine " + std::to_string(machine);
}

std::string text(const flatbuffers::String *s) {
  return s ? s->str() : std::string();
}

/// An empty range for an absent vector.
template <typename T> struct Items {
  const flatbuffers::Vector<T> *vector;
  auto begin() const {
    return vector ? vector->begin()
                  : typename flatbuffers::Vector<T>::const_iterator(nullptr, 0);
  }
  auto end() const {
    return vector ? vector->end()
                  : typename flatbuffers::Vector<T>::const_iterator(nullptr, 0);
  }
};
template <typename T> Items<T> items(const flatbuffers::Vector<T> *vector) {
  return {vector};
}
template <typename T> size_t count(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

std::vector<std::string>
texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *v) {
  std::vector<std::string> out;
  for (auto *s : items(v))
    out.push_back(s->str());
  return out;
}

/// Checks header and manifest; the manifest's bytes follow the header.
llvm::Expected<const Manifest *> openManifest(llvm::StringRef path,
                                              llvm::StringRef bytes) {
  using namespace llvm::support::endian;
  auto fail = [&](const char *what) {
    return llvm::createStringError("'%s': %s", path.str().c_str(), what);
  };
  if (bytes.size() < kHeaderBytes ||
      memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return fail("not a Tessera bundle");
  uint32_t version = read32le(bytes.data() + kVersionAt);
  if (version != kFormatVersion && version != kFormatVersionParts)
    return fail("a bundle of a format version this tool does not know");
  uint64_t offset = read64le(bytes.data() + kManifestOffsetAt);
  uint64_t size = read64le(bytes.data() + kManifestBytesAt);
  if (read64le(bytes.data() + kFileBytesAt) != bytes.size())
    return fail("the file is cut off or has bytes appended");
  if (offset != kHeaderBytes || size > bytes.size() - offset)
    return fail("the manifest lies outside the file");
  std::string header = bytes.substr(0, kHeaderBytes).str();
  std::fill_n(header.begin() + kHashAt, kHashBytes, 0);
  uint8_t digest[kHashBytes];
  blake2b_state state;
  blake2b_init(&state, kHashBytes);
  blake2b_update(&state, reinterpret_cast<const uint8_t *>(header.data()),
                 header.size());
  auto *manifest = reinterpret_cast<const uint8_t *>(bytes.data()) + offset;
  blake2b_update(&state, manifest, size);
  blake2b_final(&state, digest, kHashBytes);
  if (memcmp(digest, bytes.data() + kHashAt, kHashBytes) != 0)
    return fail("header or manifest were changed: their hash differs");
  flatbuffers::Verifier verifier(manifest, size);
  if (!VerifyManifestBuffer(verifier))
    return fail("the manifest is malformed");
  return GetManifest(manifest);
}

/// What part of a value it is (FORMAT.md, Kinds); null for a tensor.
const char *partName(uint8_t kind) {
  static const char *const names[] = {nullptr,   "strings", "elements",
                                      "extents", "present", "string elements"};
  return kind < std::size(names) ? names[kind] : "unknown";
}

Json describeTensor(const TensorSpec &tensor) {
  Json out;
  out["name"] = text(tensor.name());
  out["type"] = elementTypeName(tensor.element_type());
  if (const char *part = partName(tensor.kind()))
    out["part"] = part;
  out["dims"] = Json::array();
  for (size_t axis = 0; axis < count(tensor.dims()); ++axis) {
    const Dim &dim = *tensor.dims()->Get(axis);
    if (dim.value() >= 0) {
      out["dims"].push_back(dim.value());
      continue;
    }
    Json open;
    open["name"] = axis < count(tensor.dim_names())
                       ? tensor.dim_names()->Get(axis)->str()
                       : "";
    open["min"] = dim.min();
    if (dim.max() != INT64_MAX)
      open["max"] = dim.max();
    if (dim.multiple() != 1)
      open["multiple"] = dim.multiple();
    out["dims"].push_back(open);
  }
  if (tensor.default_buffer() != kAbsent)
    out["optional"] = true;
  return out;
}

/// What the bundle holds, complete; the text form is made from it.
class Inspector {
public:
  Inspector(const Manifest &m, const InspectOptions &options,
            llvm::StringRef file)
      : m(m), options(options), file(file) {}

  Json run() {
    Json out;
    out["schema"] = "tessera-inspect-1";
    out["format"] =
        llvm::support::endian::read32le(file.data() + kVersionAt);
    out["file_bytes"] = file.size();
    provenance(out);
    out["inputs"] = Json::array();
    out["outputs"] = Json::array();
    for (auto *entry : items(m.entries())) {
      for (auto *tensor : items(entry->inputs()))
        out["inputs"].push_back(describeTensor(*tensor));
      for (auto *tensor : items(entry->outputs()))
        out["outputs"].push_back(describeTensor(*tensor));
    }
    segments(out);
    variants(out);
    devices(out);
    pools(out);
    constants(out);
    commands(out);
    launches(out);
    copies(out);
    kernels(out);
    if (options.buffers)
      buffers(out);
    return out;
  }

private:
  void provenance(Json &out) {
    if (auto *p = m.provenance()) {
      out["tool"] = text(p->tool());
      out["target"] = text(p->target());
      out["model_hash"] = text(p->model_hash());
      out["options"] = texts(p->options());
    }
  }
  std::string deviceName(uint32_t device) const {
    return device < count(m.devices()) ? text(m.devices()->Get(device)->name())
                                       : "device " + std::to_string(device);
  }
  void devices(Json &out) {
    out["devices"] = Json::array();
    for (auto *device : items(m.devices()))
      out["devices"].push_back(
          {{"name", text(device->name())}, {"kind", text(device->kind())}});
  }
  void launches(Json &out) {
    out["launches"] = Json::array();
    for (uint32_t i = 0; i < count(m.commands()); ++i) {
      auto *c = m.commands()->Get(i);
      if (c->kind() != format::CommandKind::Launch)
        continue;
      uint64_t number = 0;
      for (uint64_t k = uint64_t(i) + 1; k <= uint64_t(i) + c->b() && k < count(m.commands()); ++k)
        number += m.commands()->Get(uint32_t(k))->kind() == format::CommandKind::Dispatch;
      // "NAME: NODE, NODE"
      llvm::StringRef title;
      if (c->d() < count(m.strings()))
        title = {m.strings()->Get(c->d())->c_str(), m.strings()->Get(c->d())->size()};
      auto [name, nodes] = title.split(": ");
      Json row;
      row["name"] = name.str();
      row["device"] = deviceName(c->a());
      row["command"] = i;
      row["commands"] = c->b();
      row["dispatches"] = number;
      if (c->c() != kAbsent)
        row["segment"] = c->c();
      row["nodes"] = nodes.str();
      out["launches"].push_back(row);
    }
  }
  /// The device in whose memory a buffer lies; constants lie in the file.
  std::string memoryOf(uint32_t index) const {
    if (index >= count(m.buffers()))
      return "?";
    auto *buffer = m.buffers()->Get(index);
    if (buffer->alias_of() < count(m.buffers()))
      buffer = m.buffers()->Get(buffer->alias_of());
    if (buffer->kind() == format::BufferKind::Constant)
      return "constants";
    return buffer->pool() < count(m.pools())
               ? deviceName(m.pools()->Get(buffer->pool())->device())
               : "?";
  }
  /// Copies by source and destination; bytes where the size is a constant.
  void copies(Json &out) {
    std::map<uint32_t, int64_t> constants;
    for (auto *s : items(m.scalars()))
      if (s->op() == format::ScalarOp::Constant)
        constants[s->dst()] = s->imm();
    struct Total {
      uint64_t count = 0, bytes = 0, open = 0;
    };
    std::map<std::pair<std::string, std::string>, Total> totals;
    for (auto *c : items(m.commands())) {
      if (c->kind() != format::CommandKind::Copy)
        continue;
      Total &total = totals[{memoryOf(c->a()), memoryOf(c->b())}];
      ++total.count;
      auto known = constants.find(c->c());
      if (known == constants.end())
        ++total.open;
      else
        total.bytes += uint64_t(known->second);
    }
    out["copies"] = Json::array();
    for (const auto &[ends, total] : totals) {
      Json row = {{"from", ends.first}, {"to", ends.second}, {"count", total.count}, {"bytes", total.bytes}};
      if (total.open)
        row["of_open_size"] = total.open;
      out["copies"].push_back(row);
    }
  }
  /// What a vendor's compiler made, where that is known by its first bytes.
  /// Of a Vulkan device's segment; false if it is none.
  static bool vulkan(Json &row, llvm::ArrayRef<uint8_t> bytes) {
    namespace vk = format::vulkan;
    if (bytes.size() < 4 || !std::equal(std::begin(vk::kMagic), std::end(vk::kMagic), bytes.begin()))
      return false;
    vk::Artefact a;
    if (vk::Fault fault = vk::check(bytes.data(), bytes.size(), a); fault.part) {
      row["fault"] = std::string(fault.part) + " " + std::to_string(fault.index) + ": " + fault.what;
      return true;
    }
    uint64_t words = 0, features = 0;
    for (uint32_t i = 0; i < a.head.modules; ++i) {
      words += a.module(i).bytes;
      features |= a.module(i).features;
    }
    row["shaders"] = a.head.modules;
    row["shader_bytes"] = words;
    row["steps"] = a.head.steps;
    row["weight_bytes"] = a.head.constantsBytes;
    row["scratch_bytes"] = a.head.scratchBytes;
    row["feature_bits"] = features;
    return true;
  }
  void artefact(Json &row, llvm::ArrayRef<uint8_t> bytes) {
    if (vulkan(row, bytes))
      return;
    if (rknn::isArtefact(bytes)) {
      if (auto a = rknn::readArtefact(bytes)) {
        row["platform"] = a->platform;
        row["compiler"] = "rknn-toolkit2 " + a->toolkit;
        row["blob_bytes"] = a->blob.size();
      } else {
        row["fault"] = llvm::toString(a.takeError());
      }
      return;
    }
    if (!ethosu::isArtefact(bytes))
      return;
    auto a = ethosu::readArtefact(bytes);
    if (!a) {
      row["fault"] = llvm::toString(a.takeError());
      return;
    }
    row["accelerator"] = a->config.accelerator;
    row["system_config"] = a->config.systemConfig;
    row["memory_mode"] = a->config.memoryMode;
    row["compiler"] = "ethos-u-vela " + a->velaVersion;
    row["command_bytes"] = a->commands.size();
    row["weight_bytes"] = a->weights.size();
    row["scratch_bytes"] = a->scratch;
    row["fast_scratch_bytes"] = a->scratchFast;
    row["inputs"] = a->inputs.size();
    row["outputs"] = a->outputs.size();
  }
  void segments(Json &out) {
    static const char *const kinds[] = {"code", "data", "device"};
    out["segments"] = Json::array();
    for (auto *s : items(m.segments())) {
      Json row;
      row["number"] = out["segments"].size();
      row["kind"] =
          unsigned(s->kind()) < 3 ? kinds[unsigned(s->kind())] : "unknown";
      if (s->variant())
        row["variant"] = s->variant()->str();
      row["offset"] = s->offset();
      row["bytes"] = s->size();
      row["chunks"] = count(s->chunks());
      if (s->kind() == format::SegmentKind::Device && s->offset() <= file.size() &&
          s->size() <= file.size() - s->offset())
        artefact(row, llvm::arrayRefFromStringRef(file.substr(s->offset(), s->size())));
      out["segments"].push_back(row);
    }
  }
  void variants(Json &out) {
    out["variants"] = Json::array();
    for (auto *v : items(m.variants())) {
      Json row;
      row["name"] = text(v->name());
      row["machine"] = machineName(v->machine());
      row["features"] = texts(v->features());
      if (v->segment() < count(m.segments()))
        row["code_bytes"] = m.segments()->Get(v->segment())->size();
      out["variants"].push_back(row);
    }
  }
  void pools(Json &out) {
    out["pools"] = Json::array();
    for (uint32_t p = 0; p < count(m.pools()); ++p) {
      auto *pool = m.pools()->Get(p);
      uint64_t bytes = 0, members = 0;
      bool known = true;
      for (auto *b : items(m.buffers())) {
        if (b->kind() == format::BufferKind::Constant ||
            b->alias_of() != kAbsent || b->pool() != p)
          continue;
        ++members;
        bytes += b->size_bytes();
        known &= b->size_register() == kAbsent && b->has_offset();
      }
      Json row;
      row["name"] = text(pool->name());
      row["growing"] = pool->growing();
      row["device"] = deviceName(pool->device());
      row["buffers"] = members;
      if (!pool->growing() && known) {
        row["arena_bytes"] = pool->static_bytes();
        row["bytes_without_reuse"] = bytes;
      }
      out["pools"].push_back(row);
    }
  }
  void constants(Json &out) {
    uint64_t number = 0, bytes = 0;
    for (auto *b : items(m.buffers()))
      if (b->kind() == format::BufferKind::Constant &&
          b->alias_of() == kAbsent) {
        ++number;
        bytes += b->size_bytes();
      }
    out["constants"] = {{"count", number}, {"bytes", bytes}};
  }
  void commands(Json &out) {
    std::map<std::string, unsigned> kinds;
    dispatches.assign(count(m.kernels()), 0);
    for (auto *c : items(m.commands())) {
      ++kinds[EnumNameCommandKind(c->kind())];
      if (c->kind() == format::CommandKind::Dispatch &&
          c->a() < dispatches.size())
        ++dispatches[c->a()];
    }
    out["commands"] = kinds;
    out["registers"] = m.registers();
    out["scalar_instructions"] = count(m.scalars());
  }
  void kernels(Json &out) {
    std::map<std::string, unsigned> classes;
    for (auto *k : items(m.kernels()))
      ++classes[text(k->kernel_class())];
    out["kernel_classes"] = classes;
    out["kernel_count"] = count(m.kernels());
    if (!options.kernels)
      return;
    out["kernels"] = Json::array();
    for (uint32_t i = 0; i < count(m.kernels()); ++i) {
      auto *k = m.kernels()->Get(i);
      Json row;
      row["name"] = text(k->name());
      row["class"] = text(k->kernel_class());
      row["dispatches"] = dispatches[i];
      row["nodes"] = texts(k->origin());
      out["kernels"].push_back(row);
    }
  }
  void buffers(Json &out) {
    out["buffers"] = Json::array();
    for (auto *b : items(m.buffers())) {
      Json row;
      row["kind"] = EnumNameBufferKind(b->kind());
      if (b->size_register() == kAbsent)
        row["bytes"] = b->size_bytes();
      else
        row["size_register"] = b->size_register();
      if (b->alias_of() != kAbsent) {
        row["alias_of"] = b->alias_of();
        row["alias_offset"] = b->alias_offset();
      } else {
        row["pool"] = b->pool();
        row["lifetime"] = {b->first_command(), b->last_command()};
        if (b->has_offset() || b->kind() == format::BufferKind::Constant)
          row["offset"] = b->offset();
      }
      out["buffers"].push_back(row);
    }
  }

  const Manifest &m;
  const InspectOptions &options;
  llvm::StringRef file;
  std::vector<unsigned> dispatches;
};

} // namespace

namespace {
/// A bundle file whose header and manifest were checked.
struct BundleFile {
  std::unique_ptr<llvm::MemoryBuffer> file;
  const Manifest *manifest;

  llvm::StringRef bytes() const { return file->getBuffer(); }
};
} // namespace

static llvm::Expected<BundleFile> openBundle(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError(file.getError(), "cannot read '%s': %s",
                                   path.str().c_str(),
                                   file.getError().message().c_str());
  auto manifest = openManifest(path, (*file)->getBuffer());
  if (!manifest)
    return manifest.takeError();
  return BundleFile{std::move(*file), *manifest};
}

llvm::Expected<std::string> inspectBundle(llvm::StringRef path,
                                          const InspectOptions &options) {
  auto bundle = openBundle(path);
  if (!bundle)
    return bundle.takeError();
  Json json = Inspector(*bundle->manifest, options, bundle->bytes()).run();
  if (options.format == InspectFormat::Json) {
    json["path"] = path.str();
    // Names may hold any bytes.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return renderInspection(path, json);
}

llvm::Error extractSegment(llvm::StringRef path, uint32_t number,
                           llvm::StringRef output) {
  auto bundle = openBundle(path);
  if (!bundle)
    return bundle.takeError();
  llvm::StringRef bytes = bundle->bytes();
  size_t segments = count(bundle->manifest->segments());
  if (number >= segments)
    return llvm::createStringError("'%s' has %zu segments, none is number %u",
                                   path.str().c_str(), segments, number);
  auto *segment = bundle->manifest->segments()->Get(number);
  if (segment->offset() > bytes.size() ||
      segment->size() > bytes.size() - segment->offset())
    return llvm::createStringError("segment %u lies outside the file", number);
  llvm::StringRef content = bytes.substr(segment->offset(), segment->size());
  for (size_t i = 0; i * kChunkBytes < content.size(); ++i) {
    llvm::StringRef chunk = content.substr(i * kChunkBytes, kChunkBytes);
    uint8_t digest[kHashBytes];
    blake2b(digest, chunk.data(), nullptr, kHashBytes, chunk.size(), 0);
    if (i >= count(segment->chunks()) ||
        memcmp(digest, segment->chunks()->Get(uint32_t(i)), kHashBytes) != 0)
      return llvm::createStringError(
          "segment %u was changed: the hash of its chunk %zu differs", number, i);
  }
  return llvm::writeToOutput(output, [&](llvm::raw_ostream &os) {
    os << content;
    return llvm::Error::success();
  });
}

} // namespace tessera
