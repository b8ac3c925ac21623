#include "passes/Quantise/Report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera::quantise {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double v, double unit = 100) {
  return std::nearbyint(v * unit) / unit;
}

std::optional<double> soloOf(const QuantiseResult &r, int unit) {
  auto it = r.islands.solo.find(unit);
  if (it == r.islands.solo.end() || it->second.empty())
    return std::nullopt;
  return *std::min_element(it->second.begin(), it->second.end());
}

const char *typeName(int32_t type) {
  switch (type) {
  case TensorProto::INT16:
    return "int16";
  case TensorProto::UINT8:
    return "uint8";
  case TensorProto::INT4:
    return "int4";
  case TensorProto::FLOAT16:
    return "float16";
  case TensorProto::BFLOAT16:
    return "bfloat16";
  default:
    return "int8";
  }
}

Json valuesOf(const QuantiseResult &r, const std::vector<double> &decibels) {
  Json out = Json::object();
  for (size_t k = 0; k < decibels.size() && k < r.parts.size(); ++k)
    out[r.parts[k].name] = rounded(decibels[k]);
  return out;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text)
    out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

Json figuresOf(const ErrorFigures &f) {
  return {{"snr_db", rounded(f.snr)},
          {"cosine", rounded(f.cosine, 1e6)},
          {"max", f.largest}};
}

const UnitErrors *errorsOf(const QuantiseResult &r, int unit) {
  auto it = r.errors.find(unit);
  return it == r.errors.end() ? nullptr : &it->second;
}

std::string formatted(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

/// snr, cosine and largest difference, isolated and then accumulated.
std::vector<std::string> columnsOf(const UnitErrors *e) {
  if (!e)
    return std::vector<std::string>(6);
  std::vector<std::string> out;
  for (const ErrorFigures &f : {e->isolated, e->accumulated}) {
    out.push_back(formatted("%.2f", f.snr));
    out.push_back(formatted("%.6f", f.cosine));
    out.push_back(formatted("%.4g", f.largest));
  }
  return out;
}

} // namespace

std::string reportJson(const QuantiseResult &r) {
  Json out;
  out["schema"] = "tessera.quantize/1";
  out["hazards"] = Json::array();
  for (const Hazard &h : r.hazards)
    out["hazards"].push_back({{"kind", h.kind},
                              {"nodes", h.nodes},
                              {"text", h.text},
                              {"remedy", h.remedy}});
  out["original_opset"] = r.originalOpset;
  out["folded_normalisations"] = r.foldedNorms;
  out["ranges"] = rangeMethodName(r.ranges);
  out["macs"] = r.macs;
  out["integer_macs"] = r.integerMacs;
  out["snr_db"] = {{"without_islands", valuesOf(r, r.islands.before)},
                   {"of_the_model", valuesOf(r, r.verified)}};
  out["islands"] = Json::array();
  for (const IslandStep &s : r.islands.steps)
    out["islands"].push_back({{"node", r.decisions.units[s.unit].name},
                              {"worst_db", rounded(s.worst)}});
  out["units"] = Json::array();
  for (size_t i = 0; i < r.decisions.units.size(); ++i) {
    const Unit &u = r.decisions.units[i];
    Json one = {{"node", u.name},
                {"kind", unitKindName(u.kind)},
                {"macs", u.macs},
                {"state", u.quantised ? typeName(u.type) : "float"}};
    if (!u.quantised)
      one["reason"] = u.reason;
    if (auto solo = soloOf(r, int(i)))
      one["alone_db"] = rounded(*solo);
    if (const UnitErrors *e = errorsOf(r, int(i))) {
      one["isolated"] = figuresOf(e->isolated);
      one["accumulated"] = figuresOf(e->accumulated);
    }
    out["units"].push_back(one);
  }
  out["values"] = Json::array();
  for (auto &[key, p] : r.decisions.points)
    out["values"].push_back({{"value", key.value},
                             {"type", typeName(key.type)},
                             {"scale", p.scale},
                             {"zero_point", p.zero}});
  if (r.corrected)
    out["bias_correction"] = {
        {"worst_db_before", rounded(r.corrected->first)},
        {"worst_db_after", rounded(r.corrected->second)},
        {"kept", r.corrected->second > r.corrected->first}};
  if (!r.frontier.empty()) {
    out["frontier"] = Json::array();
    for (const FrontierPoint &p : r.frontier)
      out["frontier"].push_back({{"islands", p.islands},
                                 {"worst_db", rounded(p.worst)},
                                 {"latency_us", rounded(p.latency / 1000)}});
  }
  return out.dump(2) + "\n";
}

std::string layersCsv(const QuantiseResult &r) {
  std::string out = "node,kind,state,macs,alone_db,isolated_db,isolated_cosine,"
                    "isolated_max,accumulated_db,accumulated_cosine,"
                    "accumulated_max,reason\n";
  for (size_t i = 0; i < r.decisions.units.size(); ++i) {
    const Unit &u = r.decisions.units[i];
    out += quoted(u.name) + "," + unitKindName(u.kind) + "," +
           (u.quantised ? typeName(u.type) : "float") +
           formatted(",%.0f,", u.macs);
    if (auto solo = soloOf(r, int(i)))
      out += formatted("%.2f", *solo);
    for (const std::string &column : columnsOf(errorsOf(r, int(i))))
      out += "," + column;
    out += "," + quoted(u.reason) + "\n";
  }
  return out;
}

std::string layersText(const QuantiseResult &r) {
  std::vector<std::vector<std::string>> rows = {
      {"node", "kind", "state", "alone dB", "isolated dB", "cosine", "max",
       "accumulated dB", "cosine", "max", ""}};
  for (size_t i = 0; i < r.decisions.units.size(); ++i) {
    const Unit &u = r.decisions.units[i];
    auto solo = soloOf(r, int(i));
    std::vector<std::string> row = {u.name, unitKindName(u.kind),
                                    u.quantised ? typeName(u.type) : "float",
                                    solo ? formatted("%.2f", *solo) : ""};
    for (const std::string &column : columnsOf(errorsOf(r, int(i))))
      row.push_back(column);
    row.push_back(u.reason);
    rows.push_back(row);
  }
  std::vector<size_t> widths(rows[0].size());
  for (auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (auto &row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      std::string space(widths[c] - row[c].size(), ' ');
      bool number = c > 2 && c + 1 < row.size();
      line += (number ? space + row[c] : row[c] + space) + "  ";
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

} // namespace tessera::quantise
