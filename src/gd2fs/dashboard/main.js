// Main: asks every two seconds while somebody looks, and shows what came.
const REFRESH_MS = 2000;
const LATE_MS = 6000; // then what is shown is said to be old

const shape = { hasNvme: false, hasLatency: false, atMs: 0 };
const points = [];
const detail = new Detail();
const open = (name) => detail.open(name, overview);
const nodesTable = new Table(byId("nodes"), byId("nodes-scroll"), nodeColumns(shape, open), (node) => node.name, [0, false]);
const spacesTable = new Table(byId("spaces"), byId("spaces-scroll"), spaceColumns(shape), (space) => space.name, [1, true]);
const movesTable = new Table(byId("moves"), byId("moves-scroll"), moveColumns(), (node) => node.name, [2, true]);
const goneKey = (gone) => [gone.node, gone.namespace, gone.cause, gone.policy, gone.for_whom, gone.last_ms].join("\n");
const goneTable = new Table(byId("gone"), byId("gone-scroll"), goneColumns(shape), goneKey, [0, true]);
const grid = new Grid(byId("grid-box"), open);
const rates = (name) => (point) => point.rates?.[name];
const throughputChart = new Chart(
  byId("chart-throughput"),
  "Throughput",
  [
    { name: "read", of: rates("read_bytes_per_s"), color: "c-read" },
    { name: "written", of: rates("written_bytes_per_s"), color: "c-write" },
  ],
  rate,
  1e6,
);
const hitsChart = new Chart(byId("chart-hits"), "Hit rate", [{ name: "hits", of: rates("hit_rate"), color: "c-read" }], share, 1);
const latencyChart = new Chart(
  byId("chart-latency"),
  "Latency of reads",
  [
    { name: "P50", of: (point) => point.latency?.p50_ms, color: "c-read" },
    { name: "P95", of: (point) => point.latency?.p95_ms, color: "c-third" },
    { name: "P99", of: (point) => point.latency?.p99_ms, color: "c-write" },
  ],
  milliseconds,
  0.1,
);

const whatIf = new WhatIf(byId("whatif"));

let overview = null;
let isPaused = false;
let timer = 0;

async function refresh() {
  clearTimeout(timer);
  try {
    overview = await ask("v1/overview");
    await askWho();
    notice("");
    byId("sign-in").hidden = true;
    showCaller();
    show();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401 || error.status === 403) signIn(error);
    else notice(`${words(error)}${overview ? `. What is shown is of ${clock(overview.at_ms)}.` : ""}`);
  } finally {
    plan();
  }
}

function plan() {
  clearTimeout(timer);
  const isAsking = !byId("sign-in").hidden;
  if (!isPaused && !document.hidden && !isAsking) timer = setTimeout(refresh, REFRESH_MS);
}

function notice(text) {
  byId("notice").hidden = !text;
  say(byId("notice"), text);
}

function showCaller() {
  byId("forget").hidden = !token();
  byId("settings").hidden = !mayOperate();
  byId("caller").hidden = !caller?.token;
  say(byId("caller"), callerText());
}

function signIn(error) {
  caller = null;
  showCaller();
  const isFirst = byId("sign-in").hidden;
  byId("main").hidden = true;
  byId("sign-in").hidden = false;
  if (token()) notice(words(error));
  if (isFirst) byId("token").focus();
}

// ---- what is shown ---------------------------------------------------------------------------------

function show() {
  byId("main").hidden = false;
  shape.hasNvme = overview.total.counts.nvme_bytes > 0;
  const latency = overview.total.latency?.read;
  shape.hasLatency = shape.hasLatency || Boolean(latency); // once there, it stays
  shape.atMs = overview.at_ms;
  remember(latency);
  showHead();
  showProblems(overview.problems);
  showTiles(overview, latency, shape.hasLatency);
  showCharts();
  showNodes();
  spacesTable.show(overview.namespaces);
  say(byId("spaces-note"), overview.namespaces.length > 1 ? "" : "No namespace has rules of its own yet: all count as one.");
  showMoves(overview, movesTable);
  showGone();
  whatIf.look();
  if (detail.dialog.open) detail.show(overview);
  document.documentElement.dataset.at = overview.at_ms; // for who waits for the next one
}

function remember(latency) {
  const { rates: now } = overview.total;
  points.push({ atS: overview.at_ms / 1000, rates: now, latency });
  while (points[0].atS < overview.at_ms / 1000 - CHART_S) points.shift();
}

function showHead() {
  document.title = `${overview.problems.some((each) => each.severity === "bad") ? "! " : ""}${overview.cluster} – GD2FS`;
  say(byId("cluster"), overview.cluster);
  const copies = overview.replicas === 1 ? "1 copy" : `${overview.replicas} copies`;
  say(byId("facts"), `epoch ${overview.epoch} · membership ${overview.provider} · ${copies} · seen by ${overview.seen_by}`);
  showFreshness();
}

function showFreshness() {
  if (!overview) return;
  const isLate = Date.now() - overview.at_ms > LATE_MS;
  say(byId("freshness"), `${clock(overview.at_ms)}${isPaused ? ", paused" : isLate ? ", old" : ""}`);
  byId("freshness").classList.toggle("warn", isLate || isPaused);
}

function showCharts() {
  const nowS = overview.at_ms / 1000;
  throughputChart.draw(points, nowS);
  hitsChart.draw(points, nowS);
  byId("chart-latency").hidden = !shape.hasLatency;
  if (shape.hasLatency) latencyChart.draw(points, nowS);
}

function showNodes() {
  const wanted = byId("find").value.trim().toLowerCase();
  const found = overview.nodes.filter((node) => `${node.name}\n${stateOf(node)}`.toLowerCase().includes(wanted));
  grid.draw(found);
  nodesTable.show(found);
  say(byId("nodes-count"), wanted ? `${found.length} of ${overview.nodes.length}` : `${found.length}`);
}

function showGone() {
  const isNone = !overview.evictions.length;
  byId("gone-scroll").hidden = isNone;
  say(byId("gone-note"), isNone ? "Nothing that the nodes remember." : "What nodes let go by themselves, what went within ten seconds together.");
  goneTable.show(overview.evictions);
}

// ---- what is pressed -------------------------------------------------------------------------------

byId("find").addEventListener("input", () => overview && showNodes());
byId("settings").addEventListener("click", () => overview && open(null));
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  mark(byId("pause"), "aria-pressed", isPaused);
  showFreshness();
  if (!isPaused) refresh();
});
byId("forget").addEventListener("click", () => {
  use("");
  byId("forget").hidden = true;
  refresh();
});
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  use(byId("token").value.trim());
  byId("token").value = "";
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!isPaused) refresh();
});
window.addEventListener("resize", () => {
  if (!overview) return;
  showCharts();
  whatIf.draw();
});
setInterval(showFreshness, 1000);
refresh();
