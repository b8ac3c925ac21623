// The drawing of the graph on a canvas: what is in sight is painted anew for
// every frame, ranks that are not are skipped, and far away there is no text.

const FAR = 0.3, MOST_SCALE = 3;

class GraphView {
  /** `events`: {select(nodes), help()}; selections come back by show(). */
  constructor(canvas, events) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.events = events;
    this.scale = 1;
    this.left = this.top = 0; // of the window, in the drawing's units
    this.selected = new Set();
    this.hits = new Set();
    this.pending = false;
    this.labels = new Map();
    listenToPointer(this);
    listenToKeys(this);
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  setModel(model, layout) {
    this.model = model;
    this.layout = layout;
    this.linksOfRank = layout.layers.map(() => []);
    this.across = [];
    for (const link of layout.links)
      (link.via ? this.across : this.linksOfRank[layout.ranks[link.a]]).push(link);
    this.straight = layout.routes.filter((r) => r.length === 2 && layout.ranks[r[1]] - layout.ranks[r[0]] !== 1);
    this.fitted = false;
    this.resize();
  }

  setPaint(view, paints, palette) {
    this.view = view;
    this.paints = paints;
    this.palette = palette;
    this.segmentOf = view.facts.map((f) => f.segment);
    this.draw();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    if (this.layout && !this.fitted && this.width > 0)
      this.fit();
    this.draw();
  }

