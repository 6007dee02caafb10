// What if: what more memory would bring, by the curves that nodes keep of what they are asked.
const WHATIF_MS = 30000; // between two questions: the answer changes slowly
const WHATIF_HEIGHT = 150;
const MARKED = [1, 2]; // times the memory of today

class WhatIf {
  constructor(section) {
    this.section = section;
    this.askedMs = 0;
    this.answer = null;
    this.choice = byId("whatif-of");
    this.choice.addEventListener("change", () => this.draw());
    this.svg = drawn("svg", { class: "chart whatif", role: "img" });
    this.rules = [0, 0.5, 1].map(() => drawn("line", { class: "rule" }));
    this.labels = [0, 0.5, 1].map(() => drawn("text", { "text-anchor": "end" }));
    this.ticks = new Map();
    this.counted = drawn("line", { class: "counted" });
    this.countedName = drawn("text", { "text-anchor": "end" });
    this.path = drawn("path", { class: "c-read" });
    this.marks = MARKED.map(() => [drawn("line", { class: "rule" }), drawn("circle", { r: 4, class: "c-write" }), drawn("text")]);
    this.svg.append(...this.rules, ...this.labels, this.counted, ...this.marks.map((each) => each[0]), this.path);
    this.svg.append(...this.marks.flatMap((each) => each.slice(1)), this.countedName);
    byId("whatif-chart").append(this.svg);
  }

  // Asks now and then; what was known is shown meanwhile.
  async look() {
    if (Date.now() - this.askedMs < WHATIF_MS) return;
    this.askedMs = Date.now();
    try {
      this.answer = await ask("v1/whatif?dram=2x");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.answer = null;
    }
    this.choose();
    this.draw();
  }

  choose() {
    const names = this.answer?.namespaces.map((each) => each.name) ?? [];
    const wanted = JSON.stringify(names);
    if (this.choice.dataset.names === wanted) return;
    this.choice.dataset.names = wanted;
    const before = this.choice.selectedOptions[0]?.textContent;
    const options = names.map((name, at) => element("option", { value: at }, name || "(all others)"));
    this.choice.replaceChildren(element("option", { value: "" }, "all namespaces"), ...options);
    const again = [...this.choice.options].find((each) => each.textContent === before);
    if (again) this.choice.value = again.value;
  }

  draw() {
    this.section.hidden = !this.answer;
    if (!this.answer) return;
    const at = this.choice.value;
    const row = at === "" ? this.answer.total : this.answer.namespaces[at];
    const isKnown = row.now != null;
    byId("whatif-chart").hidden = !isKnown;
    say(byId("whatif-text"), isKnown ? whatIfText(this.answer, row) : tooFewText(row));
    if (isKnown) this.plot(row);
  }

  plot(row) {
    const width = Math.max(160, this.svg.clientWidth || CHART_WIDTH);
    mark(this.svg, "viewBox", `0 0 ${width} ${WHATIF_HEIGHT + 22}`);
    const octaves = row.points.map(([times]) => Math.log2(times));
    const [first, last] = [octaves[0], octaves.at(-1)];
    const x = (times) => AXIS_WIDTH + (width - AXIS_WIDTH - 12) * ((Math.log2(times) - first) / (last - first));
    const y = (part) => 6 + (WHATIF_HEIGHT - 10) * (1 - part);
    this.frame(width, x, y, row);
    const lines = row.points.map(([times, part], at) => `${at ? "L" : "M"}${x(times).toFixed(1)} ${y(part).toFixed(1)}`);
    mark(this.path, "d", lines.join(""));
    fit(this.counted, { x1: AXIS_WIDTH, x2: width, y1: y(row.counted), y2: y(row.counted) });
    fit(this.countedName, { x: width - 2, y: y(row.counted) + 14 });
    say(this.countedName, `counted ${share(row.counted)}`);
    [row.now, row.then].forEach((part, at) => {
      const [rule, dot, text] = this.marks[at];
      const left = x(MARKED[at]);
      fit(rule, { x1: left, x2: left, y1: y(0), y2: y(1) });
      fit(dot, { cx: left, cy: y(part) });
      fit(text, { x: left + 7, y: Math.min(y(0) - 6, y(part) + 16) });
      say(text, share(part));
    });
    mark(this.svg, "aria-label", `Hit rate by memory: ${share(row.now)} with today's, ${share(row.then)} with twice as much`);
  }

  frame(width, x, y, row) {
    this.rules.forEach((rule, at) => {
      fit(rule, { x1: AXIS_WIDTH, x2: width, y1: y(at / 2), y2: y(at / 2) });
      fit(this.labels[at], { x: AXIS_WIDTH - 8, y: y(at / 2) + 4 });
      say(this.labels[at], `${50 * at} %`);
    });
    for (const [times] of row.points) {
      const octave = Math.log2(times);
      if (!Number.isInteger(octave)) continue;
      if (!this.ticks.has(octave)) {
        const label = drawn("text", { "text-anchor": "middle" });
        this.ticks.set(octave, label);
        this.svg.append(label);
      }
      fit(this.ticks.get(octave), { x: x(times), y: WHATIF_HEIGHT + 16 });
      say(this.ticks.get(octave), octave < 0 ? `1/${2 ** -octave}` : octave === 0 ? "today" : `${times}x`);
    }
  }
}

function whatIfText(answer, row) {
  const brings = row.then - row.now >= 0.0005 ? `: ${rate(row.more_bytes_per_s)} more would be found` : ": no more than that";
  const sizes = `${bytes(answer.memory_bytes)} on ${answer.nodes === 1 ? "one node" : `${count(answer.nodes)} nodes`}`;
  const now = `Counted were ${share(row.counted)} in the last ${span(answer.span_s)}; the curves say ${share(row.now)} for today's ${sizes}`;
  return `${now}, and ${share(row.then)} for twice as much${brings}.`;
}

function tooFewText(row) {
  if (!row.looks_per_s) return "Nothing was asked for lately.";
  return `Too little was followed yet to tell. Counted were ${share(row.counted)}.`;
}
