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
  return type == TensorProto::INT16   ? "int16"
         : type == TensorProto::UINT8 ? "uint8"
                                      : "int8";
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

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
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
    out["units"].push_back(one);
  }
  out["values"] = Json::array();
  for (auto &[key, p] : r.decisions.points)
    out["values"].push_back({{"value", key.value},
                             {"type", typeName(key.type)},
                             {"scale", p.scale},
                             {"zero_point", p.zero}});
  return out.dump(2) + "\n";
}

std::string layersCsv(const QuantiseResult &r) {
  std::string out = "node,kind,state,macs,alone_db,reason\n";
  for (size_t i = 0; i < r.decisions.units.size(); ++i) {
    const Unit &u = r.decisions.units[i];
    char numbers[64];
    std::snprintf(numbers, sizeof(numbers), ",%.0f,", u.macs);
    out += quoted(u.name) + "," + unitKindName(u.kind) + "," +
           (u.quantised ? typeName(u.type) : "float") + numbers;
    if (auto solo = soloOf(r, int(i))) {
      std::snprintf(numbers, sizeof(numbers), "%.2f", *solo);
      out += numbers;
    }
    out += "," + quoted(u.reason) + "\n";
  }
  return out;
}

std::string layersSvg(const QuantiseResult &r) {
  std::vector<std::pair<int, double>> bars;
  for (size_t i = 0; i < r.decisions.units.size(); ++i)
    if (auto solo = soloOf(r, int(i)))
      bars.push_back({int(i), *solo});
  // From 0 dB (as large as the signal) at the top to 80 dB at the bottom.
  const int height = 260, left = 50,
            width = std::max<int>(400, int(bars.size()) * 9);
  char text[400];
  std::snprintf(text, sizeof(text),
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n",
                left + width + 20, height + 50);
  std::string out = text;
  out += "<title>signal to noise of the worst output part with one unit "
         "quantised alone; taller is worse</title>\n";
  auto y = [&](double db) {
    return 20 + height * std::clamp(db, 0.0, 80.0) / 80;
  };
  for (int db = 0; db <= 80; db += 20) {
    std::snprintf(text, sizeof(text),
                  "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
                  "stroke=\"#ccc\"/><text x=\"6\" y=\"%.1f\">%d dB</text>\n",
                  left, left + width, y(db), y(db), y(db) + 4, db);
    out += text;
  }
  for (size_t k = 0; k < bars.size(); ++k) {
    const Unit &u = r.decisions.units[bars[k].first];
    std::snprintf(text, sizeof(text),
                  "<rect x=\"%d\" y=\"%.1f\" width=\"7\" height=\"%.1f\" "
                  "fill=\"%s\"><title>",
                  left + int(k) * 9, y(bars[k].second),
                  y(80) - y(bars[k].second), u.quantised ? "#4a7db5" : "#c44");
    out += text + escaped(u.name);
    std::snprintf(text, sizeof(text), ": %.1f dB%s</title></rect>\n",
                  bars[k].second, u.quantised ? "" : ", float");
    out += text;
  }
  std::snprintf(text, sizeof(text),
                "<text x=\"%d\" y=\"%d\">units in the model's order; red: "
                "float island</text>\n</svg>\n",
                left, height + 40);
  return out + text;
}

} // namespace tessera::quantise
