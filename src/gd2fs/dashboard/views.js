// Views: what of an overview stands where on the page.
function used(counts) {
  return counts.arena_bytes - counts.free_bytes;
}

function memoryShare(node) {
  return node.counts && ratio(used(node.counts), node.counts.arena_bytes);
}

function nvmeShare(node) {
  return node.counts && ratio(node.counts.nvme_live_bytes, node.counts.nvme_bytes);
}

function missShare(node) {
  return node.rates?.hit_rate == null ? null : 1 - node.rates.hit_rate;
}

function stateOf(node) {
  return node.answers || node.state === "gone" ? node.state : "no answer";
}

const STATE_COLORS = { active: "ok", joining: "warn", draining: "warn", gone: "muted" };

function showState(cell, node) {
  const state = stateOf(node);
  say(cell, state);
  mark(cell, "class", `state ${STATE_COLORS[state] ?? "bad"}`);
}

function showFill(cell, part, whole) {
  if (!whole) return tell(cell, null, NOTHING);
  if (!cell.firstChild)
    cell.append(element("span", { class: "fill" }, element("span", { class: "meter" }), number("", "")));
  const [bar, data] = cell.firstChild.children;
  meter(bar, part / whole);
  mark(data, "value", part);
  mark(data, "title", `${bytes(part)} of ${bytes(whole)}`);
  say(data, share(part / whole));
}

// ---- the nodes ------------------------------------------------------------------------------------

function counted(title, of, format, className = "num") {
  return { title, of, className, show: (cell, row) => tell(cell, of(row), format(of(row))) };
}

function named(title, of, show, isText = true) {
  return { title, of, show, isText, className: "" };
}

function nodeColumns(shape, open) {
  const rates = (name) => (node) => node.rates?.[name];
  return [
    {
      title: "Node",
      of: (node) => node.name,
      isText: true,
      isName: true,
      className: "name",
      show: (cell, node) => showName(cell, node, open),
    },
    named("State", stateOf, (cell, node) => showStateIn(cell, node)),
    fillColumn("Memory", memoryShare, (c) => [used(c), c.arena_bytes], () => true, ""),
    fillColumn("NVMe", nvmeShare, (c) => [c.nvme_live_bytes, c.nvme_bytes], () => shape.hasNvme, "middle"),
    counted("Read", rates("read_bytes_per_s"), rate),
    counted("Written", rates("written_bytes_per_s"), rate, "num middle"),
    counted("Hits", rates("hit_rate"), share, "num middle"),
    { ...counted("P99", (node) => node.latency?.read?.p99_ms, milliseconds, "num low"), isThere: () => shape.hasLatency },
    counted("Requests/s", rates("requests_per_s"), count, "num low"),
    counted("Evicted", rates("evicted_bytes_per_s"), rate, "num low"),
    counted("To move", (node) => node.counts && node.counts.moves_left + node.counts.records_left, count, "num low"),
  ];
}

function fillColumn(title, of, parts, isThere, className) {
  const show = (cell, node) => {
    if (node.counts) showFill(cell, ...parts(node.counts));
    else tell(cell, null, NOTHING);
  };
  return { title, of, isThere, className, show };
}

function showName(cell, node, open) {
  if (!cell.firstChild) {
    const press = () => open(cell.firstChild.textContent);
    cell.append(element("button", { type: "button", class: "link", onclick: press, "aria-haspopup": "dialog" }));
  }
  say(cell.firstChild, node.name);
  mark(cell, "title", node.name);
}

function showStateIn(cell, node) {
  if (!cell.firstChild) cell.append(element("span"));
  showState(cell.firstChild, node);
  mark(cell, "title", node.fault || node.not_ready || "");
}

// ---- the tiles ------------------------------------------------------------------------------------

function showTiles(now, latency, hasLatency) {
  const { counts, rates, nodes, answering } = now.total;
  tell(byId("t-nodes"), answering, count(answering));
  say(byId("t-nodes-of"), `of ${count(nodes)}`);
  byId("t-nodes").classList.toggle("bad", answering < nodes);
  say(byId("t-states"), statesOf(now.nodes));
  mark(byId("t-states"), "title", byId("t-states").textContent);
  const memory = [used(counts), counts.arena_bytes];
  tell(byId("t-memory"), memory[0], bytes(memory[0]));
  meter(byId("m-memory"), ratio(...memory));
  say(byId("t-memory-of"), `${share(ratio(...memory))} of ${bytes(memory[1])}`);
  byId("nvme-tile").hidden = !counts.nvme_bytes;
  tell(byId("t-nvme"), counts.nvme_live_bytes, bytes(counts.nvme_live_bytes));
  meter(byId("m-nvme"), ratio(counts.nvme_live_bytes, counts.nvme_bytes));
  say(byId("t-nvme-of"), `${share(ratio(counts.nvme_live_bytes, counts.nvme_bytes))} of ${bytes(counts.nvme_bytes)}`);
  tell(byId("t-read"), rates?.read_bytes_per_s, rate(rates?.read_bytes_per_s));
  tell(byId("t-write"), rates?.written_bytes_per_s, rate(rates?.written_bytes_per_s));
  tell(byId("t-hits"), rates?.hit_rate, share(rates?.hit_rate));
  tell(byId("t-requests"), rates?.requests_per_s, perSecond(rates?.requests_per_s));
  tell(byId("t-evicted"), rates?.evicted_bytes_per_s, rate(rates?.evicted_bytes_per_s));
  showSums(counts);
  byId("latency-tile").hidden = !hasLatency;
  tell(byId("t-p99"), latency?.p99_ms, milliseconds(latency?.p99_ms));
  say(byId("t-p50"), `P50 ${milliseconds(latency?.p50_ms)}`);
}