  draw() {
    if (this.pending || !this.paints || !this.layout)
      return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.drawNow();
    });
  }

  fit() {
    this.fitted = true;
    this.frame({ left: 0, top: 0, right: this.layout.width, bottom: this.layout.height }, 1.2);
  }

  /** Moves the window so that the box is in its middle, no nearer than `most`. */
  frame(box, most) {
    const margin = 24;
    const width = box.right - box.left, height = box.bottom - box.top;
    this.scale = Math.min(most, (this.width - 2 * margin) / Math.max(width, 1), (this.height - 2 * margin) / Math.max(height, 1));
    this.left = (box.left + box.right) / 2 - this.width / this.scale / 2;
    this.top = (box.top + box.bottom) / 2 - this.height / this.scale / 2;
    this.draw();
  }

  zoom(factor, atX = this.width / 2, atY = this.height / 2) {
    const least = 0.5 * Math.min(this.width / this.layout.width, this.height / this.layout.height, 1);
    const scale = Math.min(MOST_SCALE, Math.max(least, this.scale * factor));
    this.left += atX / this.scale - atX / scale;
    this.top += atY / this.scale - atY / scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.left += dx / this.scale;
    this.top += dy / this.scale;
    this.draw();
  }

  boxOf(nodes) {
    const { x, y } = this.layout;
    const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    for (const i of nodes) {
      box.left = Math.min(box.left, x[i] - NODE_WIDTH / 2);
      box.right = Math.max(box.right, x[i] + NODE_WIDTH / 2);
      box.top = Math.min(box.top, y[i] - NODE_HEIGHT / 2);
      box.bottom = Math.max(box.bottom, y[i] + NODE_HEIGHT / 2);
    }
    return box;
  }

  /** Selects the nodes; moves to them if they are not in sight, or too small to read. */
  show(nodes, move) {
    this.selected = new Set(nodes);
    if (move && nodes.length) {
      const box = this.boxOf(nodes), margin = 60;
      this.frame({ left: box.left - margin, top: box.top - margin, right: box.right + margin, bottom: box.bottom + margin },
        Math.max(this.scale, 0.9));
    }
    this.draw();
  }

  setHits(nodes) {
    this.hits = new Set(nodes);
    this.draw();
  }

  nodeAt(px, py) {
    const { layout } = this, wx = this.left + px / this.scale, wy = this.top + py / this.scale;
    const slack = Math.max(0, 5 / this.scale - NODE_HEIGHT / 2); // far away, near enough is good enough
    const column = layout.columns.find((c) => wx >= c.left - slack && wx <= c.right + slack);
    if (!column)
      return -1;
    for (let r = this.rankAt(column, wy) - 1; r <= this.rankAt(column, wy) + 1; ++r)
      for (const v of layout.layers[r] && r >= column.from && r < column.to ? layout.layers[r] : [])
        if (v < this.model.nodes.length && Math.abs(layout.x[v] - wx) <= NODE_WIDTH / 2 + slack &&
            Math.abs(layout.y[v] - wy) <= NODE_HEIGHT / 2 + slack)
          return v;
    return -1;
  }

  rankAt(column, wy) {
    const first = this.layout.layers[column.from][0];
    return column.from + Math.round((wy - this.layout.y[first]) / (NODE_HEIGHT + GAP_Y));
  }

  /** The ranks in sight, one range per column in sight. */
  rangesInSight() {
    const right = this.left + this.width / this.scale, bottom = this.top + this.height / this.scale;
    return this.layout.columns.filter((c) => c.right >= this.left && c.left <= right).map((c) => ({
      from: Math.max(c.from, this.rankAt(c, this.top) - 1), to: Math.min(c.to, this.rankAt(c, bottom) + 2),
    }));
  }

  drawNow() {
    const { context, palette } = this, ratio = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const s = this.scale * ratio;
    context.setTransform(s, 0, 0, s, -this.left * s, -this.top * s);
    const ranges = this.rangesInSight(), far = this.scale < FAR;
    this.drawHulls(ranges);
    this.drawLinks(ranges, far);
    this.drawWays();
    this.drawCopies(far);
    this.drawNodes(ranges, far);
    if (!far)
      this.drawBadges();
    this.drawSegmentNames();
  }

  eachNode(ranges, visit) {
    for (const range of ranges)
      for (let r = range.from; r < range.to; ++r)
        for (const v of this.layout.layers[r])
          if (v < this.model.nodes.length)
            visit(v);
  }

  /** What lies behind the nodes of a segment; neighbours' pieces touch. */
  drawHulls(ranges) {
    if (!this.view.segments.length)
      return;
    const { context, layout } = this, { x, y } = layout, h = NODE_HEIGHT + GAP_Y, w = NODE_WIDTH + GAP_X;
    this.eachNode(ranges, (v) => {
      const segment = this.segmentOf[v];
      if (segment < 0)
        return;
      context.fillStyle = this.palette.hull[segment % this.palette.hull.length];
      context.fillRect(x[v] - w / 2, y[v] - h / 2, w, h);
    });
  }

  drawLinks(ranges, far) {
    const { context, layout } = this, { x, y } = layout;
    context.strokeStyle = this.scale < 0.12 ? this.palette.faint : this.palette.line;
    context.lineWidth = far ? 0.7 / this.scale : 1.2;
    context.beginPath();
    for (const range of ranges)
      for (let r = Math.max(range.from - 1, 0); r < range.to; ++r)
        for (const link of this.linksOfRank[r])
          this.trace(link.a, link.b, far);
    for (const link of this.across)
      this.traceAcross(link);
    context.stroke();
    context.strokeStyle = this.palette.faint;
    context.beginPath();
    for (const [a, b] of this.straight) {
      context.moveTo(x[a], y[a]);
      context.lineTo(x[b], y[b]);
    }
    context.stroke();
  }

  /** Where a link leaves or enters a vertex: nodes have a height, bends have none. */
  foot(v) {
    return this.layout.y[v] + (v < this.model.nodes.length ? NODE_HEIGHT / 2 : 0);
  }

  head(v) {
    return this.layout.y[v] - (v < this.model.nodes.length ? NODE_HEIGHT / 2 : 0);
  }

  trace(a, b, plain) {
    const { context } = this, { x } = this.layout;
    const y0 = this.foot(a), y1 = this.head(b);
    context.moveTo(x[a], y0);
    if (plain || x[a] === x[b])
      context.lineTo(x[b], y1);
    else
      context.bezierCurveTo(x[a], (y0 + y1) / 2, x[b], (y0 + y1) / 2, x[b], y1);
  }

  traceAcross(link) {
    const { context } = this, { via } = link;
    context.moveTo(this.layout.x[link.a], this.foot(link.a));
    for (let k = 0; k < via.length; k += 2)
      context.lineTo(via[k], via[k + 1]);
    context.lineTo(this.layout.x[link.b], this.head(link.b));
  }

  /** One edge from end to end. */
  traceEdge(e) {
    const route = this.layout.routes[e], { x, y } = this.layout;
    for (let k = 0; k + 1 < route.length; ++k) {
      const across = this.across.find((l) => l.a === route[k] && l.b === route[k + 1]);
      if (across) {
        this.traceAcross(across);
      } else if (this.layout.ranks[route[k + 1]] - this.layout.ranks[route[k]] === 1) {
        this.trace(route[k], route[k + 1], false);
      } else {
        this.context.moveTo(x[route[k]], y[route[k]]);
        this.context.lineTo(x[route[k + 1]], y[route[k + 1]]);
      }
    }
  }

  strokeEdges(edges, colour, width, dash) {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = Math.max(width, width / 2 / this.scale);
    context.setLineDash(dash);
    context.beginPath();
    edges.forEach((e) => this.traceEdge(e));
    context.stroke();
    context.setLineDash([]);
  }

  drawCopies(far) {
    for (const copy of this.view.copies)
      this.strokeEdges(copy.edges, this.palette.copy, 2.4, far ? [] : [7, 4]);
  }

  /** The values that the selected nodes read and write. */
  drawWays() {
    if (this.selected.size === 0 || this.selected.size > 40)
      return;
    for (const i of this.selected)
      this.strokeEdges([...this.model.nodes[i].ins, ...this.model.nodes[i].outs], this.palette.select, 2, []);
  }

  /** By class, so that the canvas changes its colour seldom. */
  drawNodes(ranges, far) {
    const { context } = this, { classOf, entries } = this.paints;
    const byClass = entries.map(() => []), ends = [];
    this.eachNode(ranges, (v) => (this.model.nodes[v].kind === "node" ? byClass[classOf[v]] : ends).push(v));
    byClass.forEach((nodes, c) => this.drawBoxes(nodes, fillOf(this.palette, entries[c].colour), far));
    this.drawBoxes(ends, this.palette.paper, far);
    if (!far) {
      context.fillStyle = this.palette.ink;
      context.textAlign = "center";
      this.eachNode(ranges, (v) => this.drawText(v));
    }
    this.drawMarks(ranges);
  }

  drawBoxes(nodes, fill, far) {
    if (nodes.length === 0)
      return;
    const { context } = this, { x, y } = this.layout, w = NODE_WIDTH, h = NODE_HEIGHT;
    context.fillStyle = fill;
    context.beginPath();
    for (const v of nodes) {
      const round = this.model.nodes[v].kind === "node" ? 5 : h / 2;
      if (far)
        context.rect(x[v] - w / 2, y[v] - h / 2, w, h);
      else
        context.roundRect(x[v] - w / 2, y[v] - h / 2, w, h, round);
    }
    context.fill();
    if (far && fill !== this.palette.paper)
      return;
    context.strokeStyle = this.palette.line;
    context.lineWidth = far ? 1 / this.scale : 1;
    context.stroke();
  }

  drawText(v) {
    const { context } = this, { x, y } = this.layout, node = this.model.nodes[v];
    const [op, name] = this.labelOf(v, node);
    context.font = "600 13px system-ui, sans-serif";
    context.fillText(op, x[v], y[v] - 3);
    if (this.scale < 0.5)
      return;
    context.font = "11px system-ui, sans-serif";
    context.fillText(name, x[v], y[v] + 12);
  }

  /** Shortened to the box; of a name, the end says most. */
  labelOf(v, node) {
    let label = this.labels.get(v);
    if (!label) {
      const { context } = this, room = NODE_WIDTH - 14;
      const shorten = (text, font, keepEnd) => {
        context.font = font;
        const points = Array.from(text.length > 400 ? (keepEnd ? text.slice(-400) : text.slice(0, 400)) : text);
        const cut = (n) => (keepEnd ? "…" + points.slice(points.length - n).join("") : points.slice(0, n).join("") + "…");
        if (context.measureText(points.join("")).width <= room && points.join("") === text)
          return text;
        let fits = 0, over = points.length + 1;
        while (fits + 1 < over) {
          const middle = (fits + over) >> 1;
          if (context.measureText(cut(middle)).width <= room)
            fits = middle;
          else
            over = middle;
        }
        return cut(fits);
      };
      label = [shorten(node.op, "600 13px system-ui, sans-serif", false), shorten(node.name, "11px system-ui, sans-serif", true)];
      this.labels.set(v, label);
    }
    return label;
  }

  /** Frames around hits of the search and the selection; a bar where no device runs the node. */
  drawMarks(ranges) {
    const { context } = this, { x, y } = this.layout, w = NODE_WIDTH, h = NODE_HEIGHT;
    const frame = (v, colour, width) => {
      const out = width / 2 + 1;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x[v] - w / 2 - out, y[v] - h / 2 - out, w + 2 * out, h + 2 * out);
    };
    const width = Math.max(3, 2.5 / this.scale);
    this.eachNode(ranges, (v) => {
      if (this.view.facts[v].refused)
        frame(v, this.palette.copy, Math.max(2, 1.5 / this.scale));
      if (this.hits.has(v))
        frame(v, this.palette.ink, width * 0.7);
      if (this.selected.has(v))
        frame(v, this.palette.select, width);
    });
  }

  /** Bytes of each copy, beside its first edge. */
  drawBadges() {
    const { context } = this, { x, y } = this.layout;
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "center";
    for (const copy of this.view.copies) {
      if (copy.edges.length === 0)
        continue;
      const route = this.layout.routes[copy.edges[0]], a = route[0];
      const text = `${copy.from} → ${copy.to}, ${formatBytes(copy.bytes)}`;
      const width = context.measureText(text).width + 12, py = this.foot(a) + GAP_Y / 2;
      const near = Math.abs(x[route[1]] - x[a]) < 600;
      const px = (near ? (x[a] + x[route[1]]) / 2 : x[a]) + width / 2 + 8;
      context.fillStyle = this.palette.paper;
      context.strokeStyle = this.palette.copy;
      context.lineWidth = 1.2;
      context.beginPath();
      context.roundRect(px - width / 2, py - 9, width, 18, 9);
      context.fill();
      context.stroke();
      context.fillStyle = this.palette.ink;
      context.fillText(text, px, py + 4);
    }
  }

  /** Beside the first node of each segment, at a size that can be read from any distance. */
  drawSegmentNames() {
    const { context } = this, { x, y } = this.layout, size = Math.max(12, 12 / this.scale);
    if (size > 160)
      return;
    context.font = `600 ${size}px system-ui, sans-serif`;
    context.textAlign = "left";
    for (const segment of this.view.segments) {
      const first = segment.nodes.length ? segment.nodes.reduce((a, b) => (this.layout.ranks[b] < this.layout.ranks[a] ? b : a)) : -1;
      if (first < 0)
        continue;
      const text = `${segment.label} on ${segment.unit}`, width = context.measureText(text).width + size;
      const px = x[first] + NODE_WIDTH / 2 + size * 0.6, py = y[first] + size * 0.35;
      context.fillStyle = this.palette.ink;
      context.beginPath();
      context.roundRect(px, py - size, width, size * 1.4, size * 0.3);
      context.fill();
      context.fillStyle = this.palette.paper;
      context.fillText(text, px + size / 2, py + size * 0.08);
    }
  }
}

