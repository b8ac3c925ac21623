#include "compiler/Report/Inspect.h"

#include "runtime-stub/format/Header.h"
#include "runtime-stub/format/bundle_generated.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

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
  if (read32le(bytes.data() + kVersionAt) != kFormatVersion)
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

Json describeTensor(const TensorSpec &tensor) {
  Json out;
  out["name"] = text(tensor.name());
  out["type"] = elementTypeName(tensor.element_type());
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
            uint64_t fileBytes)
      : m(m), options(options), fileBytes(fileBytes) {}

  Json run() {
    Json out;
    out["schema"] = "tessera-inspect-1";
    out["format"] = kFormatVersion;
    out["file_bytes"] = fileBytes;
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
    pools(out);
    constants(out);
    commands(out);
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
  void segments(Json &out) {
    static const char *const kinds[] = {"code", "data", "device"};
    out["segments"] = Json::array();
    for (auto *s : items(m.segments())) {
      Json row;
      row["kind"] =
          unsigned(s->kind()) < 3 ? kinds[unsigned(s->kind())] : "unknown";
      if (s->variant())
        row["variant"] = s->variant()->str();
      row["offset"] = s->offset();
      row["bytes"] = s->size();
      row["chunks"] = count(s->chunks());
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
  uint64_t fileBytes;
  std::vector<unsigned> dispatches;
};

std::string sizeText(uint64_t bytes) {
  std::string out;
  llvm::raw_string_ostream os(out);
  if (bytes < 10240)
    os << bytes << " B";
  else if (bytes < 10 * 1048576)
    os << llvm::format("%.1f KiB", double(bytes) / 1024);
  else
    os << llvm::format("%.1f MiB", double(bytes) / 1048576);
  return out;
}

std::string shapeText(const Json &tensor) {
  std::string out = tensor["type"].get<std::string>() + "[";
  bool first = true;
  for (const Json &dim : tensor["dims"]) {
    out += first ? "" : ", ";
    first = false;
    if (dim.is_number()) {
      out += std::to_string(dim.get<int64_t>());
      continue;
    }
    std::string name = dim["name"].get<std::string>();
    out += name.empty() ? "?" : name;
    if (dim["min"].get<int64_t>() > 0 || dim.contains("max"))
      out += "=" + std::to_string(dim["min"].get<int64_t>()) + ".." +
             (dim.contains("max") ? std::to_string(dim["max"].get<int64_t>())
                                  : "");
    if (dim.contains("multiple"))
      out += ":" + std::to_string(dim["multiple"].get<int64_t>());
  }
  return out + "]" + (tensor.contains("optional") ? " (has a default)" : "");
}

std::string joined(const Json &words, const char *separator = " ") {
  std::string out;
  for (const Json &word : words)
    out += (out.empty() ? "" : separator) + word.get<std::string>();
  return out;
}

void printTensors(llvm::raw_ostream &os, const char *title,
                  const Json &tensors) {
  os << title << "\n";
  for (const Json &tensor : tensors)
    os << "  " << tensor["name"].get<std::string>() << "  " << shapeText(tensor)
       << "\n";
}

std::string render(llvm::StringRef path, const Json &j) {
  std::string out;
  llvm::raw_string_ostream os(out);
  os << "bundle    " << path << "  " << sizeText(j["file_bytes"]) << ", format "
     << j["format"].get<int>() << "\n";
  for (const char *key : {"tool", "target", "model_hash"})
    if (j.contains(key) && !j[key].get<std::string>().empty())
      os << llvm::left_justify(key, 9) << " " << j[key].get<std::string>() << "\n";
  if (j.contains("options") && !j["options"].empty())
    os << "options   " << joined(j["options"]) << "\n";
  printTensors(os, "inputs", j["inputs"]);
  printTensors(os, "outputs", j["outputs"]);
  os << "variants\n";
  for (const Json &v : j["variants"]) {
    os << "  " << llvm::left_justify(v["name"].get<std::string>(), 12) << " "
       << llvm::left_justify(v["machine"].get<std::string>(), 8) << " "
       << llvm::right_justify(
              v.contains("code_bytes") ? sizeText(v["code_bytes"]) : "", 10);
    if (!v["features"].empty())
      os << "  needs " << joined(v["features"]);
    os << "\n";
  }
  os << "segments\n";
  for (const Json &s : j["segments"])
    os << "  " << llvm::left_justify(s["kind"].get<std::string>(), 6) << " "
       << llvm::left_justify(
              s.contains("variant") ? s["variant"].get<std::string>() : "", 12)
       << " " << llvm::right_justify(sizeText(s["bytes"]), 10) << "  at "
       << s["offset"].get<uint64_t>() << "\n";
  os << "memory\n";
  for (const Json &p : j["pools"]) {
    os << "  " << llvm::left_justify(p["name"].get<std::string>(), 12) << " "
       << p["buffers"].get<uint64_t>() << " buffers";
    if (p.contains("arena_bytes"))
      os << ", " << sizeText(p["arena_bytes"]) << " ("
         << sizeText(p["bytes_without_reuse"]) << " without reuse)";
    else if (p["growing"].get<bool>())
      os << ", grows when a run needs it";
    else
      os << ", size depends on the input shapes";
    os << "\n";
  }
  os << "  " << llvm::left_justify("constants", 12) << " "
     << j["constants"]["count"].get<uint64_t>() << " of "
     << sizeText(j["constants"]["bytes"]) << "\n";
  os << "commands  ";
  const char *separator = "";
  for (auto &[kind, number] : j["commands"].items()) {
    os << separator << number.get<unsigned>() << " " << kind;
    separator = ", ";
  }
  os << "\nkernels   " << j["kernel_count"].get<uint64_t>();
  separator = " (";
  for (auto &[kind, number] : j["kernel_classes"].items()) {
    os << separator << number.get<unsigned>() << " " << kind;
    separator = ", ";
  }
  os << (j["kernel_classes"].empty() ? "\n" : ")\n");
  if (j.contains("kernels"))
    for (const Json &k : j["kernels"])
      os << "  "
         << llvm::right_justify(
                std::to_string(k["dispatches"].get<unsigned>()) + "x", 5)
         << " " << llvm::left_justify(k["class"].get<std::string>(), 14) << " "
         << llvm::left_justify(k["name"].get<std::string>(), 22) << " "
         << joined(k["nodes"], ", ") << "\n";
  if (j.contains("buffers")) {
    os << "buffers\n";
    for (size_t i = 0; i < j["buffers"].size(); ++i)
      os << "  " << i << " " << j["buffers"][i].dump() << "\n";
  }
  return out;
}

} // namespace

llvm::Expected<std::string> inspectBundle(llvm::StringRef path,
                                          const InspectOptions &options) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError(file.getError(), "cannot read '%s': %s",
                                   path.str().c_str(),
                                   file.getError().message().c_str());
  llvm::StringRef bytes = (*file)->getBuffer();
  auto manifest = openManifest(path, bytes);
  if (!manifest)
    return manifest.takeError();
  Json json = Inspector(**manifest, options, bytes.size()).run();
  if (options.format == InspectFormat::Json) {
    json["path"] = path.str();
    // Names may hold any bytes.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return render(path, json);
}

} // namespace tessera
