// From a report to what the page shows. Two reports are understood,
// "tessera.audit" (verdicts on several targets) and "tessera-plan-report" (one
// placement); both come out in the same form, so that nothing behind this file
// asks which one it was.
//
//   model  {title, kind, nodes, edges, values, views}
//   node   {name, op, kind, inputs, outputs, yields, bodyOf, ins, outs}
//          kind: "node", or "input"/"output" for the model's own ends
//          inputs, outputs, yields: indices of values; ins, outs: of edges
//   edge   {from, to, value, kind}, kind: "data", or "yield" out of a body
//   view   {name, units, facts, extras, segments, copies, schedule, end, edgeCopy, summary, notes}
//          one per target; facts: one per node, extras: rows of no node
//   fact   {after, gone, device, precision, ns, shade, segment, refused, by}
//          ns: adds up over the nodes; shade: what its colour says
//          by: unit -> {yes, chosen, precisions, reasons, ns}
//   schedule {label, unit, start, end, waitsFor, waits, critical, nodes}, end: of all
//   segment {label, unit, ns, nodes};  copy {label, from, to, bytes, ns, nodes, edges}

/** What no device has to do: it was folded, or changed nothing. */
function isGone(after) {
  return /^(folded|removed)/.test(after || "");
}

function readGraph(graph) {
  const nodes = graph.nodes.map((n) => ({
    name: n.node, op: n.operator, kind: "node", inputs: n.inputs, outputs: n.outputs,
    yields: n.yields || [], bodyOf: n.body_of === undefined ? -1 : n.body_of, ins: [], outs: [],
  }));
  const terminal = (value, kind) => {
    const known = graph.values[value] || { name: "", type: "" };
    nodes.push({
      name: known.name, op: kind, kind, inputs: kind === "output" ? [value] : [],
      outputs: kind === "input" ? [value] : [], yields: [], bodyOf: -1, ins: [], outs: [],
    });
  };
  graph.inputs.forEach((v) => terminal(v, "input"));
  graph.outputs.forEach((v) => terminal(v, "output"));
  return { nodes, values: graph.values, edges: connect(nodes, graph.values.length) };
}

/** One edge for each value that a node reads, however often it reads it. */
function connect(nodes, valueCount) {
  const writer = new Int32Array(valueCount).fill(-1);
  nodes.forEach((node, i) => node.outputs.forEach((v) => { writer[v] = i; }));
  const edges = [];
  nodes.forEach((node, to) => {
    const seen = new Set();
    const add = (value, kind) => {
      if (value < 0 || writer[value] < 0 || seen.has(value))
        return;
      seen.add(value);
      const from = writer[value];
      nodes[from].outs.push(edges.length);
      node.ins.push(edges.length);
      edges.push({ from, to, value, kind });
    };
    node.inputs.forEach((v) => add(v, "data"));
    node.yields.forEach((v) => add(v, "yield"));
  });
  return edges;
}

function emptyFact() {
  return { after: "", gone: false, device: "", precision: "", ns: 0, shade: 0, segment: -1, refused: false, by: {} };
}

/** A row of the audit. */
function auditFact(row, units) {
  const fact = emptyFact();
  fact.ns = fact.shade = row.cpu_ns;
  for (const unit of units) {
    const v = row.units[unit];
    fact.after = fact.after || v.after || "";
    fact.by[unit] = {
      yes: v.verdict !== "no", chosen: false, ns: null, reasons: v.reasons,
      precisions: v.precisions ? v.precisions.split(", ") : [],
    };
  }
  fact.gone = isGone(fact.after);
  const able = units.filter((u) => fact.by[u].yes);
  fact.refused = able.length === 0;
  fact.device = fact.gone ? "" : able.join(" or ");
  fact.precision = null; // of which unit is for the reader to choose
  return fact;
}

