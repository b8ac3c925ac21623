// The page: reads the report, wires the parts together, keeps what is selected.

const byId = (id) => document.getElementById(id);

class Page {
  constructor(report) {
    this.model = readReport(report);
    this.view = this.model.views[0];
    this.mode = "device";
    this.selected = [];
    this.hits = [];
    this.hitAt = -1;
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.graph = new GraphView(byId("graph"), { select: (nodes) => this.select(nodes, true) });
    const canvas = byId("graph");
    const aspect = Math.max(0.4, canvas.clientWidth / Math.max(canvas.clientHeight, 1));
    this.layout = layoutGraph(this.model.nodes, this.model.edges, aspect);
    this.graph.setModel(this.model, this.layout);
    byId("title").textContent = this.model.title;
    byId("title").title = report.model;
    this.makeControls();
    this.showView(this.view);
    this.dark.addEventListener("change", () => this.repaint());
  }

  makeControls() {
    const { model } = this;
    model.views.forEach((view, i) => byId("target").append(element("option", { value: i }, view.name)));
    byId("target").disabled = model.views.length < 2;
    byId("target").addEventListener("change", (event) => this.showView(model.views[event.target.value]));
    for (const [mode, label] of Object.entries(MODES)) {
      const choice = element("label");
      const radio = element("input", { type: "radio", name: "mode", value: mode });
      radio.checked = mode === this.mode;
      radio.addEventListener("change", () => { this.mode = mode; this.repaint(); });
      choice.append(radio, element("span", {}, label));
      byId("modes").append(choice);
    }
    byId("unit").addEventListener("change", () => this.repaint());
    byId("nearer").addEventListener("click", () => this.graph.zoom(1.4));
    byId("farther").addEventListener("click", () => this.graph.zoom(1 / 1.4));
    byId("whole").addEventListener("click", () => this.graph.fit());
    byId("help").addEventListener("click", () => byId("keys").showModal());
    this.listenToSearch();
    listenToBorder();
    document.addEventListener("keydown", (event) => {
      const typing = event.target.matches("input, select, textarea");
      if (typing || event.ctrlKey || event.metaKey || event.altKey || (event.key !== "/" && event.key !== "?"))
        return;
      event.preventDefault();
      if (event.key === "/")
        byId("query").focus();
      else
        byId("keys").showModal();
    });
  }

