// Charts: lines over the last minutes. Gaps are where nothing is known.
const CHART_S = 300;
const CHART_WIDTH = 400;
const CHART_HEIGHT = 110;
const AXIS_WIDTH = 62;

class Chart {
  // lines: [{ name, of(point), color }]; format gives the axis its words; top is its least height.
  constructor(figure, title, lines, format, top) {
    Object.assign(this, { lines, format, top, title });
    this.legends = lines.map((line) => element("span"));
    const legend = lines.map((line, at) =>
      element("span", { class: "legend" }, element("i", { class: line.color }), this.legends[at]),
    );
    this.svg = drawn("svg", { class: "chart", role: "img" });
    this.rules = [0, 0.5, 1].map(() => drawn("line", { class: "rule" }));
    this.labels = [0, 0.5, 1].map(() => drawn("text", { "text-anchor": "end" }));
    this.ends = [drawn("text"), drawn("text", { "text-anchor": "end" })];
    this.paths = lines.map((line) => drawn("path", { class: line.color }));
    this.svg.append(...this.rules, ...this.labels, ...this.ends, ...this.paths);
    figure.replaceChildren(
      element("figcaption", {}, element("b", {}, title), ...legend),
      this.svg,
    );
  }

  // points: [{ atS, ... }], the oldest first.
  draw(points, nowS) {
    const width = Math.max(120, this.svg.clientWidth || CHART_WIDTH);
    mark(this.svg, "viewBox", `0 0 ${width} ${CHART_HEIGHT + 22}`);
    const values = points.flatMap((point) => this.lines.map((line) => line.of(point) ?? 0));
    const top = niceTop(Math.max(this.top, ...values));
    this.frame(width, top);
    const x = (atS) => AXIS_WIDTH + (width - AXIS_WIDTH - 2) * (1 - (nowS - atS) / CHART_S);
    const y = (value) => 6 + (CHART_HEIGHT - 10) * (1 - value / top);
    this.lines.forEach((line, at) => {
      mark(this.paths[at], "d", pathOf(points, line.of, x, y));
      const last = points.length ? line.of(points.at(-1)) : null;
      say(this.legends[at], `${line.name} ${this.format(last)}`);
    });
    const now = this.legends.map((legend) => legend.textContent).join(", ");
    mark(this.svg, "aria-label", `${this.title}, now: ${now}`);
  }

  frame(width, top) {
    this.rules.forEach((rule, at) => {
      const y = 6 + (CHART_HEIGHT - 10) * (1 - at / 2);
      fit(rule, { x1: AXIS_WIDTH, x2: width, y1: y, y2: y });
      fit(this.labels[at], { x: AXIS_WIDTH - 8, y: y + 4 });
      say(this.labels[at], this.format((top * at) / 2).replace(/\.0+(?=\D|$)/, ""));
    });
    fit(this.ends[0], { x: AXIS_WIDTH, y: CHART_HEIGHT + 16 });
    fit(this.ends[1], { x: width - 2, y: CHART_HEIGHT + 16 });
    say(this.ends[0], "5 min ago");
    say(this.ends[1], "now");
  }
}

// 1, 2 or 5 times a power of ten: the axis stays where it is while values change a little.
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value * 0.999);
}

function pathOf(points, of, x, y) {
  let path = "";
  let isDown = false;
  for (const point of points) {
    const value = of(point);
    if (value == null) {
      isDown = false;
      continue;
    }
    path += `${isDown ? "L" : "M"}${x(point.atS).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  }
  return path;
}