function auditView(target, nodes, values) {
  const units = Object.keys(target.placed);
  const facts = nodes.map((node, i) => (node.kind === "node" ? auditFact(target.nodes[i], units) : emptyFact()));
  const count = nodes.filter((n) => n.kind === "node").length;
  const extras = target.nodes.slice(count).map((row) => ({ name: row.node, op: row.operator, fact: auditFact(row, units) }));
  const notes = [];
  if (target.sizes_assumed)
    notes.push("Times take every open dimension at its least; --dim fixes it.");
  return {
    name: target.target, units, facts, extras, segments: [], copies: [], schedule: [], end: 0, edgeCopy: null, notes,
    summary: units.map((u) => ({ label: u, text: `${target.placed[u]} of ${target.operators} operators` }))
      .concat(target.refused ? [{ label: "nowhere", text: `${target.refused} operators`, bad: true }] : []),
  };
}

/** Per group of the placement, its nodes of the graph; the ends of the model are groups by name. */
function nodesOfGroups(report, nodes) {
  const members = report.groups.map(() => []);
  report.nodes.forEach((row, i) => row.groups.forEach((g) => members[g].push(i)));
  const last = members.length - 1;
  const inputs = new Map();
  nodes.forEach((node, i) => {
    if (node.kind === "input")
      inputs.set(node.name, i);
    else if (node.kind === "output" && last >= 0)
      members[last].push(i);
  });
  report.groups.forEach((group, g) => {
    if (g !== last && members[g].length === 0 && inputs.has(group.name))
      members[g].push(inputs.get(group.name));
  });
  return members;
}

function planFact(row, report, leaders, i, precisions) {
  const fact = emptyFact();
  const groups = row.groups.map((g) => report.groups[g]);
  fact.after = row.after || "";
  fact.gone = groups.length === 0;
  fact.device = [...new Set(groups.map((g) => g.device))].join(" and ");
  fact.precision = [...new Set(groups.map((g) => precisions.get(g.device)))].join(" and ");
  row.groups.forEach((g) => {
    const group = report.groups[g];
    fact.shade += group.time_ns;
    fact.ns += leaders[g] === i ? group.time_ns : 0;
    if (group.segment !== undefined)
      fact.segment = group.segment;
  });
  for (const { name } of report.devices) {
    const reasons = groups.flatMap((g) => g.refusals[name] || []);
    const able = groups.length > 0 && groups.every((g) => name in g.times_ns);
    fact.by[name] = {
      yes: able || fact.gone, chosen: groups.some((g) => g.device === name), precisions: [],
      reasons: [...new Set(reasons)], ns: able ? groups.reduce((sum, g) => sum + g.times_ns[name], 0) : null,
    };
  }
  return fact;
}

/** The edges that a copy's tensor goes by: those out of its writer that lead, through what is gone, to a reader. */
function edgesOfCopy(writers, readers, model, facts) {
  const wanted = new Set(readers);
  const leads = (edge, depth) => {
    const to = model.edges[edge].to;
    if (wanted.has(to))
      return true;
    const passes = facts[to].gone && model.nodes[to].kind === "node";
    return passes && depth < 32 && model.nodes[to].outs.some((e) => leads(e, depth + 1));
  };
  return writers.flatMap((w) => model.nodes[w].outs).filter((e) => leads(e, 0));
}

function planCopies(report, members, model, facts, edgeCopy) {
  return report.copies.map((copy, index) => {
    const readers = copy.readers.flatMap((g) => members[g]);
    const edges = edgesOfCopy(members[copy.writer], readers, model, facts);
    edges.forEach((e) => { edgeCopy[e] = index; });
    const ends = edges.length ? edges.flatMap((e) => [model.edges[e].from, model.edges[e].to]) : members[copy.writer];
    return {
      label: copy.of, from: copy.from, to: copy.to, bytes: copy.bytes, ns: copy.time_ns, edges,
      nodes: [...new Set(ends)],
    };
  });
}

function planSchedule(report, members) {
  return report.schedule.map((s) => ({
    label: s.segment === undefined ? counted(s.groups.length, "group") : `segment ${s.segment}`, unit: s.device,
    start: s.start_ns, end: s.end_ns, waitsFor: s.waits_ns ? `segment ${s.waits_for}` : "", waits: s.waits_ns || 0, critical: s.critical,
    nodes: [...new Set(s.groups.flatMap((g) => members[g]))],
  }));
}

