"use strict";
// What a reader can do with a page: copy the command, sort tables, and zoom, hide and compare curves.
(() => {
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const setPressed = (button, value) => button.setAttribute("aria-pressed", String(value));
  const formatNumber = (value) =>
    Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  const readColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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
  const readSortKey = (cell) => {
    if (!("value" in cell.dataset)) return cell.textContent;
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compareKeys = (a, b) =>
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });

  const sortTable = (table, column, direction) => {
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
      const keys = new Map(rows.map((row) => [row, readSortKey(row.cells[column])]));
      rows.sort((row, other) => {
        const [a, b] = [keys.get(row), keys.get(other)];
        if (a === null || b === null) return (a === null) - (b === null); // what is unknown comes last either way
        return direction * compareKeys(a, b);
      });
      body.append(...rows);
    }
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sortTable(table, column, ascending ? 1 : -1);
      });
    });
  }

  // ---- curves ------------------------------------------------------------------------------------------------------
  const findLastValue = (values) => {
    const last = values ? values.findLast((value) => value !== null) : undefined;
    return last === undefined ? Infinity : last;
  };

  // Ticks at every digit of every power of ten; those at the powers are labelled, or more where there are few powers.
  const findLeadingDigit = (value) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const logarithmicTicks = {
    splits: (_, __, min, max) => {
      const ticks = [];
      for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
        for (let digit = 1; digit < 10; digit++) ticks.push(Number(`${digit}e${power}`));
      }
      return ticks.filter((value) => value >= min && value <= max);
    },
    filter: (_, splits) => {
      const powers = splits.filter((value) => findLeadingDigit(value) === 1).length;
      const digits = powers > 2 ? [1] : powers > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
      return splits.map((value) => (digits.includes(findLeadingDigit(value)) ? value : null));
    },
  };

  const MOST_BANDS = 5; // more bands on top of each other cannot be told apart

  class Chart {
    constructor(root) {
      this.root = root;
      this.plot = root.querySelector(".plot");
      const data = JSON.parse(root.querySelector("script").textContent);
      this.data = data;
      this.series = data.series;
      this.measure = data.measures.length ? data.measures[0].name : "";
      this.logarithmic = data.logarithmic && this.canBeLogarithmic();
      this.initiallyVisible = this.series.map(({ shown }) => shown);
      this.visible = [...this.initiallyVisible];
      this.intervals = this.hasIntervals() && this.visible.filter(Boolean).length <= MOST_BANDS;
      this.focused = null;
      this.makeTools();
      this.makeLegend();
      this.tip = make("div", { className: "tip", hidden: true }, make("div"), make("div"));
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "group");
      this.plot.setAttribute(
        "aria-label",
        `${root.dataset.label}. Left and right arrows move along the curves, plus and minus zoom, 0 resets the zoom.`,
      );
      this.plot.addEventListener("keydown", (event) => this.handleKey(event));
      this.build();
      new ResizeObserver(() => this.resize()).observe(this.plot);
    }

    canBeLogarithmic() {
      return this.data.x.filter((value) => value > 0).length > 1;
    }

    hasIntervals() {
      return this.series.some(({ measures }) => Object.values(measures).some((curve) => curve.low && curve.high));
    }

    findCurve(place) {
      return this.series[place].measures[this.measure];
    }

    // -- what stands above the chart
    makeTools() {
      const tools = this.root.querySelector(".tools");
      const makeButton = (text, title, test, action) => {
        const button = make("button", { type: "button", textContent: text, title });
        button.dataset.test = test;
        button.addEventListener("click", action);
        return button;
      };
      const makeToggle = (text, title, name) => {
        const button = makeButton(text, title, name, () => {
          this[name] = !this[name];
          setPressed(button, this[name]);
          name === "logarithmic" ? this.build() : this.uplot.redraw(true, true);
        });
        setPressed(button, this[name]);
        return button;
      };
      if (this.data.measures.length > 1) {
        const buttons = this.data.measures.map(({ name, help }) => {
          const button = makeButton(name, help, `measure-${name}`, () => {
            this.measure = name;
            buttons.forEach((other) => setPressed(other, other === button));
            this.orderLegend();
            this.build();
          });
          setPressed(button, name === this.measure);
          return button;
        });
        tools.append(make("span", { className: "choice", role: "group", ariaLabel: "measure" }, ...buttons));
      }
      if (this.canBeLogarithmic()) {
        tools.append(makeToggle("logarithmic x axis", "use a logarithmic x axis", "logarithmic"));
      }
      if (this.hasIntervals()) tools.append(makeToggle("95 % intervals", "show 95 % intervals as bands", "intervals"));
      const help = "zoom out (or double-click the chart)";
      this.reset = makeButton("reset zoom", help, "reset", () => this.zoomOut());
      this.reset.disabled = true;
      tools.append(this.reset, make("span", { className: "hint", textContent: "drag across the chart to zoom" }));
    }

    // -- the legend: what is shown, and the values below the pointer
    makeLegend() {
      const legend = this.root.querySelector(".legend");
      this.position = make("span");
      const makeLink = (text, test, chooseVisible) => {
        const button = make("button", { type: "button", textContent: text });
        button.dataset.test = test;
        button.addEventListener("click", () => this.setVisible(chooseVisible()));
        return button;
      };
      const links = make("span");
      if (this.series.length > 1) links.append(makeLink("show all", "all", () => this.series.map(() => true)));
      if (this.initiallyVisible.includes(false)) {
        const best = this.initiallyVisible.filter(Boolean).length;
        links.prepend(makeLink(`show best ${best}`, "best", () => [...this.initiallyVisible]));
      }
      legend.append(make("div", { className: "where" }, this.position, links));
      this.lists = new Map();
      const groups = [...new Set(this.series.map(({ group }) => group))];
      for (const group of groups) {
        if (group) legend.append(make("div", { className: "name-of-group", textContent: group }));
        const list = make("ul", { ariaLabel: group || "curves" });
        this.lists.set(group, list);
        legend.append(list);
      }
      this.entries = this.series.map((series, place) => this.makeEntry(series, place));
      this.orderLegend();
    }

    makeEntry(series, place) {
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      mark.setAttribute("viewBox", "0 0 30 10");
      mark.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", "M0 5H30");
      line.setAttribute("stroke-dasharray", series.dash.join(" "));
      line.setAttribute("class", `curve-${series.colour}`);
      mark.append(line);
      const value = make("span", { className: "value" });
      const title = `${series.name}\nclick to hide or show, Shift+click to show only this curve`;
      const name = make("span", { className: "name", textContent: series.name });
      const button = make("button", { type: "button", className: "entry", title }, mark, name, value);
      button.dataset.test = "entry";
      button.addEventListener("click", (event) => {
        if (event.shiftKey || event.altKey) this.toggleAlone(place);
        else this.setVisible(this.visible.map((isVisible, other) => (other === place ? !isVisible : isVisible)));
      });
      const only = make("button", { type: "button", className: "only", textContent: "only" });
      only.setAttribute("aria-label", `show only ${series.name}`);
      only.addEventListener("click", () => this.toggleAlone(place));
      const item = make("li", {}, button, only);
      const highlight = (isOver) => {
        this.uplot.setSeries(isOver && this.visible[place] ? place + 1 : null, { focus: true });
      };
      item.addEventListener("mouseenter", () => highlight(true));
      item.addEventListener("mouseleave", () => highlight(false));
      setPressed(button, this.visible[place]);
      return { button, value, item };
    }

    orderLegend() {
      const order = this.series.map((_, place) => place);
      const final = order.map((place) => findLastValue(this.findCurve(place)?.mean));
      order.sort((a, b) => (final[a] === final[b] ? a - b : final[a] - final[b]));
      for (const place of order) this.lists.get(this.series[place].group).append(this.entries[place].item);
    }

    // Show only one curve; if it is the only one already, show those of the beginning.
    toggleAlone(place) {
      const isAlone = this.visible.every((isVisible, other) => isVisible === (other === place));
      this.setVisible(isAlone ? [...this.initiallyVisible] : this.visible.map((_, other) => other === place));
    }

    setVisible(visible) {
      this.uplot.batch(() => {
        visible.forEach((isVisible, place) => {
          if (isVisible !== this.visible[place]) this.uplot.setSeries(place + 1, { show: isVisible });
          setPressed(this.entries[place].button, isVisible);
        });
      });
      this.visible = visible;
      this.uplot.redraw(true, true);
    }

    // -- the chart
    build() {
      const old = this.uplot;
      const zoomed = old && !this.reset.disabled ? [old.scales.x.min, old.scales.x.max] : null;
      if (old) old.destroy();
      const { x: all } = this.data;
      this.indices = [...all.keys()].filter((index) => !this.logarithmic || all[index] > 0);
      const x = this.indices.map((index) => this.data.x[index]);
      const means = this.series.map((_, place) => {
        const curve = this.findCurve(place);
        return this.indices.map((index) => (curve ? curve.mean[index] : null));
      });
      const font = "12px system-ui, sans-serif";
      const axis = {
        font, labelFont: font, labelSize: 22, labelGap: 2,
        stroke: () => readColour("--muted"),
        grid: { stroke: () => readColour("--line"), width: 1 },
        ticks: { stroke: () => readColour("--line"), width: 1, size: 5 },
      };
      const values = (_, splits) => splits.map((value) => (value === null ? "" : formatNumber(value)));
      const { filter } = logarithmicTicks;
      const logarithmicAxis = this.logarithmic ? { ...logarithmicTicks, grid: { ...axis.grid, filter } } : {};
      const isSparse = x.length <= 30;
      this.uplot = new uPlot(
        {
          ...this.computeSize(),
          padding: [8, 28, 0, 0],
          legend: { show: false },
          focus: { alpha: 0.25 },
          cursor: { y: false, drag: { x: true, y: false }, focus: { prox: 30 }, points: { size: 8 } },
          scales: {
            x: { time: false, distr: this.logarithmic ? 3 : 1, log: 10, range: (_, min, max) => [min, max] },
            y: { range: (uplot) => this.computeRange(uplot) },
          },
          axes: [
            { ...axis, label: this.data.xName, values, space: 62, size: 30, ...logarithmicAxis },
            { ...axis, label: this.data.yName, values, size: 46 },
          ],
          series: [
            {},
            ...this.series.map(({ name, colour, dash }, place) => ({
              label: name,
              show: this.visible[place],
              stroke: () => readColour(`--curve-${colour}`),
              width: 1.8,
              dash,
              points: { show: isSparse, size: 6, dash: [], fill: () => readColour(`--curve-${colour}`) },
            })),
          ],
          hooks: {
            drawAxes: [(uplot) => this.intervals && this.drawIntervals(uplot)],
            setCursor: [(uplot) => this.updateLegend(uplot)],
            setSeries: [
              (uplot, place, options) => {
                if ("focus" in options) this.focused = place === null ? null : place - 1;
                this.updateLegend(uplot);
              },
            ],
            setScale: [
              (uplot, scale) => {
                if (scale === "x") this.reset.disabled = !this.isZoomed(uplot);
              },
            ],
          },
        },
        [x, ...means],
        this.plot,
      );
      this.plot.uplot = this.uplot;
      this.uplot.over.append(this.tip);
      if (zoomed) this.zoomTo(Math.max(zoomed[0], x[0]), zoomed[1]);
      this.updateLegend(this.uplot);
    }

    computeSize() {
      const width = this.isOnPaper ? Math.min(640, this.plot.clientWidth) : this.plot.clientWidth;
      return { width: Math.max(width, 240), height: Math.round(Math.min(440, Math.max(300, width * 0.62))) };
    }

    resize() {
      const { width, height } = this.computeSize();
      if (width !== this.uplot.width || height !== this.uplot.height) this.uplot.setSize({ width, height });
    }

    // The ends of y: what is shown between the ends of x, bands included, from zero where that is near.
    computeRange(uplot) {
      let [low, high] = [Infinity, -Infinity];
      const { min, max } = uplot.series[0]; // the ends to come; those of the scale are still the old ones here
      for (let place = 0; place < this.series.length; place++) {
        const curve = uplot.series[place + 1].show ? this.findCurve(place) : null;
        if (!curve) continue;
        const lines = this.intervals && curve.low && curve.high ? [curve.mean, curve.low, curve.high] : [curve.mean];
        for (const index of this.indices) {
          if (this.data.x[index] < min || this.data.x[index] > max) continue;
          for (const line of lines) {
            if (line[index] === null) continue;
            low = Math.min(low, line[index]);
            high = Math.max(high, line[index]);
          }
        }
      }
      if (low > high) return [0, 100];
      const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
      return [low >= 0 && low - room < (high - low) * 0.15 ? 0 : low - room, high + room];
    }

    drawIntervals(uplot) {
      const context = uplot.ctx;
      const { left, top, width, height } = uplot.bbox;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      this.series.forEach(({ colour }, place) => {
        const curve = this.visible[place] ? this.findCurve(place) : null;
        if (!curve?.low || !curve.high) return;
        const indices = this.indices.filter((index) => curve.low[index] !== null && curve.high[index] !== null);
        const addPoint = (index, values) =>
          context.lineTo(uplot.valToPos(this.data.x[index], "x", true), uplot.valToPos(values[index], "y", true));
        context.beginPath();
        indices.forEach((index) => addPoint(index, curve.high));
        indices.reverse().forEach((index) => addPoint(index, curve.low));
        context.globalAlpha = this.focused === null || this.focused === place ? 0.16 : 0.05;
        context.fillStyle = readColour(`--curve-${colour}`);
        context.fill();
      });
      context.restore();
    }

    updateLegend(uplot) {
      if (uplot !== this.uplot) return; // still being built
      const at = uplot.cursor.idx ?? null;
      const format = (value) => (value === null || value === undefined ? "" : value.toFixed(this.data.decimals));
      const index = at === null ? this.indices.at(-1) : this.indices[at];
      this.position.textContent = index === undefined ? "" : `${this.data.xName} ${formatNumber(this.data.x[index])}`;
      this.entries.forEach(({ value }, place) => {
        const mean = this.findCurve(place)?.mean;
        value.textContent = at === null ? format(keepFinite(findLastValue(mean))) : format(mean?.[index]);
      });
      const curve = this.focused === null || at === null ? null : this.findCurve(this.focused);
      this.tip.hidden = !curve || curve.mean[index] === null || !this.visible[this.focused];
      if (this.tip.hidden) return;
      const hasInterval = curve.low && curve.high && curve.low[index] !== null;
      const ends = hasInterval ? ` [${format(curve.low[index])}, ${format(curve.high[index])}]` : "";
      this.tip.firstChild.textContent = this.series[this.focused].name;
      this.tip.lastChild.textContent = `${format(curve.mean[index])}${ends}`;
      const left = uplot.valToPos(this.data.x[index], "x");
      const onLeft = left > uplot.over.clientWidth / 2;
      this.tip.style.left = onLeft ? "" : `${left + 12}px`;
      this.tip.style.right = onLeft ? `${uplot.over.clientWidth - left + 12}px` : "";
      this.tip.style.top = `${Math.max(uplot.valToPos(curve.mean[index], "y") - 36, 0)}px`;
    }

    // -- zoom
    isZoomed(uplot) {
      const x = uplot.data[0];
      return x.length > 1 && (uplot.scales.x.min > x[0] || uplot.scales.x.max < x.at(-1));
    }

    zoomTo(min, max) {
      if (max > min) this.uplot.setScale("x", { min, max });
    }

    zoomOut() {
      const x = this.uplot.data[0];
      this.zoomTo(x[0], x.at(-1));
    }

    handleKey(event) {
      if (event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      const uplot = this.uplot;
      const x = uplot.data[0];
      const at = uplot.cursor.idx ?? x.length - 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, "-": 1.5, "+": 1 / 1.5, "=": 1 / 1.5, 0: 0, Escape: 0 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      if (step === 0) this.zoomOut();
      else if (event.key.startsWith("Arrow")) {
        const next = Math.min(Math.max(at + step, 0), x.length - 1);
        uplot.setCursor({ left: uplot.valToPos(x[next], "x"), top: uplot.over.clientHeight / 2 });
      } else {
        const width = uplot.over.clientWidth;
        const middle = Math.min(Math.max(uplot.valToPos(x[at], "x"), 0), width);
        const ends = [middle - middle * step, middle + (width - middle) * step].map((to) => uplot.posToVal(to, "x"));
        this.zoomTo(Math.max(ends[0], x[0]), Math.min(ends[1], x.at(-1)));
      }
    }
  }
  const keepFinite = (value) => (Number.isFinite(value) ? value : null);

  // Charts are made when they come near the window, so that a long page opens at once; all of them before printing.
  const charts = new Map();
  const getChart = (root) => charts.get(root) ?? charts.set(root, new Chart(root)).get(root);
  const roots = document.querySelectorAll(".curves");
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) {
          watcher.unobserve(target);
          getChart(target);
        }
      }
    },
    { rootMargin: "600px" },
  );
  roots.forEach((root) => watcher.observe(root));
  const repaint = () => charts.forEach((chart) => chart.uplot.redraw(false, false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  const setPaper = (isOnPaper) => {
    document.documentElement.toggleAttribute("data-paper", isOnPaper);
    if (isOnPaper) roots.forEach(getChart);
    charts.forEach((chart) => {
      chart.isOnPaper = isOnPaper;
      chart.uplot.setSeries(null, { focus: true });
      chart.resize();
      chart.uplot.redraw(false, false);
    });
  };
  addEventListener("beforeprint", () => setPaper(true));
  addEventListener("afterprint", () => setPaper(false));
})();