  listenToSearch() {
    byId("query").addEventListener("input", () => this.search(byId("query").value));
    byId("query").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        this.nextHit(-1);
      } else if (event.key === "Escape") {
        byId("query").value = "";
        this.search("");
        byId("graph").focus();
      }
    });
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.nextHit(1);
    });
    byId("previous").addEventListener("click", () => this.nextHit(-1));
  }

  /** Nodes whose name, operator or values hold the text, whatever its case. */
  search(text) {
    const wanted = text.trim().toLowerCase(), { model } = this;
    if (!this.haystack)
      this.haystack = model.nodes.map((node) => [node.name, node.op, ...node.outputs.concat(node.inputs).map((v) =>
        (model.values[v] ? model.values[v].name : ""))].join("\n").toLowerCase());
    this.hits = wanted ? this.haystack.flatMap((hay, i) => (hay.includes(wanted) ? [i] : [])) : [];
    this.hitAt = -1;
    this.graph.setHits(this.hits);
    byId("hits").textContent = wanted ? `${this.hits.length} found` : "";
  }

  nextHit(step) {
    if (this.hits.length === 0)
      return;
    const from = this.hitAt < 0 && step < 0 ? 0 : this.hitAt;
    this.hitAt = (from + step + this.hits.length) % this.hits.length;
    byId("hits").textContent = `${this.hitAt + 1} of ${this.hits.length}`;
    this.select([this.hits[this.hitAt]], true);
  }

  showView(view) {
    this.view = view;
    const old = byId("unit").value, units = view.units;
    byId("unit").replaceChildren(...units.map((u) => element("option", { value: u }, u)));
    // What a reader asks is what keeps nodes from an accelerator.
    byId("unit").value = units.includes(old) ? old : units[units.length > 1 ? 1 : 0];
    byId("summary").replaceChildren(...view.summary.map((row) => {
      const line = element("div", { class: row.bad ? "bad" : "" });
      line.append(element("b", {}, row.label), element("span", {}, row.text));
      return line;
    }), ...view.notes.map((note) => element("p", { class: "quiet" }, note)));
    this.makeTabs();
    this.repaint();
    this.select(this.selected, false);
  }

  makeTabs() {
    const { model, view } = this, choose = (row) => this.select(row.nodes, true, row);
    const tables = { Operators: () => operatorsTable(model, view, choose), Kinds: () => kindsTable(model, view, choose),
      Reasons: () => reasonsTable(model, view, choose) };
    if (view.edgeCopy) {
      tables[`Segments (${view.segments.length})`] = () => segmentsTable(model, view, choose);
      tables[`Copies (${view.copies.length})`] = () => copiesTable(view, choose);
      if (view.schedule.length)
        tables.Schedule = () => scheduleTable(model, view, choose);
    }
    if (model.views.length > 1)
      tables.Targets = () => targetsTable(model, choose);
    const tabs = Object.entries(tables).map(([title, make], i) => {
      const tab = element("button", { type: "button", role: "tab", id: `tab${i}`, "aria-controls": "panel" }, title);
      tab.addEventListener("click", () => this.openTab(tab, make));
      return tab;
    });
    byId("tabs").replaceChildren(...tabs);
    byId("tabs").onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step)
        return;
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    };
    const open = tabs.find((t) => t.textContent === this.openTitle) || tabs[0];
    open.click();
  }

  openTab(tab, make) {
    this.openTitle = tab.textContent;
    [...byId("tabs").children].forEach((t) => {
      t.setAttribute("aria-selected", t === tab);
      t.tabIndex = t === tab ? 0 : -1;
    });
    byId("panel").setAttribute("aria-labelledby", tab.id);
    this.table = make();
    byId("panel").replaceChildren(this.table.root);
    this.table.render();
    this.markRows();
  }

  /** `row`: the row of the table that was chosen, if it was one. */
  select(nodes, move, row) {
    this.selected = nodes;
    this.graph.show(nodes, move);
    showDetails(byId("details"), this.model, this.view, nodes, (others) => this.select(others, true));
    if (row)
      this.table.mark([row]);
    else
      this.markRows();
  }

  /** Rows of the open table that are about nothing but what is selected. */
  markRows() {
    const wanted = new Set(this.selected);
    this.table.mark(wanted.size ? this.table.rows.filter((r) => r.nodes.length === 1 && wanted.has(r.nodes[0])) : []);
  }

  repaint() {
    const { model, view, mode } = this;
    byId("units").hidden = !needsUnit(view, mode) || view.units.length < 2;
    const palette = this.dark.matches ? PALETTES.dark : PALETTES.light;
    const paints = paint(model, view, mode, byId("unit").value);
    this.graph.setPaint(view, paints, palette);
    byId("legend").replaceChildren(...paints.entries.filter((e) => e.count).map((entry) => {
      const line = element("div");
      const patch = element("i");
      patch.style.background = fillOf(palette, entry.colour);
      line.append(patch, element("span", {}, entry.label), element("b", {}, String(entry.count)));
      return line;
    }));
  }
}

/** The border between graph and tables moves by pointer and by arrow keys. */
function listenToBorder() {
  const border = byId("border"), side = byId("side");
  const set = (width) => { side.style.width = `${Math.min(Math.max(width, 240), window.innerWidth - 240)}px`; };
  border.addEventListener("pointerdown", (event) => border.setPointerCapture(event.pointerId));
  border.addEventListener("pointermove", (event) => {
    if (border.hasPointerCapture(event.pointerId))
      set(window.innerWidth - event.clientX);
  });
  border.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 40, ArrowRight: -40 }[event.key];
    if (step)
      set(side.clientWidth + step);
  });
}

function start() {
  try {
    window.page = new Page(JSON.parse(byId("report").textContent));
    document.documentElement.dataset.state = "drawn";
  } catch (error) {
    byId("fault").hidden = false;
    byId("fault").textContent = `The report cannot be shown: ${error.message}`;
    document.documentElement.dataset.state = "fault";
  }
}

start();