function perSecond(number) {
  return number == null ? NOTHING : `${count(number)}/s`;
}

// Since the nodes' starts.
function showSums(counts) {
  const sum = (id, value, text, rest) => {
    const at = byId(id);
    if (!at.firstChild) at.append(number("", ""), document.createTextNode(rest));
    mark(at.firstChild, "value", value);
    say(at.firstChild, text);
  };
  sum("t-read-all", counts.bytes_out, bytes(counts.bytes_out), " so far");
  sum("t-write-all", counts.bytes_in, bytes(counts.bytes_in), " so far");
  const hits = ratio(counts.hits, counts.hits + counts.misses);
  sum("t-hits-all", counts.hits, share(hits), " so far");
  sum("t-requests-all", counts.requests, count(counts.requests), " so far");
  sum("t-evicted-all", counts.evicted_pieces, count(counts.evicted_pieces), " pieces so far");
}

function statesOf(nodes) {
  const found = new Map();
  for (const node of nodes) found.set(stateOf(node), (found.get(stateOf(node)) ?? 0) + 1);
  const parts = [...found].map(([state, many]) => `${many} ${state}`);
  return parts.join(", ");
}

function showProblems(problems) {
  byId("problems").hidden = !problems.length;
  const lines = JSON.stringify(problems);
  if (byId("problem-list").dataset.lines === lines) return; // else it would be read out again
  byId("problem-list").dataset.lines = lines;
  byId("problem-list").replaceChildren(
    ...problems.map((each) => {
      const text = element("span", { class: each.severity }, each.severity === "bad" ? "Fault: " : "Note: ");
      return element("li", {}, text, element("b", {}, namesText(each.nodes)), ` ${each.text}`);
    }),
  );
}

// ---- namespaces, moves, departures -----------------------------------------------------------------

function spaceColumns(shape) {
  const quota = (space) => ratio(space.memory_bytes, space.quota_bytes);
  return [
    {
      title: "Namespace",
      of: (space) => space.name,
      isText: true,
      isName: true,
      className: "name",
      show: (cell, space) => {
        say(cell, space.name || "(all without rules)");
        mark(cell, "title", cell.textContent);
      },
    },
    counted("Memory", (space) => space.memory_bytes, bytes),
    { ...counted("On disk", (space) => space.disk_bytes, bytes), isThere: () => shape.hasNvme },
    counted("Hits", (space) => space.hit_rate, share),
    counted("So far", (space) => ratio(space.hits, space.hits + space.misses), share, "num middle"),
    counted("Pinned", (space) => space.pinned_bytes, bytes, "num middle"),
    counted("Of its quota", quota, share, "num middle"),
  ];
}

const CAUSES = {
  "evicted": "lack of room",
  "over quota": "over its quota",
  "expired": "its time was over",
  "corrupt": "wrong checksum",
  "not demoted": "lack of room, before it was on disk",
  "lost by the disk": "the disk let it go",
};

function goneColumns(shape) {
  const text = (title, of, className = "") => ({ ...named(title, of, (cell, row) => say(cell, of(row))), className });
  return [
    {
      ...counted("When", (gone) => gone.last_ms, (ms) => `${span((shape.atMs - ms) / 1000)} ago`, ""),
    },
    text("Node", (gone) => gone.node, "name"),
    text("Namespace", (gone) => gone.namespace || "(unknown)", "name"),
    counted("Pieces", (gone) => gone.pieces, count),
    counted("Bytes", (gone) => gone.bytes, bytes),
    text("Why", (gone) => CAUSES[gone.cause] ?? gone.cause),
    text("Policy", (gone) => gone.policy, "middle"),
    text("For", (gone) => gone.for_whom || NOTHING, "name middle"),
  ];
}

function moveColumns() {
  return [
    { title: "Node", of: (node) => node.name, isText: true, isName: true, className: "name", show: (cell, node) => say(cell, node.name) },
    counted("Pieces", (node) => node.counts.moves_left, count),
    counted("Bytes", (node) => node.counts.moves_left_bytes, bytes),
    counted("Records", (node) => node.counts.records_left, count, "num middle"),
    counted("Rate", (node) => node.rates?.moved_bytes_per_s, rate),
  ];
}

function showMoves(now, table) {
  const moving = now.nodes.filter((node) => node.counts && node.counts.moves_left + node.counts.records_left > 0);
  byId("moves-scroll").hidden = !moving.length;
  const { counts, rates } = now.total;
  say(byId("moves-note"), moving.length ? movesText(moving.length, counts, rates) : "None: everything is where it belongs.");
  table.show(moving);
}

function movesText(many, counts, rates) {
  const speed = rates?.moved_bytes_per_s;
  const left = speed ? `, about ${span(counts.moves_left_bytes / speed)} to go` : "";
  const nodes = many === 1 ? "One node has" : `${count(many)} nodes have`;
  return `${nodes} ${bytes(counts.moves_left_bytes)} yet to look at or to hand over${left}.`;
}