/** Drag to pan, wheel to zoom where the pointer is, two fingers for both, click to select. */
function listenToPointer(graph) {
  const { canvas } = graph, pointers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId), now = at(event);
    if (!before) {
      const v = graph.nodeAt(now.x, now.y);
      canvas.style.cursor = v < 0 ? "grab" : "pointer";
      canvas.title = v < 0 ? "" : `${graph.model.nodes[v].op} ${graph.model.nodes[v].name}`;
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    if (other) {
      const [, o] = other, far = (p) => Math.hypot(p.x - o.x, p.y - o.y);
      graph.zoom(far(now) / Math.max(far(before), 1), (now.x + o.x) / 2, (now.y + o.y) / 2);
      graph.pan((before.x - now.x) / 2, (before.y - now.y) / 2);
    } else {
      graph.pan(before.x - now.x, before.y - now.y);
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    pointers.set(event.pointerId, now);
  });
  const release = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved < 5) {
      const now = at(event), v = graph.nodeAt(now.x, now.y);
      graph.events.select(v < 0 ? [] : [v]);
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const now = at(event), step = event.deltaMode ? 30 : 1;
    if (event.shiftKey)
      graph.pan(event.deltaY * step, event.deltaX * step);
    else
      graph.zoom(Math.exp(-event.deltaY * step * 0.0015), now.x, now.y);
  }, { passive: false });
}

