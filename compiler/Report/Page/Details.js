// The tables' contents, and what is told about the selected node. Texts of the
// model become text of the document, never markup.

const share = (ns, all) => `${(100 * ns / Math.max(all, 1)).toFixed(1)} %`;
const sum = (list, value) => list.reduce((total, x) => total + value(x), 0);

/** "yes (f16)", "no", "chosen". */
function verdictText(v) {
  if (!v)
    return "";
  if (v.chosen)
    return "chosen";
  return v.yes ? (v.precisions.length ? `yes (${v.precisions.join(", ")})` : "yes") : "no";
}

/** Of a plan, why a node is not on an accelerator; of an audit, all that keeps it from each device. */
function reasonsText(fact, units) {
  if (fact.gone || units.slice(1).some((u) => fact.by[u].chosen))
    return "";
  const placed = fact.by[units[0]].chosen;
  const of = (v) => (v.reasons.length ? v.reasons.join("; ") : placed && !v.chosen ? "possible, the plan is cheaper without" : "");
  const told = units.filter((u) => of(fact.by[u]));
  return told.map((u) => (units.length > 1 ? `${u}: ` : "") + of(fact.by[u])).join(" · ");
}

/** Every node of the model that is no end of it, then what no node of it names. */
function operatorRows(model, view) {
  const rows = model.nodes.map((node, i) => ({ index: i, nodes: [i], name: node.name, op: node.op, fact: view.facts[i], kind: node.kind }));
  return rows.filter((r) => r.kind === "node")
    .concat(view.extras.map((e, k) => ({ index: rows.length + k, nodes: [], name: e.name, op: e.op, fact: e.fact })));
}

function operatorsTable(model, view, choose) {
  const columns = [
    { title: "#", width: "44px", number: true, text: (r) => String(r.index), sort: (r) => r.index },
    { title: "Operator", width: "minmax(110px, 1fr)", text: (r) => r.op },
    { title: "Node", width: "minmax(150px, 2fr)", tail: true, text: (r) => r.name },
    { title: "Time", width: "76px", number: true, text: (r) => (r.fact.ns ? formatNs(r.fact.ns) : "–"), sort: (r) => r.fact.ns },
  ];
  if (model.kind === "plan")
    columns.push(
      { title: "Device", width: "minmax(76px, 0.7fr)", text: (r) => r.fact.device || "nothing to run" },
      { title: "Segment", width: "80px", number: true, text: (r) => (r.fact.segment < 0 ? "–" : String(r.fact.segment)), sort: (r) => r.fact.segment });
  else
    for (const unit of view.units)
      columns.push({ title: unit, width: "minmax(84px, 0.7fr)", text: (r) => (r.fact.gone ? "nothing to run" : verdictText(r.fact.by[unit])) });
  columns.push({ title: "Why not", width: "minmax(170px, 3fr)", text: (r) => reasonsText(r.fact, view.units) },
    { title: "What became of it", width: "minmax(150px, 2fr)", text: (r) => r.fact.after });
  return new Table(columns, operatorRows(model, view), "Operators", choose);
}

function kindsTable(model, view, choose) {
  const kinds = new Map();
  for (const row of operatorRows(model, view)) {
    const kind = kinds.get(row.op) || { op: row.op, rows: [], nodes: [] };
    kind.rows.push(row);
    kind.nodes.push(...row.nodes);
    kinds.set(row.op, kind);
  }
  const rows = [...kinds.values()].sort((a, b) => sum(b.rows, (r) => r.fact.ns) - sum(a.rows, (r) => r.fact.ns));
  const all = sum(rows, (k) => sum(k.rows, (r) => r.fact.ns));
  const time = (k) => sum(k.rows, (r) => r.fact.ns);
  const onUnit = (k, unit) => k.rows.filter((r) => r.fact.by[unit] && (model.kind === "plan" ? r.fact.by[unit].chosen : r.fact.by[unit].yes)).length;
  const columns = [
    { title: "Operator", width: "minmax(120px, 2fr)", text: (k) => k.op },
    { title: "Count", width: "60px", number: true, text: (k) => String(k.rows.length), sort: (k) => k.rows.length },
    { title: "Time", width: "80px", number: true, text: (k) => formatNs(time(k)), sort: time },
    { title: "Share", width: "66px", number: true, text: (k) => share(time(k), all), sort: time },
    ...view.units.map((unit) => ({
      title: unit, width: "minmax(70px, 1fr)", number: true, text: (k) => `${onUnit(k, unit)}/${k.rows.length}`, sort: (k) => onUnit(k, unit) / k.rows.length,
    })),
  ];
  return new Table(columns, rows, "Operators by kind", choose);
}

