// Colours and what they mean. A paint is one answer to "colour by": a class per
// node, and a legend entry per class. Every fill is paired with an ink of a
// contrast of at least 4.5 : 1, in the light theme and in the dark one.

const PALETTES = {
  light: {
    paper: "#ffffff", ink: "#16202c", line: "#7d8896", faint: "#c3cad3", select: "#0b57d0", copy: "#b3261e",
    category: ["#8fc4ff", "#ffbe63", "#86d69a", "#f0a0cf", "#c5b0ff", "#74d3cd", "#e3d550", "#f3997f"],
    none: "#e6e9ee", bad: "#ff6b62", rest: "#b9c0ca",
    scale: ["#dbe9f8", "#b8d4f1", "#8fbbe8", "#f7cf84", "#f4a259", "#ea6a43"],
    hull: ["#dfecfd", "#fdebcf", "#dcf3e1", "#fadfef", "#eae2ff", "#d6f2f0", "#f5efc0", "#fbe0d8"],
  },
  dark: {
    paper: "#11161d", ink: "#eef2f6", line: "#738093", faint: "#3a4552", select: "#7cb4ff", copy: "#ff8a80",
    category: ["#1f5f9f", "#85550a", "#1f6f3a", "#8b2f67", "#5a45a6", "#136b67", "#67600f", "#8f3a24"],
    none: "#2c343e", bad: "#b8271d", rest: "#4d5866",
    scale: ["#1d3045", "#23486b", "#2c6494", "#7a5a12", "#9a4a0e", "#b3301a"],
    hull: ["#14263a", "#2b2110", "#12291b", "#2d1726", "#221c3b", "#0f2928", "#26240d", "#2c1a14"],
  },
};

const MODES = {
  device: "device", precision: "precision", cost: "cost", reason: "reason", operator: "operator",
};

/** Whether a mode speaks of one device, which the reader chooses. */
function needsUnit(view, mode) {
  return mode === "reason" || (mode === "precision" && view.edgeCopy === null);
}

/**
 * Classes by name, those of `first`, then the most frequent; those past the
 * palette's end share one. `nameOf` gives null for what the mode says nothing about.
 */
function paintNames(model, nameOf, missing, first = []) {
  const counts = new Map();
  const names = model.nodes.map((node, i) => (node.kind === "node" ? nameOf(i) : null));
  names.forEach((name) => name !== null && counts.set(name.text, (counts.get(name.text) || 0) + 1));
  const bad = new Set(names.filter((n) => n && n.bad).map((n) => n.text));
  const sorted = [...counts.keys()].filter((t) => !bad.has(t)).sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  sorted.sort((a, b) => (first.indexOf(a) + 1 || 1000) - (first.indexOf(b) + 1 || 1000));
  const room = PALETTES.light.category.length;
  const entries = [], indexOf = new Map();
  const add = (label, colour, count) => entries.push({ label, colour, count }) - 1;
  sorted.slice(0, room).forEach((text, i) => indexOf.set(text, add(text, ["category", i], counts.get(text))));
  bad.forEach((text) => indexOf.set(text, add(text, ["bad"], counts.get(text))));
  const others = sorted.slice(room);
  if (others.length) {
    const index = add(counted(others.length, "other"), ["rest"], others.reduce((sum, t) => sum + counts.get(t), 0));
    others.forEach((text) => indexOf.set(text, index));
  }
  const without = names.filter((n, i) => n === null && model.nodes[i].kind === "node").length;
  if (without || entries.length === 0)
    add(missing, ["none"], without);
  return { entries, classOf: names.map((n) => (n === null ? entries.length - 1 : indexOf.get(n.text))) };
}

/** Costs as shares of the dearest node: the eye finds what matters. */
function paintCost(model, view) {
  const most = Math.max(0, ...view.facts.map((f) => f.shade));
  const bounds = [0, 0.01, 0.03, 0.1, 0.25, 0.5].map((share) => share * most);
  const entries = bounds.map((from, i) => ({
    label: i === 0 ? `under ${formatNs(bounds[1])}` : i + 1 < bounds.length ? `from ${formatNs(from)}` : `from ${formatNs(from)} to ${formatNs(most)}`,
    colour: ["scale", i], count: 0,
  }));
  entries.reverse().push({ label: "nothing to run, or in another node's time", colour: ["none"], count: 0 });
  const classOf = model.nodes.map((node, i) => {
    const { shade } = view.facts[i];
    let index = bounds.length;
    if (node.kind === "node" && shade > 0)
      index = bounds.filter((from) => shade < from).length;
    entries[index].count += node.kind === "node" ? 1 : 0;
    return index;
  });
  return { entries, classOf };
}

function paint(model, view, mode, unit) {
  const fact = (i) => view.facts[i];
  switch (mode) {
  case "cost":
    return paintCost(model, view);
  case "operator":
    return paintNames(model, (i) => ({ text: model.nodes[i].op }), "");
  case "precision":
    return paintNames(model, (i) => {
      if (fact(i).gone)
        return null;
      if (fact(i).precision !== null)
        return { text: fact(i).precision };
      const v = fact(i).by[unit];
      if (!v.yes)
        return null;
      return { text: v.precisions.length ? v.precisions.join(" or ") : "as in the model" };
    }, model.kind === "plan" ? "nothing to run" : `nothing to run, or not on ${unit}`);
  case "reason":
    return paintNames(model, (i) => {
      const v = fact(i).by[unit];
      if (v && v.yes && model.kind === "plan" && !fact(i).gone)
        return { text: v.chosen ? `none: it runs on ${unit}` : `none, but the plan is cheaper without it on ${unit}` };
      if (!v || v.yes || v.reasons.length === 0)
        return null;
      return { text: reasonTitle(model, v.reasons[0]) };
    }, model.kind === "plan" ? "nothing to run" : `none: it can run on ${unit}`);
  default:
    return paintNames(model, (i) => {
      if (fact(i).gone)
        return null;
      return fact(i).refused ? { text: "nowhere", bad: true } : { text: fact(i).device };
    }, "nothing to run", view.units);
  }
}

function fillOf(palette, colour) {
  return colour.length > 1 ? palette[colour[0]][colour[1]] : palette[colour[0]];
}
