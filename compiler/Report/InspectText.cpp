#include "compiler/Report/InspectText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

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
  out += "]";
  if (tensor.contains("part"))
    out += " (" + tensor["part"].get<std::string>() + ")";
  return out + (tensor.contains("optional") ? " (has a default)" : "");
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

/// ", commands ... for ethos-u55-256" of a segment that a vendor's compiler made.
std::string artefactText(const Json &segment) {
  if (segment.contains("fault"))
    return ", " + segment["fault"].get<std::string>();
  if (segment.contains("shaders"))
    return ", " + std::to_string(segment["shaders"].get<uint64_t>()) + " shaders of " +
           sizeText(segment["shader_bytes"]) + ", " + std::to_string(segment["steps"].get<uint64_t>()) +
           " steps, weights " + sizeText(segment["weight_bytes"]);
  if (!segment.contains("accelerator"))
    return "";
  return ", commands " + sizeText(segment["command_bytes"]) + ", weights " + sizeText(segment["weight_bytes"]) +
         ", scratch " + sizeText(segment["scratch_bytes"]) + " for " + segment["accelerator"].get<std::string>() +
         " by " + segment["compiler"].get<std::string>();
}

/// What runs elsewhere, and what is moved for it.
void printMovement(llvm::raw_ostream &os, const Json &j) {
  os << "launches\n";
  for (const Json &l : j["launches"]) {
    os << "  " << llvm::left_justify(l["name"].get<std::string>(), 12) << " on "
       << l["device"].get<std::string>() << ", "
       << l["dispatches"].get<uint64_t>() << " dispatches";
    if (l.contains("segment"))
      os << ", artefact in segment " << l["segment"].get<uint64_t>();
    std::string nodes = l["nodes"].get<std::string>();
    os << (nodes.empty() ? "" : ": ") << nodes << "\n";
  }
  os << "copies\n";
  for (const Json &c : j["copies"]) {
    os << "  " << c["from"].get<std::string>() << " to "
       << c["to"].get<std::string>() << "  " << c["count"].get<uint64_t>()
       << " of " << sizeText(c["bytes"]);
    if (c.contains("of_open_size"))
      os << " and " << c["of_open_size"].get<uint64_t>() << " of a size that the run decides";
    os << "\n";
  }
}

} // namespace

std::string renderInspection(llvm::StringRef path, const Json &j) {
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
    os << "  " << s["number"].get<uint64_t>() << " "
       << llvm::left_justify(s["kind"].get<std::string>(), 6) << " "
       << llvm::left_justify(
              s.contains("variant") ? s["variant"].get<std::string>() : "", 12)
       << " " << llvm::right_justify(sizeText(s["bytes"]), 10) << "  at "
       << s["offset"].get<uint64_t>() << artefactText(s) << "\n";
  os << "memory\n";
  for (const Json &p : j["pools"]) {
    os << "  " << llvm::left_justify(p["name"].get<std::string>(), 12) << " "
       << p["buffers"].get<uint64_t>() << " buffers";
    if (j["devices"].size() > 1)
      os << " of " << p["device"].get<std::string>();
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
  if (!j["launches"].empty())
    printMovement(os, j);
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

} // namespace tessera