/** Costliest first; a node with several reasons is in the row of each. */
function reasonsTable(model, view, choose) {
  const groups = new Map();
  for (const row of operatorRows(model, view))
    for (const unit of view.units)
      for (const title of new Set((row.fact.by[unit] ? row.fact.by[unit].reasons : []).map((r) => reasonTitle(model, r)))) {
        const key = `${unit}\n${title}`;
        const group = groups.get(key) || { unit, title, nodes: [], count: 0, ns: 0 };
        group.nodes.push(...row.nodes);
        ++group.count;
        group.ns += row.fact.ns;
        groups.set(key, group);
      }
  const rows = [...groups.values()].sort((a, b) => b.ns - a.ns || b.count - a.count);
  const columns = [
    { title: "Device", width: "84px", text: (g) => g.unit },
    { title: "What keeps nodes from it", width: "minmax(220px, 4fr)", text: (g) => g.title },
    { title: "Nodes", width: "60px", number: true, text: (g) => String(g.count), sort: (g) => g.count },
    { title: "Their time", width: "96px", number: true, text: (g) => formatNs(g.ns), sort: (g) => g.ns },
  ];
  return new Table(columns, rows, "Reasons", choose);
}

function segmentsTable(model, view, choose) {
  const end = (s, i) => (s.nodes.length ? model.nodes[s.nodes[i < 0 ? s.nodes.length - 1 : 0]].name : "");
  const columns = [
    { title: "Segment", width: "90px", text: (s) => s.label },
    { title: "Device", width: "84px", text: (s) => s.unit },
    { title: "Nodes", width: "60px", number: true, text: (s) => String(s.nodes.length), sort: (s) => s.nodes.length },
    { title: "Time", width: "80px", number: true, text: (s) => formatNs(s.ns), sort: (s) => s.ns },
    { title: "From", width: "minmax(120px, 1fr)", tail: true, text: (s) => end(s, 0) },
    { title: "To", width: "minmax(120px, 1fr)", tail: true, text: (s) => end(s, -1) },
  ];
  return new Table(columns, view.segments, "Segments", choose);
}

/** Who works when, as bars on one scale; who is on the critical path, and whom the CPU waits for. */
function scheduleTable(model, view, choose) {
  const columns = [
    { title: "What", width: "minmax(96px, 1fr)", text: (s) => s.label },
    { title: "Device", width: "76px", text: (s) => s.unit },
    { title: "From", width: "72px", number: true, text: (s) => formatNs(s.start), sort: (s) => s.start },
    { title: "Time", width: "72px", number: true, text: (s) => formatNs(s.end - s.start), sort: (s) => s.end - s.start },
    { title: "Waits for", width: "minmax(104px, 1fr)", text: (s) => (s.waitsFor ? `${s.waitsFor}, ${formatNs(s.waits)}` : "") },
    { title: "Critical", width: "64px", text: (s) => (s.critical ? "yes" : "") },
    { title: "When", width: "minmax(140px, 2fr)", text: () => "", sort: (s) => s.start, number: true, bar: (s) => [s.start / view.end, s.end / view.end, s.critical] },
  ];
  return new Table(columns, view.schedule, "Schedule", choose);
}

function copiesTable(view, choose) {
  const columns = [
    { title: "Result of", width: "minmax(140px, 2fr)", tail: true, text: (c) => c.label },
    { title: "From", width: "minmax(76px, 1fr)", text: (c) => c.from },
    { title: "To", width: "minmax(76px, 1fr)", text: (c) => c.to },
    { title: "Size", width: "80px", number: true, text: (c) => formatBytes(c.bytes), sort: (c) => c.bytes },
    { title: "Time", width: "80px", number: true, text: (c) => formatNs(c.ns), sort: (c) => c.ns },
  ];
  return new Table(columns, view.copies, "Copies between memories", choose);
}

