// A small paper to draw on, with mouse, finger or keys. What is drawn is large; what the learner gets is its few pixels.
import { paint } from "./show.js";

const LARGE = 256; // pixels of the longer side while drawing, about

export class Pad {
  // `said(text)` tells what a key did, for those who cannot see it.
  constructor(canvas, display, said) {
    Object.assign(this, { canvas, display, said, column: 0, row: 0, keys: false });
    const { width, height } = display;
    this.scale = Math.max(Math.floor(LARGE / Math.max(width, height)), 1);
    this.paper = new OffscreenCanvas(width * this.scale, height * this.scale).getContext("2d", { willReadFrequently: true });
    Object.assign(canvas, { tabIndex: 0, id: "pad" });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `Drawing area, ${width} by ${height} pixels. The arrow keys move; the space bar turns a pixel dark or light.`);
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.go(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.show((this.keys = false)));
    this.clear();
  }

  clear() {
    this.paper.clearRect(0, 0, this.paper.canvas.width, this.paper.canvas.height);
    this.show();
  }

  // The numbers a learner gets: how much of each pixel is drawn on, from lowest to highest.
  x() {
    const { width, height, lowest, highest } = this.display;
    const { data } = this.paper.getImageData(0, 0, width * this.scale, height * this.scale);
    const x = new Array(width * height).fill(0);
    for (let place = 0; place < data.length / 4; place++) {
      const row = Math.floor(place / (width * this.scale * this.scale));
      const column = Math.floor((place % (width * this.scale)) / this.scale);
      x[row * width + column] += data[4 * place + 3] / 255;
    }
    const whole = this.scale * this.scale;
    return x.map((ink) => Number((lowest + (ink / whole) * (highest - lowest)).toPrecision(4)));
  }

  get empty() {
    return this.x().every((value) => value === this.display.lowest);
  }

  show() {
    paint(this.canvas, this.x(), this.display);
    if (!this.keys) return;
    const context = this.canvas.getContext("2d");
    context.fillStyle = "rgb(213 94 0 / 0.6)";
    context.fillRect(this.column, this.row, 1, 1);
  }

  at(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const { canvas } = this.paper;
    return [((event.clientX - left) / width) * canvas.width, ((event.clientY - top) / height) * canvas.height];
  }

  begin(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.at(event);
    this.keys = false;
    this.go(event);
  }

  go(event) {
    if (!this.canvas.hasPointerCapture(event.pointerId)) return;
    const to = this.at(event);
    Object.assign(this.paper, { lineWidth: 1.1 * this.scale, lineCap: "round", lineJoin: "round", strokeStyle: "#000" });
    this.paper.beginPath();
    this.paper.moveTo(...this.last);
    this.paper.lineTo(...to);
    this.paper.stroke();
    this.last = to;
    this.show();
  }

  key(event) {
    const { width, height, lowest, highest } = this.display;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], " ": [0, 0] }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // arrows answer right or wrong elsewhere on the page
    this.keys = true;
    this.column = Math.min(Math.max(this.column + step[0], 0), width - 1);
    this.row = Math.min(Math.max(this.row + step[1], 0), height - 1);
    const isDark = () => this.x()[this.row * width + this.column] > (lowest + highest) / 2;
    if (event.key === " ") {
      const area = [this.column * this.scale, this.row * this.scale, this.scale, this.scale];
      if (isDark()) this.paper.clearRect(...area);
      else this.paper.fillRect(...area);
    }
    this.show();
    this.said(`row ${this.row + 1}, column ${this.column + 1}, ${isDark() ? "dark" : "light"}`);
  }
}