/** The node to go to from a node: along an edge, or beside it in its rank. */
function neighbourOf(graph, from, key) {
  const { model, layout } = graph, node = model.nodes[from];
  if (key === "ArrowUp")
    return node.ins.length ? model.edges[node.ins[0]].from : from;
  if (key === "ArrowDown")
    return node.outs.length ? model.edges[node.outs[0]].to : from;
  const row = layout.layers[layout.ranks[from]].filter((v) => v < model.nodes.length);
  const next = row.indexOf(from) + (key === "ArrowLeft" ? -1 : 1);
  return next < 0 || next >= row.length ? from : row[next];
}

function listenToKeys(graph) {
  graph.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    const step = 80, arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.shiftKey && arrows[event.key]) {
      const from = graph.selected.size ? [...graph.selected][0] : 0;
      graph.events.select([graph.selected.size ? neighbourOf(graph, from, event.key) : 0]);
    } else if (arrows[event.key]) {
      graph.pan(arrows[event.key][0] * step, arrows[event.key][1] * step);
    } else if (event.key === "+" || event.key === "=") {
      graph.zoom(1.25);
    } else if (event.key === "-") {
      graph.zoom(0.8);
    } else if (event.key === "0") {
      graph.fit();
    } else {
      return;
    }
    event.preventDefault();
  });
}
