// Detail: all about one node, or the settings of all of them; what is changed is confirmed first.
const CHANGE_KEYS = [
  "move_rate",
  "nvme_rate",
  "default.policy",
  "default.quota",
  "default.ttl",
  "namespace.NAME.policy",
  "namespace.NAME.quota",
  "namespace.NAME.disk_quota",
  "namespace.NAME.ttl",
  "namespace.NAME.class",
];

class Detail {
  constructor() {
    this.dialog = byId("detail");
    this.name = null; // null: it is about all nodes
    byId("change-keys").append(...CHANGE_KEYS.map((key) => element("option", { value: key })));
    byId("detail-close").addEventListener("click", () => this.dialog.close());
    byId("drain").addEventListener("click", () => this.drain());
    byId("change").addEventListener("submit", (event) => {
      event.preventDefault();
      this.change(byId("change-key").value.trim(), byId("change-value").value.trim());
    });
  }

  open(name, overview) {
    this.name = name;
    this.report("", "");
    say(byId("detail-title"), name === null ? "Settings of all nodes" : name);
    say(byId("detail-settings"), "");
    byId("detail-leave").hidden = name === null || !mayOperate();
    byId("detail-change").hidden = !mayOperate();
    this.show(overview);
    this.dialog.showModal();
    if (mayOperate()) this.load();
  }

  // What is known of it now; called with every overview.
  show(overview) {
    if (this.name === null) return byId("detail-facts").replaceChildren();
    const node = overview.nodes.find((each) => each.name === this.name);
    const facts = node ? factsOf(node) : [["State", "it is not in the map any more"]];
    byId("detail-facts").replaceChildren(
      ...facts.map(([title, text]) => element("div", {}, element("dt", {}, title), element("dd", {}, text))),
    );
    byId("drain").disabled = !node || node.state === "draining" || node.state === "gone";
  }

  async load() {
    const about = this.name;
    try {
      const { nodes } = await ask(`v1/config${about === null ? "" : `?node=${encodeURIComponent(about)}`}`);
      if (about === this.name) say(byId("detail-settings"), settingsText(nodes));
    } catch (error) {
      if (about === this.name) say(byId("detail-settings"), `not shown: ${words(error)}`);
    }
  }

  async drain() {
    const node = this.name;
    const text = "It hands over all it has to the other nodes, and then its process ends. Reads go on meanwhile; what the others have no room for is evicted. This cannot be called off.";
    if (!(await confirmed(`Drain ${node}?`, text, `Drain ${node}`))) return;
    await this.act(async () => {
      await ask("v1/drain", { node });
      return `${node} has begun to hand over what it has.`;
    });
  }

  async change(key, value) {
    const where = this.name === null ? "all nodes" : this.name;
    const what = value ? `Set ${key} to ${value}` : `Take ${key} back`;
    if (!(await confirmed(`${what}?`, `On ${where}, at once and until they end.`, what))) return;
    await this.act(async () => {
      const said = await ask("v1/config", { key, value: value || null, node: this.name ?? "" });
      return [`${what}: done on ${said.nodes.join(", ")}.`, ...said.warnings].join(" ");
    });
    this.load();
  }

  async act(run) {
    try {
      this.report("", await run());
    } catch (error) {
      this.report(words(error), "");
    }
  }

  report(fault, done) {
    byId("detail-fault").hidden = !fault;
    byId("detail-done").hidden = !done;
    say(byId("detail-fault"), fault);
    say(byId("detail-done"), done);
  }
}

function factsOf(node) {
  const { counts, rates } = node;
  const facts = [
    ["State", stateOf(node)],
    ["Addresses", node.addresses.join(", ")],
    ["Weight", String(node.weight)],
  ];
  if (!counts) return [...facts, ["Why", node.fault]];
  facts.push(
    ["Version", node.version],
    ["Runs for", span(node.up_ms / 1000)],
    ["Epoch", String(node.epoch)],
    ["Memory", `${bytes(used(counts))} of ${bytes(counts.arena_bytes)}, ${node.rung}`],
    ["Holds", `${count(counts.pages)} pages, ${count(counts.pieces)} pieces, ${count(counts.records)} records`],
    ["Streams", count(counts.connections)],
    ["Read", `${rate(rates?.read_bytes_per_s)}, ${bytes(counts.bytes_out)} so far`],
    ["Written", `${rate(rates?.written_bytes_per_s)}, ${bytes(counts.bytes_in)} so far`],
    ["Hits", `${share(rates?.hit_rate)}, ${share(ratio(counts.hits, counts.hits + counts.misses))} so far`],
    ["Evicted", `${count(counts.evicted_pieces)} pieces, ${bytes(counts.evicted_bytes)} so far`],
    ["To move", `${count(counts.moves_left)} pieces, ${bytes(counts.moves_left_bytes)}`],
  );
  if (counts.nvme_bytes)
    facts.push(
      ["NVMe", `${bytes(counts.nvme_live_bytes)} of ${bytes(counts.nvme_bytes)}`],
      ["Only on disk", bytes(counts.cold_bytes)],
      ["Yet to be written", bytes(counts.dirty_bytes)],
    );
  if (counts.corrupt_pieces || counts.corrupt_in)
    facts.push(["Wrong checksums", `${count(counts.corrupt_pieces)} stored, ${count(counts.corrupt_in)} received`]);
  if (node.not_ready) facts.push(["Not ready", node.not_ready]);
  return facts;
}

// As a configuration file says it; alike nodes are told once.
function settingsText(nodes) {
  const alike = new Map();
  for (const [name, settings] of Object.entries(nodes)) {
    const text = settings ? toml(settings, []) : "# it does not answer\n";
    alike.set(text, [...(alike.get(text) ?? []), name]);
  }
  const blocks = [...alike].map(([text, names]) => `# ${namesText(names)}\n${text}`);
  return blocks.join("\n");
}

function namesText(names) {
  return names.length > 8 ? `${names.slice(0, 8).join(", ")} and ${names.length - 8} more` : names.join(", ");
}

function toml(table, path) {
  const entries = Object.entries(table);
  const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const own = entries.filter(([, value]) => !isTable(value));
  const title = path.length && (own.length || !entries.length) ? `[${path.map(tomlKey).join(".")}]\n` : "";
  const lines = own.map(([key, value]) => `${tomlKey(key)} = ${JSON.stringify(value)}\n`).join("");
  const tables = entries.filter(([, value]) => isTable(value));
  return title + lines + tables.map(([key, value]) => toml(value, [...path, key])).join("");
}

function tomlKey(key) {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key);
}

// Asks in a dialog of its own; Escape is no.
function confirmed(title, text, yes) {
  const dialog = byId("confirm");
  say(byId("confirm-title"), title);
  say(byId("confirm-text"), text);
  say(byId("confirm-yes"), yes);
  return new Promise((resolve) => {
    const end = (answer) => {
      byId("confirm-yes").onclick = byId("confirm-no").onclick = dialog.onclose = null;
      dialog.close();
      resolve(answer);
    };
    byId("confirm-yes").onclick = () => end(true);
    byId("confirm-no").onclick = () => end(false);
    dialog.onclose = () => { if (!dialog.open) end(false); };  // the last question's comes late
    dialog.showModal();
    byId("confirm-no").focus();
  });
}
