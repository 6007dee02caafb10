// Grid: a cell for each node, coloured by one number. The table below says the same in words.
const GRID_NODES_MIN = 13; // fewer are seen at once in the table
const HEATS = 8;
const CELL = 16;
const GAP = 3;

const GRID_BY = {
  memory: ["memory", (node) => memoryShare(node), share, 1],
  nvme: ["NVMe", (node) => nvmeShare(node), share, 1],
  read: ["read", (node) => node.rates?.read_bytes_per_s, rate, null],
  written: ["written", (node) => node.rates?.written_bytes_per_s, rate, null],
  misses: ["misses", (node) => missShare(node), share, 1],
  evicted: ["evicted", (node) => node.rates?.evicted_bytes_per_s, rate, null],
};

class Grid {
  constructor(box, open) {
    this.box = box;
    this.open = open;
    this.cells = new Map(); // by name
    this.svg = drawn("svg", { class: "grid", role: "img" });
    byId("grid").append(this.svg);
    this.select = byId("grid-by");
    for (const [key, [label]] of Object.entries(GRID_BY))
      this.select.append(element("option", { value: key }, label));
    this.select.addEventListener("change", () => this.draw(this.nodes));
    this.svg.addEventListener("click", (event) => {
      const name = event.target.dataset?.name;
      if (name) this.open(name);
    });
    new ResizeObserver(() => this.nodes && this.draw(this.nodes)).observe(byId("grid"));
  }

  draw(nodes) {
    this.nodes = nodes;
    this.box.hidden = nodes.length < GRID_NODES_MIN;
    if (this.box.hidden) return;
    const [label, of, format, fixed] = GRID_BY[this.select.value];
    const top = fixed ?? Math.max(1, ...nodes.map((node) => of(node) ?? 0));
    const columns = Math.max(1, Math.floor((this.svg.clientWidth || 320) / (CELL + GAP)));
    const height = Math.ceil(nodes.length / columns) * (CELL + GAP);
    mark(this.svg, "height", height);
    const seen = new Set();
    nodes.forEach((node, at) => {
      seen.add(node.name);
      const cell = this.cellOf(node.name);
      mark(cell, "x", (at % columns) * (CELL + GAP) + 1);
      mark(cell, "y", Math.floor(at / columns) * (CELL + GAP) + 1);
      const value = of(node);
      mark(cell, "class", classOf(node, value, top));
      say(cell.firstChild, `${node.name}: ${stateOf(node)}, ${label} ${format(value)}`);
    });
    for (const [name, cell] of this.cells) {
      if (seen.has(name)) continue;
      cell.remove();
      this.cells.delete(name);
    }
    mark(this.svg, "aria-label", `${nodes.length} nodes coloured by ${label}; see the table`);
    this.key(format, top);
  }

  cellOf(name) {
    let cell = this.cells.get(name);
    if (!cell) {
      cell = drawn("rect", { width: CELL - 2, height: CELL - 2, rx: 2, "data-name": name });
      cell.append(drawn("title"));
      this.cells.set(name, cell);
      this.svg.append(cell);
    }
    return cell;
  }

  key(format, top) {
    if (!this.steps) {
      const key = drawn("svg", { class: "key", "aria-hidden": "true" });
      for (let at = 0; at < HEATS; at += 1)
        key.append(drawn("rect", { x: at * 12, width: 12, height: 12, class: `h${at}` }));
      this.steps = [element("span"), element("span")];
      byId("grid-legend").append(this.steps[0], key, this.steps[1], element("span", {}, "hollow: no answer, outlined: draining"));
    }
    say(this.steps[0], format(0));
    say(this.steps[1], format(top));
  }
}

function classOf(node, value, top) {
  if (!node.answers) return "silent";
  const heat = value == null ? "unknown" : `h${Math.min(HEATS - 1, Math.floor((value / top) * HEATS))}`;
  return node.state === "draining" ? `${heat} draining` : heat;
}
