#include "passes/Quantise/Report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace tessera::quantise {
namespace {

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

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...) {
  char out[400];
  va_list list;
  va_start(list, format);
  std::vsnprintf(out, sizeof(out), format, list);
  va_end(list);
  return out;
}

std::string opening(int width, int height, const char *title) {
  return text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
              "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
              "<title>%s</title>\n",
              width, height, title);
}

constexpr int kHeight = 260, kLeft = 50;

/// Lines across for 0 to 80 dB; `y` says where.
template <typename Y> std::string decibelLines(int width, Y y) {
  std::string out;
  for (int db = 0; db <= 80; db += 20)
    out += text("<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
                "stroke=\"#ccc\"/><text x=\"6\" y=\"%.1f\">%d dB</text>\n",
                kLeft, kLeft + width, y(db), y(db), y(db) + 4, db);
  return out;
}

double least(const std::vector<double> &v) {
  return *std::min_element(v.begin(), v.end());
}

} // namespace

// From 0 dB (as large as the signal) at the top to 80 dB at the bottom.
std::string layersSvg(const QuantiseResult &r) {
  std::vector<int> shown;
  for (size_t i = 0; i < r.decisions.units.size(); ++i)
    if (r.islands.solo.count(int(i)) || r.errors.count(int(i)))
      shown.push_back(int(i));
  int width = std::max<int>(400, int(shown.size()) * 9);
  std::string out =
      opening(kLeft + width + 20, kHeight + 50,
              "signal to noise of the worst output part with one unit "
              "quantised alone (bars), and accumulated at the unit's output "
              "(dots); taller is worse");
  auto y = [](double db) {
    return 20 + kHeight * std::clamp(db, 0.0, 80.0) / 80;
  };
  out += decibelLines(width, y);
  for (size_t k = 0; k < shown.size(); ++k) {
    const Unit &u = r.decisions.units[shown[k]];
    int x = kLeft + int(k) * 9;
    auto solo = r.islands.solo.find(shown[k]);
    if (solo != r.islands.solo.end() && !solo->second.empty()) {
      double db = least(solo->second);
      out += text("<rect x=\"%d\" y=\"%.1f\" width=\"7\" height=\"%.1f\" "
                  "fill=\"%s\"><title>",
                  x, y(db), y(80) - y(db), u.quantised ? "#4a7db5" : "#c44") +
             escaped(u.name) +
             text(": %.1f dB%s</title></rect>\n", db,
                  u.quantised ? "" : ", float");
    }
    auto error = r.errors.find(shown[k]);
    if (error != r.errors.end()) {
      const UnitErrors &e = error->second;
      out += text("<circle cx=\"%d.5\" cy=\"%.1f\" r=\"2.5\" "
                  "fill=\"#222\"><title>",
                  x + 3, y(e.accumulated.snr)) +
             escaped(u.name) +
             text(": accumulated %.1f dB, isolated %.1f dB</title></circle>\n",
                  e.accumulated.snr, e.isolated.snr);
    }
  }
  return out + text("<text x=\"%d\" y=\"%d\">units in the model's order; red: "
                    "float island; dots: accumulated</text>\n</svg>\n",
                    kLeft, kHeight + 40);
}

// Right is slower, up is more accurate; a line joins the points that no other
// beats in both.
std::string frontierSvg(const QuantiseResult &r) {
  const int width = 460;
  double most = 1;
  for (const FrontierPoint &p : r.frontier)
    most = std::max(most, p.latency);
  auto x = [&](double ns) { return kLeft + width * ns / (most * 1.05); };
  auto y = [](double db) {
    return 20 + kHeight * (1 - std::clamp(db, 0.0, 80.0) / 80);
  };
  std::string out = opening(kLeft + width + 40, kHeight + 60,
                            "accuracy against latency, with each more float "
                            "island of the search");
  out += decibelLines(width, y);
  std::vector<FrontierPoint> sorted = r.frontier;
  std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) {
    return std::pair(a.latency, -a.worst) < std::pair(b.latency, -b.worst);
  });
  std::string line;
  double best = -1000;
  for (const FrontierPoint &p : sorted)
    if (p.worst > best) {
      best = p.worst;
      line += text("%.1f,%.1f ", x(p.latency), y(p.worst));
    }
  out +=
      "<polyline fill=\"none\" stroke=\"#4a7db5\" points=\"" + line + "\"/>\n";
  for (const FrontierPoint &p : r.frontier)
    out += text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>"
                "%zu islands: %.1f dB, %.1f us</title></circle>\n",
                x(p.latency), y(p.worst),
                p.islands == r.islands.steps.size() ? "#c44" : "#4a7db5",
                p.islands, p.worst, p.latency / 1000);
  return out + text("<text x=\"%d\" y=\"%d\">latency, 0 to %.1f us; red: what "
                    "was chosen</text>\n</svg>\n",
                    kLeft, kHeight + 40, most * 1.05 / 1000);
}

} // namespace tessera::quantise