/** Kinds of operators against the units of all targets. */
function targetsTable(model, choose) {
  const kinds = new Map(), units = model.views.flatMap((view) => view.units.map((unit) => ({ view, unit })));
  model.nodes.forEach((node, i) => {
    if (node.kind !== "node")
      return;
    const kind = kinds.get(node.op) || { op: node.op, nodes: [] };
    kind.nodes.push(i);
    kinds.set(node.op, kind);
  });
  const able = (kind, { view, unit }) => kind.nodes.filter((i) => view.facts[i].by[unit].yes).length;
  const columns = [{ title: "Operator", width: "minmax(120px, 1fr)", text: (k) => k.op }].concat(units.map((u) => ({
    title: `${u.view.name}: ${u.unit}`, width: "minmax(110px, 1fr)", number: true,
    text: (k) => `${able(k, u)}/${k.nodes.length}`, sort: (k) => able(k, u) / k.nodes.length,
  })));
  return new Table(columns, [...kinds.values()].sort((a, b) => (a.op < b.op ? -1 : 1)), "Operators on all targets", choose);
}

/** A list of values, each with the nodes on its other side. */
function valueList(model, title, values, edges, otherEnd, choose) {
  const list = element("ul", { class: "values" });
  for (const v of values) {
    const known = model.values[v];
    if (!known)
      continue;
    const item = element("li");
    item.append(element("code", {}, known.name), element("span", { class: "quiet" }, ` ${known.type}${known.constant ? ", constant" : ""} `));
    for (const e of edges.filter((i) => model.edges[i].value === v).slice(0, 12)) {
      const to = model.edges[e][otherEnd];
      const button = element("button", { type: "button", class: "go" }, `${otherEnd === "from" ? "←" : "→"} ${model.nodes[to].op}`);
      button.title = model.nodes[to].name;
      button.addEventListener("click", () => choose([to]));
      item.append(button);
    }
    list.append(item);
  }
  const box = element("section");
  box.append(element("h3", {}, title), list);
  return list.children.length ? [box] : [];
}

function verdictList(view, fact) {
  const list = element("dl");
  for (const unit of view.units) {
    const v = fact.by[unit];
    if (!v)
      continue;
    list.append(element("dt", {}, unit));
    const answer = element("dd", {}, verdictText(v) + (v.ns === null ? "" : `, ${formatNs(v.ns)} for its group`));
    answer.className = v.chosen ? "chosen" : v.yes ? "yes" : "no";
    v.reasons.forEach((reason) => answer.append(element("div", { class: "reason" }, reason)));
    list.append(answer);
  }
  return list;
}

/** Fills the box with all that is known of the nodes. */
function showDetails(box, model, view, selected, choose) {
  if (selected.length !== 1) {
    const text = selected.length ? `${selected.length} nodes, ${formatNs(sum(selected, (i) => view.facts[i].ns))}` :
      "Nothing is selected: click a node, or a row of a table.";
    box.replaceChildren(element("p", { class: "quiet" }, text));
    return;
  }
  const [i] = selected, node = model.nodes[i], fact = view.facts[i];
  const head = element("h2", {}, node.kind === "node" ? node.op : `Model ${node.kind}`);
  head.append(element("code", {}, node.name));
  const parts = [head];
  const facts = [];
  if (fact.after)
    facts.push(fact.after);
  if (node.kind === "node")
    facts.push(fact.ns ? `${formatNs(fact.ns)}${model.kind === "plan" ? " with its group" : " on the CPU"}` : "no time of its own");
  if (fact.segment >= 0)
    facts.push(view.segments[fact.segment].label);
  if (node.bodyOf >= 0)
    facts.push(`in a body of ${model.nodes[node.bodyOf].op} ${model.nodes[node.bodyOf].name}`);
  parts.push(element("p", { class: "quiet" }, facts.join(" · ")));
  if (node.kind === "node" && !fact.gone)
    parts.push(verdictList(view, fact));
  parts.push(...valueList(model, "Reads", node.inputs, node.ins, "from", choose),
    ...valueList(model, "Bodies yield", node.yields, node.ins, "from", choose),
    ...valueList(model, "Writes", node.outputs, node.outs, "to", choose));
  box.replaceChildren(...parts);
}
