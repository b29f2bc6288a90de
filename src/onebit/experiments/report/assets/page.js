"use strict";
// What a reader can do with a page: copy the command, sort tables, and zoom, hide and compare curves.
(() => {
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const pressed = (button, value) => button.setAttribute("aria-pressed", String(value));
  const grouped = (value) =>
    Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- the command -------------------------------------------------------------------------------------------------
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // some browsers refuse a page from a file: leave it selected
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }

  // ---- tables ------------------------------------------------------------------------------------------------------
  const keyOf = (cell) => {
    if (!("value" in cell.dataset)) return cell.textContent;
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number"
      ? one - other
      : String(one).localeCompare(String(other), "en", { numeric: true });

  const sort = (table, column, direction) => {
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
      const keys = new Map(rows.map((row) => [row, keyOf(row.cells[column])]));
      rows.sort((one, other) => {
        const [a, b] = [keys.get(one), keys.get(other)];
        if (a === null || b === null) return (a === null) - (b === null); // what is unknown comes last either way
        return direction * compare(a, b);
      });
      body.append(...rows);
    }
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sort(table, column, ascending ? 1 : -1);
      });
    });
  }

  // ---- curves ------------------------------------------------------------------------------------------------------
  const finalOf = (values) => {
    const last = values ? values.findLast((value) => value !== null) : undefined;
    return last === undefined ? Infinity : last;
  };

  // Ticks at every digit of every power of ten; those at the powers are labelled, or more where there are few powers.
  const digitOf = (value) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const logarithmicTicks = {
    splits: (_, __, min, max) => {
      const ticks = [];
      for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
        for (let digit = 1; digit < 10; digit++) ticks.push(Number(`${digit}e${power}`));
      }
      return ticks.filter((value) => value >= min && value <= max);
    },
    filter: (_, splits) => {
      const powers = splits.filter((value) => digitOf(value) === 1).length;
      const digits = powers > 2 ? [1] : powers > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
      return splits.map((value) => (digits.includes(digitOf(value)) ? value : null));
    },
  };

  class Chart {
    constructor(root) {
      this.root = root;
      this.plot = root.querySelector(".plot");
      const data = JSON.parse(root.querySelector("script").textContent);
      this.data = data;
      this.series = data.series;
      this.measure = data.measures.length ? data.measures[0].name : "";
      this.logarithmic = data.logarithmic && this.canBeLogarithmic();
      this.first = this.series.map((one) => one.shown);
      this.shown = [...this.first];
      const many = this.shown.filter(Boolean).length > 5;
      this.intervals = this.hasIntervals() && !many; // many bands on top of each other show nothing
      this.near = null;
      this.makeTools();
      this.makeLegend();
      this.tip = make("div", { className: "tip", hidden: true }, make("div"), make("div"));
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "group");
      this.plot.setAttribute(
        "aria-label",
        `${root.dataset.label}. Left and right move along the curves, plus and minus zoom, 0 shows all.`,
      );
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.build();
      new ResizeObserver(() => this.resize()).observe(this.plot);
    }

    canBeLogarithmic() {
      return this.data.x.filter((value) => value > 0).length > 1;
    }

    hasIntervals() {
      return this.series.some((one) => Object.values(one.measures).some((curve) => curve.low && curve.high));
    }

    curve(place) {
      return this.series[place].measures[this.measure];
    }

    // -- what stands above the chart
    makeTools() {
      const tools = this.root.querySelector(".tools");
      const button = (text, title, test, action) => {
        const one = make("button", { type: "button", textContent: text, title });
        one.dataset.test = test;
        one.addEventListener("click", action);
        return one;
      };
      const toggle = (text, title, name) => {
        const one = button(text, title, name, () => {
          this[name] = !this[name];
          pressed(one, this[name]);
          name === "logarithmic" ? this.build() : this.plotted.redraw(true, true);
        });
        pressed(one, this[name]);
        return one;
      };
      if (this.data.measures.length > 1) {
        const buttons = this.data.measures.map(({ name, help }) => {
          const one = button(name, help, `measure-${name}`, () => {
            this.measure = name;
            buttons.forEach((other) => pressed(other, other === one));
            this.orderLegend();
            this.build();
          });
          pressed(one, name === this.measure);
          return one;
        });
        tools.append(make("span", { className: "choice", role: "group", ariaLabel: "measure" }, ...buttons));
      }
      if (this.canBeLogarithmic()) {
        const name = `logarithmic ${this.data.xName}`;
        tools.append(toggle(name, "give every power of ten the same width", "logarithmic"));
      }
      if (this.hasIntervals()) tools.append(toggle("intervals", "show 95 % intervals as bands", "intervals"));
      this.reset = button("reset zoom", "show all (or double click in the chart)", "reset", () => this.zoomOut());
      this.reset.disabled = true;
      tools.append(this.reset, make("span", { className: "hint", textContent: "drag in the chart to zoom" }));
    }

    // -- the legend: what is shown, and the values below the pointer
    makeLegend() {
      const legend = this.root.querySelector(".legend");
      this.where = make("span");
      const link = (text, test, wanted) => {
        const one = make("button", { type: "button", textContent: text });
        one.dataset.test = test;
        one.addEventListener("click", () => this.show(wanted()));
        return one;
      };
      const links = make("span");
      if (this.series.length > 1) links.append(link("all", "all", () => this.series.map(() => true)));
      if (this.first.includes(false)) {
        links.prepend(link(`best ${this.first.filter(Boolean).length}`, "best", () => [...this.first]));
      }
      legend.append(make("div", { className: "where" }, this.where, links));
      this.lists = new Map();
      const groups = [...new Set(this.series.map((one) => one.group))];
      for (const group of groups) {
        if (group) legend.append(make("div", { className: "name-of-group", textContent: group }));
        const list = make("ul", { ariaLabel: group || "curves" });
        this.lists.set(group, list);
        legend.append(list);
      }
      this.entries = this.series.map((one, place) => this.makeEntry(one, place));
      this.orderLegend();
    }

    makeEntry(one, place) {
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      mark.setAttribute("viewBox", "0 0 30 10");
      mark.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", "M0 5H30");
      line.setAttribute("stroke-dasharray", one.dash.join(" "));
      line.setAttribute("class", `curve-${one.colour}`);
      mark.append(line);
      const value = make("span", { className: "value" });
      const title = `${one.name}\nclick to hide or show, with Shift to see only this one`;
      const name = make("span", { className: "name", textContent: one.name });
      const button = make("button", { type: "button", className: "entry", title }, mark, name, value);
      button.dataset.test = "entry";
      button.addEventListener("click", (event) => {
        if (event.shiftKey || event.altKey) this.only(place);
        else this.show(this.shown.map((is, other) => (other === place ? !is : is)));
      });
      const only = make("button", { type: "button", className: "only", textContent: "only" });
      only.setAttribute("aria-label", `only ${one.name}`);
      only.addEventListener("click", () => this.only(place));
      const item = make("li", {}, button, only);
      const highlight = (is) => this.plotted.setSeries(is && this.shown[place] ? place + 1 : null, { focus: true });
      item.addEventListener("mouseenter", () => highlight(true));
      item.addEventListener("mouseleave", () => highlight(false));
      pressed(button, this.shown[place]);
      return { button, value, item };
    }

    orderLegend() {
      const order = this.series.map((_, place) => place);
      const final = order.map((place) => finalOf(this.curve(place)?.mean));
      order.sort((one, other) => (final[one] === final[other] ? one - other : final[one] - final[other]));
      for (const place of order) this.lists.get(this.series[place].group).append(this.entries[place].item);
    }

    only(place) {
      const alone = this.shown.every((is, other) => is === (other === place));
      this.show(alone ? [...this.first] : this.shown.map((_, other) => other === place));
    }

    show(wanted) {
      this.plotted.batch(() => {
        wanted.forEach((is, place) => {
          if (is !== this.shown[place]) this.plotted.setSeries(place + 1, { show: is });
          pressed(this.entries[place].button, is);
        });
      });
      this.shown = wanted;
      this.plotted.redraw(true, true);
    }

    // -- the chart
    build() {
      const old = this.plotted;
      const zoomed = old && !this.reset.disabled ? [old.scales.x.min, old.scales.x.max] : null;
      if (old) old.destroy();
      this.kept = this.data.x.map((_, at) => at).filter((at) => !this.logarithmic || this.data.x[at] > 0);
      const x = this.kept.map((at) => this.data.x[at]);
      const means = this.series.map((_, place) => {
        const curve = this.curve(place);
        return this.kept.map((at) => (curve ? curve.mean[at] : null));
      });
      const font = "12px system-ui, sans-serif";
      const axis = {
        font, labelFont: font, labelSize: 22, labelGap: 2,
        stroke: () => colourOf("--muted"),
        grid: { stroke: () => colourOf("--line"), width: 1 },
        ticks: { stroke: () => colourOf("--line"), width: 1, size: 5 },
      };
      const values = (_, splits) => splits.map((value) => (value === null ? "" : grouped(value)));
      const { filter } = logarithmicTicks;
      const along = this.logarithmic ? { ...logarithmicTicks, grid: { ...axis.grid, filter } } : {};
      const sparse = x.length <= 30;
      this.plotted = new uPlot(
        {
          ...this.size(),
          padding: [8, 28, 0, 0],
          legend: { show: false },
          focus: { alpha: 0.25 },
          cursor: { y: false, drag: { x: true, y: false }, focus: { prox: 30 }, points: { size: 8 } },
          scales: {
            x: { time: false, distr: this.logarithmic ? 3 : 1, log: 10, range: (_, min, max) => [min, max] },
            y: { range: (plotted) => this.range(plotted) },
          },
          axes: [
            { ...axis, label: this.data.xName, values, space: 62, size: 30, ...along },
            { ...axis, label: this.data.yName, values, size: 46 },
          ],
          series: [
            {},
            ...this.series.map((one, place) => ({
              label: one.name,
              show: this.shown[place],
              stroke: () => colourOf(`--curve-${one.colour}`),
              width: 1.8,
              dash: one.dash,
              points: { show: sparse, size: 6, dash: [], fill: () => colourOf(`--curve-${one.colour}`) },
            })),
          ],
          hooks: {
            drawAxes: [(plotted) => this.intervals && this.drawIntervals(plotted)],
            setCursor: [(plotted) => this.hover(plotted)],
            setSeries: [
              (plotted, place, options) => {
                if ("focus" in options) this.near = place === null ? null : place - 1;
                this.hover(plotted);
              },
            ],
            setScale: [
              (plotted, scale) => {
                if (scale === "x") this.reset.disabled = !this.isZoomed(plotted);
              },
            ],
          },
        },
        [x, ...means],
        this.plot,
      );
      this.plot.uplot = this.plotted;
      this.plotted.over.append(this.tip);
      if (zoomed) this.zoom(Math.max(zoomed[0], x[0]), zoomed[1]);
      this.hover(this.plotted);
    }

    size() {
      const width = this.paper ? Math.min(640, this.plot.clientWidth) : this.plot.clientWidth;
      return { width: Math.max(width, 240), height: Math.round(Math.min(440, Math.max(300, width * 0.62))) };
    }

    resize() {
      const { width, height } = this.size();
      if (width !== this.plotted.width || height !== this.plotted.height) this.plotted.setSize({ width, height });
    }

    // The ends of y: what is shown between the ends of x, bands included, from zero where that is near.
    range(plotted) {
      let [low, high] = [Infinity, -Infinity];
      const { min, max } = plotted.series[0]; // the ends to come; those of the scale are still the old ones here
      for (let place = 0; place < this.series.length; place++) {
        const curve = plotted.series[place + 1].show ? this.curve(place) : null;
        if (!curve) continue;
        const lines = this.intervals && curve.low && curve.high ? [curve.mean, curve.low, curve.high] : [curve.mean];
        for (const at of this.kept) {
          if (this.data.x[at] < min || this.data.x[at] > max) continue;
          for (const line of lines) {
            if (line[at] === null) continue;
            low = Math.min(low, line[at]);
            high = Math.max(high, line[at]);
          }
        }
      }
      if (low > high) return [0, 100];
      const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
      return [low >= 0 && low - room < (high - low) * 0.15 ? 0 : low - room, high + room];
    }

    drawIntervals(plotted) {
      const context = plotted.ctx;
      const { left, top, width, height } = plotted.bbox;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      this.series.forEach((one, place) => {
        const curve = this.shown[place] ? this.curve(place) : null;
        if (!curve?.low || !curve.high) return;
        const at = this.kept.filter((index) => curve.low[index] !== null && curve.high[index] !== null);
        const line = (index, values) =>
          context.lineTo(plotted.valToPos(this.data.x[index], "x", true), plotted.valToPos(values[index], "y", true));
        context.beginPath();
        at.forEach((index) => line(index, curve.high));
        at.reverse().forEach((index) => line(index, curve.low));
        context.globalAlpha = this.near === null || this.near === place ? 0.16 : 0.05;
        context.fillStyle = colourOf(`--curve-${one.colour}`);
        context.fill();
      });
      context.restore();
    }

    hover(plotted) {
      if (plotted !== this.plotted) return; // still being built
      const at = plotted.cursor.idx ?? null;
      const text = (value) => (value === null || value === undefined ? "" : value.toFixed(this.data.decimals));
      const index = at === null ? this.kept.at(-1) : this.kept[at];
      this.where.textContent = index === undefined ? "" : `${this.data.xName} ${grouped(this.data.x[index])}`;
      this.entries.forEach(({ value }, place) => {
        const mean = this.curve(place)?.mean;
        value.textContent = at === null ? text(finite(finalOf(mean))) : text(mean?.[index]);
      });
      const curve = this.near === null || at === null ? null : this.curve(this.near);
      this.tip.hidden = !curve || curve.mean[index] === null || !this.shown[this.near];
      if (this.tip.hidden) return;
      const has = curve.low && curve.high && curve.low[index] !== null;
      const ends = has ? ` [${text(curve.low[index])}, ${text(curve.high[index])}]` : "";
      this.tip.firstChild.textContent = this.series[this.near].name;
      this.tip.lastChild.textContent = `${text(curve.mean[index])}${ends}`;
      const left = plotted.valToPos(this.data.x[index], "x");
      const onLeft = left > plotted.over.clientWidth / 2;
      this.tip.style.left = onLeft ? "" : `${left + 12}px`;
      this.tip.style.right = onLeft ? `${plotted.over.clientWidth - left + 12}px` : "";
      this.tip.style.top = `${Math.max(plotted.valToPos(curve.mean[index], "y") - 36, 0)}px`;
    }

    // -- zoom
    isZoomed(plotted) {
      const x = plotted.data[0];
      return x.length > 1 && (plotted.scales.x.min > x[0] || plotted.scales.x.max < x.at(-1));
    }

    zoom(min, max) {
      if (max > min) this.plotted.setScale("x", { min, max });
    }

    zoomOut() {
      const x = this.plotted.data[0];
      this.zoom(x[0], x.at(-1));
    }

    key(event) {
      if (event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      const plotted = this.plotted;
      const x = plotted.data[0];
      const at = plotted.cursor.idx ?? x.length - 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, "-": 1.5, "+": 1 / 1.5, "=": 1 / 1.5, 0: 0, Escape: 0 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      if (step === 0) this.zoomOut();
      else if (event.key.startsWith("Arrow")) {
        const next = Math.min(Math.max(at + step, 0), x.length - 1);
        plotted.setCursor({ left: plotted.valToPos(x[next], "x"), top: plotted.over.clientHeight / 2 });
      } else {
        const width = plotted.over.clientWidth;
        const middle = Math.min(Math.max(plotted.valToPos(x[at], "x"), 0), width);
        const ends = [middle - middle * step, middle + (width - middle) * step].map((to) => plotted.posToVal(to, "x"));
        this.zoom(Math.max(ends[0], x[0]), Math.min(ends[1], x.at(-1)));
      }
    }
  }
  const finite = (value) => (Number.isFinite(value) ? value : null);

  // Charts are made when they come near the window, so that a long page opens at once; all of them before printing.
  const charts = new Map();
  const chart = (root) => charts.get(root) ?? charts.set(root, new Chart(root)).get(root);
  const roots = document.querySelectorAll(".curves");
  const watcher = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) {
        if (isIntersecting) {
          watcher.unobserve(target);
          chart(target);
        }
      }
    },
    { rootMargin: "600px" },
  );
  roots.forEach((root) => watcher.observe(root));
  const repaint = () => charts.forEach((one) => one.plotted.redraw(false, false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  const paper = (is) => {
    document.documentElement.toggleAttribute("data-paper", is);
    if (is) roots.forEach(chart);
    charts.forEach((one) => {
      one.paper = is;
      one.plotted.setSeries(null, { focus: true });
      one.resize();
      one.plotted.redraw(false, false);
    });
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
})();