function planSummary(report) {
  const rows = report.devices.map((d) => ({
    label: d.name,
    text: `${formatNs(d.time_ns)}, ${counted(d.groups, "group")}` +
      (d.segments ? ` in ${counted(d.segments, "segment")}, launches ${formatNs(d.launch_ns)}` : ""),
  }));
  rows.push({ label: "copies", text: `${formatNs(report.copy_ns)}, ${formatBytes(report.copy_bytes)} between memories` });
  rows.push({
    label: "whole run",
    text: `${formatNs(report.estimate_ns)}, ` + (report.lower_bound_ns >= report.estimate_ns
      ? "optimal under the cost model" : `optimum at least ${formatNs(report.lower_bound_ns)}`),
  });
  if (report.schedule.length)
    rows.push({ label: "devices at once", text: formatNs(report.schedule_ns) });
  const against = [["CPU only", report.cpu_only_ns], ["most accelerated", report.most_accelerated_ns],
    ["cheapest in order", report.cheapest_in_order_ns]];
  for (const [label, ns] of against)
    rows.push({
      label: `against ${label}`,
      text: ns === null ? "impossible" : `${formatNs(ns)}, ${(ns / Math.max(report.estimate_ns, 1)).toFixed(3)} × the plan`,
    });
  return rows;
}

function planView(report, model) {
  const members = nodesOfGroups(report, model.nodes);
  const leaders = members.map((m) => (m.length ? m[0] : -1));
  const precisions = new Map(report.devices.map((d) => [d.name, d.precision || "as in the model"]));
  const facts = model.nodes.map((node, i) =>
    (node.kind === "node" ? planFact(report.nodes[i], report, leaders, i, precisions) : emptyFact()));
  const segments = report.segments.map((s, index) => ({
    label: `segment ${index}`, unit: s.device, ns: s.time_ns, nodes: [],
  }));
  // The report numbers segments by first appearance, the solution in its own way.
  const numbers = new Map();
  for (const group of report.groups)
    if (group.segment !== undefined && !numbers.has(group.segment))
      numbers.set(group.segment, numbers.size);
  facts.forEach((fact, i) => {
    if (fact.segment < 0)
      return;
    fact.segment = numbers.get(fact.segment);
    segments[fact.segment].nodes.push(i);
  });
  const edgeCopy = new Int32Array(model.edges.length).fill(-1);
  const notes = [];
  if (report.assumed_sizes)
    notes.push("Open dimensions were priced at their least value; --dim fixes them.");
  if (report.cpu_wins)
    notes.push("The CPU alone is fastest: nothing is placed elsewhere.");
  return {
    name: report.target, units: report.devices.map((d) => d.name), facts, extras: [], segments,
    copies: planCopies(report, members, model, facts, edgeCopy), schedule: planSchedule(report, members), end: Math.max(report.schedule_ns, 1), edgeCopy, notes, summary: planSummary(report),
  };
}

/** The model of the page; an Error says what is not understood. */
function readReport(report) {
  const schema = report.schema || report.format || "";
  const isPlan = schema.startsWith("tessera-plan-report/");
  if (!isPlan && !schema.startsWith("tessera.audit/"))
    throw new Error(`a report of the kind "${schema}" is not known`);
  const model = readGraph(report.graph);
  model.title = report.model.replace(/^.*[/\\]/, "");
  model.names = new Set(model.nodes.map((n) => n.name));
  model.kind = isPlan ? "plan" : "audit";
  model.views = isPlan ? [planView(report, model)] : report.targets.map((t) => auditView(t, model.nodes, model.values));
  return model;
}

/** Reasons that differ only in the node's name before a colon, or in the dimension's, are one. */
function reasonTitle(model, text) {
  let reason = text;
  for (let colon = text.indexOf(": "); colon >= 0; colon = text.indexOf(": ", colon + 1))
    if (model.names.has(text.slice(0, colon)))
      reason = text.slice(colon + 2);
  return reason.endsWith(" is not static") ? "a dimension is not static" : reason;
}

function counted(count, thing) {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

function formatNs(ns) {
  if (ns === 0)
    return "0";
  if (ns >= 1e9)
    return `${(ns / 1e9).toFixed(2)} s`;
  return ns >= 1e6 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(ns >= 1e4 ? 0 : 1)} µs`;
}

function formatBytes(bytes) {
  if (bytes >= 1048576)
    return `${(bytes / 1048576).toFixed(1)} MiB`;
  return bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`;
}
