// A drawing area for mouse, finger or keys. The drawing is large; the learner gets its few pixels.
import { paintImage } from "./show.js";

const LONGER_SIDE = 256; // about as many pixels while drawing

export class Pad {
  // `announce(text)` says what a key did, for screen readers.
  constructor(canvas, display, announce) {
    Object.assign(this, { canvas, display, announce, column: 0, row: 0, usesKeys: false });
    const { width, height } = display;
    this.scale = Math.max(Math.floor(LONGER_SIDE / Math.max(width, height)), 1);
    this.paper = new OffscreenCanvas(width * this.scale, height * this.scale).getContext("2d", { willReadFrequently: true });
    Object.assign(canvas, { tabIndex: 0, id: "pad" });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `Drawing area, ${width} by ${height} pixels. The arrow keys move; the space bar turns a pixel dark or light.`);
    canvas.addEventListener("pointerdown", (event) => this.startStroke(event));
    canvas.addEventListener("pointermove", (event) => this.continueStroke(event));
    canvas.addEventListener("keydown", (event) => this.handleKey(event));
    canvas.addEventListener("blur", () => this.show((this.usesKeys = false)));
    this.clear();
  }

  clear() {
    this.paper.clearRect(0, 0, this.paper.canvas.width, this.paper.canvas.height);
    this.show();
  }

  // Return the numbers for the learner: how much of each pixel is covered, scaled from `lowest` to `highest`.
  readPixels() {
    const { width, height, lowest, highest } = this.display;
    const { data } = this.paper.getImageData(0, 0, width * this.scale, height * this.scale);
    const x = new Array(width * height).fill(0);
    for (let place = 0; place < data.length / 4; place++) {
      const row = Math.floor(place / (width * this.scale * this.scale));
      const column = Math.floor((place % (width * this.scale)) / this.scale);
      x[row * width + column] += data[4 * place + 3] / 255;
    }
    const area = this.scale * this.scale;
    return x.map((ink) => Number((lowest + (ink / area) * (highest - lowest)).toPrecision(4)));
  }

  get isEmpty() {
    return this.readPixels().every((value) => value === this.display.lowest);
  }

  show() {
    paintImage(this.canvas, this.readPixels(), this.display);
    if (!this.usesKeys) return;
    const context = this.canvas.getContext("2d");
    context.fillStyle = "rgb(213 94 0 / 0.6)";
    context.fillRect(this.column, this.row, 1, 1);
  }

  locate(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const { canvas } = this.paper;
    return [((event.clientX - left) / width) * canvas.width, ((event.clientY - top) / height) * canvas.height];
  }

  startStroke(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.locate(event);
    this.usesKeys = false;
    this.continueStroke(event);
  }

  continueStroke(event) {
    if (!this.canvas.hasPointerCapture(event.pointerId)) return;
    const end = this.locate(event);
    Object.assign(this.paper, { lineWidth: 1.1 * this.scale, lineCap: "round", lineJoin: "round", strokeStyle: "#000" });
    this.paper.beginPath();
    this.paper.moveTo(...this.last);
    this.paper.lineTo(...end);
    this.paper.stroke();
    this.last = end;
    this.show();
  }

  handleKey(event) {
    const { width, height, lowest, highest } = this.display;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], " ": [0, 0] }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere on the page, arrows give feedback
    this.usesKeys = true;
    this.column = Math.min(Math.max(this.column + step[0], 0), width - 1);
    this.row = Math.min(Math.max(this.row + step[1], 0), height - 1);
    const isDark = () => this.readPixels()[this.row * width + this.column] > (lowest + highest) / 2;
    if (event.key === " ") {
      const pixel = [this.column * this.scale, this.row * this.scale, this.scale, this.scale];
      if (isDark()) this.paper.clearRect(...pixel);
      else this.paper.fillRect(...pixel);
    }
    this.show();
    this.announce(`row ${this.row + 1}, column ${this.column + 1}, ${isDark() ? "dark" : "light"}`);
  }
}
