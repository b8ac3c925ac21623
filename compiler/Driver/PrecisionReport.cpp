#include "compiler/Driver/PrecisionReport.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace mlir;

namespace tessera {

static std::string typeName(int32_t type) {
  return type == quantise::TensorProto::INT16   ? "int16"
         : type == quantise::TensorProto::UINT8 ? "uint8"
                                                : "int8";
}

static std::string percentText(double share) {
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format("%.3g %% (%.1f dB)", share * 100, decibelOfShare(share));
  return text;
}

static std::map<std::string, unsigned> devicesOf(const Placement &p) {
  std::map<std::string, unsigned> devices;
  for (size_t j = 0; j < p.nodes.size(); ++j)
    for (const std::string &node : p.nodes[j])
      devices[node] = unsigned(
          p.problem.ops[j].options[p.result.solution->choice[j]].device);
  return devices;
}

static std::string reasonOf(const QuantisedModel &model, int unit) {
  const quantise::Unit &u = model.result->decisions.units[unit];
  if (!model.choice)
    return u.reason;
  auto alone = model.choice->alone.find(unit);
  if (alone == model.choice->alone.end())
    return u.reason;
  return "the plan is cheaper, or within the limit, with it in float; in "
         "integers it alone costs " +
         percentText(alone->second);
}

std::vector<PrecisionRow>
auditPrecision(const QuantisedModel &model,
               const std::optional<Placement> &placement, StringRef cpu) {
  std::vector<PrecisionRow> rows;
  if (!model.result)
    return rows;
  std::map<int, int> unitOf;
  for (auto [u, unit] : llvm::enumerate(model.result->decisions.units))
    for (int node : unit.nodes)
      unitOf[node] = int(u);
  std::map<std::string, unsigned> devices;
  if (placement)
    devices = devicesOf(*placement);
  for (auto [k, label] : llvm::enumerate(model.result->nodes)) {
    if (label.added)
      continue;
    PrecisionRow row{
        label.name, label.op,  model.scheme == "16x8" ? "int16" : "int8",
        "f32",      cpu.str(), ""};
    auto unit = unitOf.find(int(k));
    if (placement) {
      auto device = devices.find(label.name);
      row.device = device == devices.end()
                       ? "folded"
                       : placement->problem.devices[device->second].name;
      if (device != devices.end() && device->second)
        row.got =
            precisionName(placement->devices[device->second].precision).str();
    }
    if (unit == unitOf.end()) {
      row.why = "quantisation has no integer form for it";
    } else if (const quantise::Unit &u =
                   model.result->decisions.units[unit->second];
               u.quantised) {
      row.asked = row.got = typeName(u.type);
    } else {
      row.why = reasonOf(model, unit->second);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void printPrecision(const QuantisedModel &model, llvm::raw_ostream &os) {
  for (size_t k = 0; k < model.parts.size(); ++k)
    os << model.parts[k].name << ": " << llvm::format("%.1f", model.verified[k])
       << " dB on calibration samples\n";
  if (model.result) {
    size_t integers = llvm::count_if(model.result->decisions.units,
                                     [](auto &u) { return u.quantised; });
    os << integers << " of " << model.result->decisions.units.size()
       << " units in integers, "
       << llvm::format("%.1f", model.result->macs > 0
                                   ? 100 * model.result->integerMacs /
                                         model.result->macs
                                   : 0)
       << " % of multiply-accumulates\n";
    if (!integers)
      os << "nothing is in integers: float is cheaper on this target, or no "
            "integer plan keeps the limit\n";
  }
  if (!model.choice) {
    if (model.withoutHalf)
      os << "no device computes in float16: the limit might not be kept\n";
    return;
  }
  const PrecisionChoice &c = *model.choice;
  os << "limit " << c.limit.text << ": noise at most "
     << percentText(c.limit.noise) << " of the worst output's power\n";
  for (size_t k = 0; k < c.plans.size(); ++k) {
    const PrecisionPlan &p = c.plans[k];
    os << (k == c.chosen ? "  * " : "    ")
       << llvm::format("%10.3f ms  ", double(p.cost) / 1e6)
       << llvm::format("%6.1f dB  %4zu units  ",
                       decibelOfShare(p.verified.value_or(p.noise)),
                       p.integers.size())
       << p.origin << (p.withoutHalf ? ", no float16" : "") << "\n";
  }
}

static double rounded(double share) {
  return share > 0 ? std::nearbyint(decibelOfShare(share) * 100) / 100 : 200;
}

static void jsonPlan(const PrecisionChoice &c, size_t k,
                     llvm::json::OStream &json) {
  const PrecisionPlan &p = c.plans[k];
  json.object([&] {
    json.attribute("origin", p.origin);
    json.attribute("estimate_ns", p.cost);
    json.attribute("noise_db", rounded(p.noise));
    json.attribute("verified_db", p.verified
                                      ? llvm::json::Value(rounded(*p.verified))
                                      : llvm::json::Value(nullptr));
    json.attribute("integer_units", int64_t(p.integers.size()));
    json.attribute("float16_nodes", int64_t(p.halfNodes.size()));
    json.attribute("chosen", k == c.chosen);
  });
}

static void jsonChoice(const PrecisionChoice &c, llvm::json::OStream &json) {
  json.attribute("limit", c.limit.text);
  json.attribute("limit_db", rounded(c.limit.noise));
  json.attribute("float16_db", rounded(c.halfNoise));
  json.attribute("rounds", int64_t(c.rounds));
  json.attributeArray("plans", [&] {
    for (size_t k = 0; k < c.plans.size(); ++k)
      jsonPlan(c, k, json);
  });
  json.attributeArray("pareto", [&] {
    for (size_t k : c.pareto())
      jsonPlan(c, k, json);
  });
}

static void jsonAudit(const std::vector<PrecisionRow> &rows,
                      llvm::json::OStream &json) {
  json.attributeArray("nodes", [&] {
    for (const PrecisionRow &row : rows)
      json.object([&] {
        json.attribute("node", llvm::json::fixUTF8(row.node));
        json.attribute("operator", llvm::json::fixUTF8(row.op));
        json.attribute("asked", row.asked);
        json.attribute("got", row.got);
        json.attribute("device", row.device);
        if (!row.why.empty())
          json.attribute("why", llvm::json::fixUTF8(row.why));
      });
  });
}

static void printPrecisionJson(const QuantisedModel &model,
                               const std::optional<Placement> &placement,
                               StringRef cpu, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 2);
  json.object([&] {
    json.attribute("format", "tessera-precision-report/1");
    json.attribute("scheme", model.scheme);
    json.attributeObject("parts_db", [&] {
      for (size_t k = 0; k < model.parts.size(); ++k)
        json.attribute(llvm::json::fixUTF8(model.parts[k].name),
                       std::nearbyint(model.verified[k] * 100) / 100);
    });
    if (model.choice)
      jsonChoice(*model.choice, json);
    jsonAudit(auditPrecision(model, placement, cpu), json);
  });
  os << "\n";
}

llvm::Error writePrecision(const QuantisedModel &model,
                           const std::optional<Placement> &placement,
                           StringRef cpu, StringRef folder) {
  if (std::error_code ec = llvm::sys::fs::create_directories(folder))
    return llvm::createStringError(ec, "cannot make folder " + folder + ": " +
                                           ec.message());
  auto write = [&](StringRef name, const std::string &text) -> llvm::Error {
    SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
      os << text;
      return llvm::Error::success();
    });
    return error ? llvm::createStringError("cannot write " + path + ": " +
                                           llvm::toString(std::move(error)))
                 : llvm::Error::success();
  };
  std::string text, bytes;
  llvm::raw_string_ostream os(text);
  printPrecisionJson(model, placement, cpu, os);
  if (llvm::Error error = write("precision.json", text))
    return error;
  if (!model.proto.SerializeToString(&bytes)) // of 2 GB or more
    return llvm::Error::success();
  return write("quantized.onnx", bytes);
}

} // namespace tessera
