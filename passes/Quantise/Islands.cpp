#include "passes/Quantise/Islands.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {
namespace {

double least(const std::vector<double> &v) {
  return v.empty() ? 200 : *std::min_element(v.begin(), v.end());
}
double noise(double decibel) { return std::pow(10, -decibel / 10); }

class Search {
public:
  Search(SwitchModel &m, const std::vector<Unit> &units, const IslandOptions &o)
      : model(m), units(units), options(o) {
    on.insert(m.candidates().begin(), m.candidates().end());
    for (const Unit &u : units)
      allMacs += u.macs;
    for (const Unit &u : units)
      if (u.kind == UnitKind::Mac && !u.quantised)
        floatMacs += u.macs;
  }

  IslandSearch run() {
    IslandSearch out;
    model.enableOnly(on);
    out.before = model.measure();
    if (options.most == 0 ||
        (options.most < 0 && least(out.before) >= options.enough))
      return out;
    size_t done = 0;
    for (int u : model.candidates()) {
      report("measuring units alone", done++, model.candidates().size());
      model.enableOnly({u});
      out.solo[u] = model.measure(options.few);
    }
    std::vector<IslandStep> steps;
    std::vector<double> now = out.before;
    size_t best = 0;
    double bestWorst = least(now);
    size_t limit = options.most >= 0
                       ? size_t(options.most)
                       : std::max<size_t>(6, model.candidates().size() / 4);
    while (steps.size() < limit) {
      report("choosing float islands", steps.size(), limit);
      if (options.most < 0 &&
          !mayPay(out.solo, now, bestWorst, steps.size() - best))
        break;
      auto step = next(out.solo, now);
      if (!step)
        break;
      on.erase(step->unit);
      floatMacs += macsOf(step->unit);
      now = step->parts;
      steps.push_back(*step);
      // Worth it on average since the best set before.
      double needed = options.most >= 0
                          ? 0
                          : options.leastGain * double(steps.size() - best);
      if (step->worst >= bestWorst + needed) {
        best = steps.size();
        bestWorst = step->worst;
      }
      if (options.most < 0 &&
          (bestWorst >= options.enough || steps.size() > best + patience))
        break;
    }
    out.tried = steps;
    steps.resize(best);
    out.steps = steps;
    return out;
  }

private:
  static constexpr size_t patience = 6;

  void report(const char *what, size_t done, size_t all) {
    if (options.progress)
      options.progress(what, done, all);
  }
  double macsOf(int unit) const {
    return units[unit].kind == UnitKind::Mac ? units[unit].macs : 0;
  }

  bool isEligible(int u) const {
    return !units[u].pinned &&
           (allMacs <= 0 || macsOf(u) <= 0 ||
            (floatMacs + macsOf(u)) / allMacs <= options.floatMacs);
  }

  /// Whether more steps could be worth it on average since the best set,
  /// `since` steps ago: if each unit took twice its share of the worst part's
  /// noise with it.
  bool mayPay(const std::map<int, std::vector<double>> &solo,
              const std::vector<double> &now, double bestWorst,
              size_t since) const {
    size_t part =
        size_t(std::min_element(now.begin(), now.end()) - now.begin());
    double all = 0, gone = 0;
    std::vector<double> each;
    for (int u : on) {
      double own = noise(solo.at(u)[part]);
      all += own;
      if (isEligible(u))
        each.push_back(own);
    }
    std::sort(each.rbegin(), each.rend());
    for (size_t k = 0; k < each.size() && all > 0; ++k) {
      gone += 2 * each[k] / all;
      double hoped = gone < 1 ? least(now) - 10 * std::log10(1 - gone) : 200;
      if (hoped >= bestWorst + options.leastGain * double(since + k + 1))
        return true;
    }
    return false;
  }

  std::optional<IslandStep> next(const std::map<int, std::vector<double>> &solo,
                                 const std::vector<double> &now) {
    // Noise that a unit adds to a part, weighed by how bad the part is.
    std::vector<std::pair<double, int>> ranked;
    for (int u : on) {
      if (!isEligible(u))
        continue;
      double score = 0;
      for (size_t k = 0; k < now.size(); ++k)
        score =
            std::max(score, noise(solo.at(u)[k]) *
                                std::min(1.0, noise(now[k] - least(now) - 1)));
      double share = allMacs > 0 ? macsOf(u) / allMacs : 0;
      ranked.push_back({-score / (1 + 20 * share), u});
    }
    std::sort(ranked.begin(), ranked.end());
    std::optional<IslandStep> best;
    auto without = [&](int unit) {
      std::set<int> rest = on;
      rest.erase(unit);
      model.enableOnly(rest);
    };
    for (size_t k = 0; k < ranked.size() && k < 4; ++k) {
      without(ranked[k].second);
      double worst = least(model.measure(options.few));
      if (!best || worst > best->worst)
        best = {ranked[k].second, {}, worst};
    }
    if (!best)
      return best;
    without(best->unit);
    best->parts = model.measure();
    best->worst = least(best->parts);
    return best;
  }

  SwitchModel &model;
  const std::vector<Unit> &units;
  const IslandOptions &options;
  std::set<int> on;
  double allMacs = 0, floatMacs = 0;
};

} // namespace

IslandSearch findIslands(SwitchModel &model, const std::vector<Unit> &units,
                         const IslandOptions &options) {
  return Search(model, units, options).run();
}

} // namespace tessera::quantise
