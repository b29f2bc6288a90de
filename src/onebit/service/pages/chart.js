// Lines over x, drawn by uPlot, with a legend that shows the values under the pointer, or else the last ones.
/* global uPlot */
import { make, setText } from "./dom.js";

const probe = make("span", { hidden: true });

// A canvas cannot read light-dark() or var(): let the browser compute the colour of an element.
export const readColour = (name) => {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';
// Steps of the axis of x, which counts feedbacks, rounds or seconds: there is nothing between two of them.
const STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const charts = new Set();
addEventListener("themechange", () => charts.forEach((chart) => chart.plot?.redraw(false, false)));

export class Chart {
  // lines: [{name, colour, dash, width}]; xName, yName: what the axes show; range: y from the highest value to [low, high];
  // empty: the text shown while there are no points.
  constructor(root, { lines, label, xName, yName, xText, yText, range, height = 250, stepped = false, empty = "" }) {
    Object.assign(this, { root, lines, label, xName, yName, xText, yText, range, height, stepped });
    this.box = make("div", { className: "plot", role: "img" });
    this.box.style.height = `${height}px`;
    this.empty = make("p", { className: "note empty", textContent: empty });
    this.names = lines.map(({ name }) => make("span", { textContent: name }));
    this.values = lines.map(() => make("span", { className: "value" }));
    const entries = lines.map(({ colour, dash }, place) => {
      const swatch = make("span", { className: `swatch${dash ? " dashed" : ""}`, "aria-hidden": "true" });
      swatch.style.setProperty("--curve", `var(${colour})`);
      return make("li", {}, swatch, this.names[place], " ", this.values[place]);
    });
    this.where = make("li", { className: "where" });
    root.append(make("ul", { className: "legend" }, ...entries, this.where), this.empty, this.box);
    this.data = [[], ...lines.map(() => [])];
    new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height: this.height })).observe(this.box);
    charts.add(this);
  }

  build() {
    const axis = { stroke: () => readColour("--muted"), font: FONT, labelFont: FONT, labelSize: 18, labelGap: 0, ticks: { show: false } };
    const grid = { stroke: () => readColour("--line"), width: 1 };
    this.plot = new uPlot(
      {
        width: this.box.clientWidth,
        height: this.height,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 7 } },
        padding: [8, 22, 0, 0],
        scales: {
          x: { time: false, range: (_, low, high) => (high > low ? [low, high] : [low - 1, high + 1]) },
          y: { range: (_, __, highest) => this.range(highest ?? 0) },
        },
        series: [
          {},
          ...this.lines.map(({ name, colour, dash, width = 2 }) => ({
            label: name,
            stroke: () => readColour(colour),
            width,
            dash,
            points: { show: (plot) => plot.data[0].length === 1 },
            ...(this.stepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
          })),
        ],
        axes: [
          { ...axis, label: this.xName, grid: { show: false }, size: 28, space: 70, incrs: STEPS, values: (_, ticks) => ticks.map((x) => this.xText(x, true)) },
          { ...axis, label: this.yName, grid, size: 54, space: 34, values: (_, ticks) => ticks.map((y) => this.yText(y, true)) },
        ],
        hooks: { setCursor: [() => this.updateLegend()] },
      },
      this.data,
      this.box,
    );
    this.box.uplot = this.plot;
  }

  setData(data) {
    this.data = data;
    const hasPoints = data[0].length > 0;
    this.empty.hidden = hasPoints;
    this.box.hidden = !hasPoints;
    if (hasPoints && !this.plot) this.build();
    else if (this.plot) this.plot.setData(data);
    this.updateLegend();
  }

  updateLegend() {
    const [x, ...lines] = this.data;
    const at = this.plot?.cursor.idx ?? x.length - 1;
    const texts = lines.map((line) => (line[at] === undefined || line[at] === null ? "–" : this.yText(line[at], false)));
    texts.forEach((text, place) => setText(this.values[place], text));
    setText(this.where, x[at] === undefined ? "" : this.xText(x[at], false));
    const summary = this.names.map((name, place) => `${name.textContent} ${texts[place]}`).join(", ");
    this.box.setAttribute("aria-label", `${this.label}: ${summary}`);
  }
}

// Round up to 1, 2 or 5 times a power of ten, which make readable ends of an axis.
export const roundUp = (value) => {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= value * 0.999999) ?? 10 * power;
};

export const formatAxisPercent = (value, onAxis) => `${onAxis ? Number((100 * value).toPrecision(3)) : (100 * value).toFixed(1)} %`;
