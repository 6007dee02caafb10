// Tables: sorted by any column, and only the rows that are seen are there. Rows keep their element
// while they are seen, so focus and selection stay where they are when numbers change.
const ROW_HEIGHT = 32; // until one was measured
const ROWS_AROUND = 6; // beyond what is seen

class Table {
  // columns: [{ title, of(row), make(), show(cell, row), className, isText }], the first is the name.
  constructor(table, scroll, columns, keyOf, sort) {
    Object.assign(this, { table, scroll, columns, keyOf });
    this.sort = sort; // [index of the column, is it descending]
    this.rows = [];
    this.elements = new Map();
    this.rowHeight = ROW_HEIGHT;
    this.heads = columns.map((column, at) => this.head(column, at));
    this.body = element("tbody");
    this.above = element("tr", { class: "spacer", "aria-hidden": "true" }, element("td"));
    this.below = this.above.cloneNode(true);
    for (const spacer of [this.above, this.below]) spacer.firstChild.colSpan = columns.length;
    table.append(element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    scroll.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    this.body.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(scroll);
  }

  head(column, at) {
    const press = () => {
      const [by, isDown] = this.sort;
      this.sort = [at, by === at ? !isDown : !column.isText];
      this.show(this.rows);
    };
    const button = element("button", { type: "button", onclick: press }, column.title);
    return element("th", { scope: "col", class: column.className ?? "" }, button);
  }

  show(rows) {
    const [by, isDown] = this.sort;
    const { of } = this.columns[by];
    const sign = isDown ? -1 : 1;
    this.rows = [...rows].sort((a, b) => sign * compare(of(a), of(b), sign) || compare(this.keyOf(a), this.keyOf(b), 1));
    this.heads.forEach((head, at) => {
      mark(head, "aria-sort", at !== by ? "none" : isDown ? "descending" : "ascending");
      const column = this.columns[at];
      if (column.isThere) head.hidden = !column.isThere();
    });
    mark(this.table, "aria-rowcount", this.rows.length + 1);
    this.draw();
  }

  draw() {
    this.rowHeight = this.elements.values().next().value?.offsetHeight || this.rowHeight;
    const seen = Math.ceil(this.scroll.clientHeight / this.rowHeight);
    const top = Math.floor(this.scroll.scrollTop / this.rowHeight);
    const first = Math.max(0, Math.min(top, this.rows.length - seen) - ROWS_AROUND);
    const shown = this.rows.slice(first, first + seen + 2 * ROWS_AROUND);
    const elements = shown.map((row, at) => this.rowOf(row, first + at));
    const held = document.activeElement;
    const kept = new Set(elements);
    for (const [key, each] of this.elements) {
      if (kept.has(each)) continue;
      if (each.contains(held)) this.scroll.focus({ preventScroll: true });
      each.remove();
      this.elements.delete(key);
    }
    height(this.above, first * this.rowHeight);
    height(this.below, (this.rows.length - first - shown.length) * this.rowHeight);
    place(this.body, [this.above, ...elements, this.below]);
    if (held !== document.activeElement && this.body.contains(held)) held.focus({ preventScroll: true });
  }

  rowOf(row, at) {
    const key = this.keyOf(row);
    let made = this.elements.get(key);
    if (!made) {
      made = element("tr");
      for (const column of this.columns)
        made.append(element(column.isName ? "th" : "td", { class: column.className ?? "", scope: column.isName ? "row" : null }));
      this.elements.set(key, made);
    }
    mark(made, "aria-rowindex", at + 2);
    this.columns.forEach((column, index) => {
      const cell = made.children[index];
      if (column.isThere) cell.hidden = !column.isThere();
      column.show(cell, row);
    });
    return made;
  }

  // Arrows go from row to row, also to those that are not there yet.
  step(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const from = event.target.closest("tr");
    if (!by || !from) return;
    event.preventDefault();
    const to = Number(from.getAttribute("aria-rowindex")) - 2 + by;
    if (to < 0 || to >= this.rows.length) return;
    const head = this.heads[0].offsetHeight;
    const low = to * this.rowHeight;
    const high = low + this.rowHeight + head - this.scroll.clientHeight;
    this.scroll.scrollTop = Math.max(high, Math.min(this.scroll.scrollTop, low));
    this.draw();
    this.elements.get(this.keyOf(this.rows[to]))?.querySelector("button")?.focus({ preventScroll: true });
  }
}

// What is not known comes last, in whichever order.
function compare(a, b, sign) {
  if (a == null || b == null) return a == null ? (b == null ? 0 : sign) : -sign;
  if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
  return a - b;
}

function height(spacer, pixels) {
  const wanted = `${pixels}px`;
  if (spacer.firstChild.style.height !== wanted) spacer.firstChild.style.height = wanted;
  spacer.hidden = pixels === 0;
}

// Puts the children in order, and touches none that is in its place.
function place(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}
