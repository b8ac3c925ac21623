// A sortable table of any length: only the rows in sight are in the document.
//
// column: {title, width, text(row), sort(row)?, number?, tail?}; rows are the caller's.
// bar(row): in place of text [from, to, strong], shares of the cell's width.
// tail: what is too long is cut in front, since the end of a name says most.
// A row is chosen by a click or by the arrow keys; onChoose gets it.

const ROW_HEIGHT = 26, SPARE_ROWS = 8;

function element(tag, attributes, text) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    made.setAttribute(name, value);
  if (text !== undefined)
    made.textContent = text;
  return made;
}

function barOf(from, to, strong) {
  const bar = element("i", { class: strong ? "bar strong" : "bar" });
  bar.style.left = `${from * 100}%`;
  bar.style.width = `${(to - from) * 100}%`;
  return bar;
}

class Table {
  constructor(columns, rows, label, onChoose) {
    this.columns = columns;
    this.rows = rows.slice();
    this.onChoose = onChoose;
    this.chosen = null;
    this.marked = new Set();
    this.order = { column: -1, down: false };
    this.root = element("div", { class: "table", role: "grid", "aria-label": label, "aria-rowcount": rows.length + 1 });
    this.widths = columns.map((c) => c.width).join(" ");
    this.head = this.makeHead();
    this.body = element("div", { class: "rows", tabindex: "0" });
    this.space = element("div", { class: "space" });
    this.body.append(this.head, this.space);
    this.root.append(this.body);
    // Rows have places of their own in the space, so its width is not found from them.
    const least = columns.reduce((all, c) => all + Number(/(\d+)px/.exec(c.width)[1]), 0);
    this.head.style.minWidth = this.space.style.minWidth = `${least}px`;
    this.body.addEventListener("scroll", () => this.render());
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(this.body);
  }

  makeHead() {
    const head = element("div", { class: "head", role: "row" });
    head.style.gridTemplateColumns = this.widths;
    this.columns.forEach((column, c) => {
      const cell = element("div", { role: "columnheader", "aria-sort": "none", class: column.number ? "number" : "" });
      const button = element("button", { type: "button", title: `Sort by ${column.title}` }, column.title);
      button.addEventListener("click", () => this.sort(c));
      cell.append(button);
      head.append(cell);
    });
    return head;
  }

  /** Numbers begin with the greatest; a second click turns the order. */
  sort(c) {
    const column = this.columns[c], key = column.sort || column.text;
    this.order = { column: c, down: this.order.column === c ? !this.order.down : Boolean(column.number) };
    const sign = this.order.down ? -1 : 1;
    const keyed = this.rows.map((row, i) => ({ row, i, key: key(row) }));
    const compare = column.number ? (a, b) => a - b : (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    keyed.sort((a, b) => sign * compare(a.key, b.key) || a.i - b.i);
    this.rows = keyed.map((k) => k.row);
    [...this.head.children].forEach((cell, i) =>
      cell.setAttribute("aria-sort", i !== c ? "none" : this.order.down ? "descending" : "ascending"));
    this.body.scrollTop = 0;
    this.render();
  }

  /** Marks the rows; scrolls to the first unless one is in sight. */
  mark(rows) {
    this.marked = new Set(rows);
    const places = this.rows.map((r, i) => (this.marked.has(r) ? i : -1)).filter((i) => i >= 0);
    this.chosen = places.length ? this.rows[places[0]] : null;
    const top = this.body.scrollTop / ROW_HEIGHT, height = this.rowsInSight();
    if (places.length && !places.some((i) => i >= top && i + 1 <= top + height))
      this.body.scrollTop = (places[0] - height / 2) * ROW_HEIGHT;
    this.render();
  }

  /** The head stands over the rows and takes a row's height. */
  rowsInSight() {
    return this.body.clientHeight / ROW_HEIGHT - 1;
  }

  render() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(this.rows.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW_HEIGHT) + SPARE_ROWS);
    this.space.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.space.replaceChildren(...this.rows.slice(first, last).map((row, k) => this.renderRow(row, first + k)));
  }

  renderRow(row, index) {
    const made = element("div", {
      role: "row", class: index % 2 ? "row odd" : "row", "aria-rowindex": index + 2, "aria-selected": this.marked.has(row),
    });
    made.style.gridTemplateColumns = this.widths;
    made.style.top = `${index * ROW_HEIGHT}px`;
    made.dataset.index = index;
    for (const column of this.columns) {
      const text = column.text(row);
      const cell = element("div", { role: "gridcell", class: column.number ? "number" : column.tail ? "tail" : "" }, column.tail ? "" : text);
      if (column.tail)
        cell.append(element("bdi", { dir: "ltr" }, text));
      if (column.bar)
        cell.append(barOf(...column.bar(row)));
      if (text.length > 12)
        cell.title = text.slice(0, 1000);
      made.append(cell);
    }
    return made;
  }

  choose(index) {
    const row = this.rows[index];
    if (!row)
      return;
    const top = index * ROW_HEIGHT;
    this.body.scrollTop = Math.min(top, Math.max(this.body.scrollTop, top - (this.rowsInSight() - 1) * ROW_HEIGHT));
    this.onChoose(row);
    this.chosen = row;
  }

  click(event) {
    const row = event.target.closest(".row");
    if (row)
      this.choose(Number(row.dataset.index));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.rowsInSight()) - 1);
    const at = this.chosen ? this.rows.indexOf(this.chosen) : -1, last = this.rows.length - 1;
    const to = {
      ArrowDown: at + 1, ArrowUp: Math.max(at - 1, 0), PageDown: Math.min(at + page, last), PageUp: Math.max(at - page, 0), Home: 0, End: last,
    }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey || event.metaKey)
      return;
    event.preventDefault();
    this.choose(Math.min(to, last));
  }
}
