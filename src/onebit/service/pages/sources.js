// Where the x of a round comes from: the task's own items, a text that is typed, or a drawing.
import { callService, taskPath } from "./api.js";
import { byId, make } from "./dom.js";
import { Pad } from "./draw.js";
import { paintImage } from "./show.js";

const shuffleNumbers = (length) => {
  const numbers = Array.from({ length }, (_, place) => place);
  for (let place = length - 1; place > 0; place--) {
    const other = Math.floor(Math.random() * (place + 1));
    [numbers[place], numbers[other]] = [numbers[other], numbers[place]];
  }
  return numbers;
};

// All items of the task in random order, again and again.
class Items {
  hasTruth = true;

  constructor(task) {
    Object.assign(this, { task, numbers: [] });
    if (task.display) {
      const { width, height } = task.display;
      this.element = make("canvas", { className: "picture", role: "img", "aria-label": `image, ${width} by ${height} pixels` });
    } else {
      this.element = make("p", { className: "text", tabIndex: 0, dir: "auto" });
    }
    byId("item").append(this.element);
  }

  fetchItem(number) {
    return callService("GET", taskPath(this.task.name, `/item?number=${number}`));
  }

  async next() {
    if (this.numbers.length === 0) this.numbers = shuffleNumbers((await this.fetchItem(0)).of);
    const item = await this.fetchItem(this.numbers.at(-1));
    this.numbers.pop();
    return item;
  }

  show({ x }) {
    if (this.task.display) paintImage(this.element, x, this.task.display);
    else this.element.textContent = x;
  }
}

// What a person types or draws, and a button that submits it.
class PersonalInput {
  hasTruth = false;

  constructor(title, tools) {
    byId("item-title").textContent = title;
    this.guess = make("button", { type: "button", className: "primary", textContent: "Guess" });
    this.guess.addEventListener("click", () => this.submit());
    byId("input-tools").append(this.guess, ...tools);
  }

  next() {
    this.clear();
    this.guess.ariaDisabled = "false";
    return new Promise((resolve) => (this.resolve = resolve));
  }

  submit() {
    const x = this.read();
    if (x === null || !this.resolve) return;
    this.resolve({ x });
    this.resolve = null;
    this.guess.ariaDisabled = "true";
    this.guess.focus(); // from here on, keys give feedback
  }

  show() {}
}

class Texts extends PersonalInput {
  constructor() {
    super("Type or paste text", []);
    this.area = make("textarea", { rows: 7, dir: "auto", "aria-labelledby": "item-title" });
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit();
    });
    byId("item").append(this.area);
  }

  clear() {
    this.area.value = "";
    this.area.focus();
  }

  read() {
    return this.area.value.trim() ? this.area.value : null;
  }
}

class Drawings extends PersonalInput {
  constructor(task, announce) {
    const clear = make("button", { type: "button", textContent: "Clear" });
    super("Draw something", [clear]);
    const canvas = make("canvas");
    this.pad = new Pad(canvas, task.display, announce);
    clear.addEventListener("click", () => this.pad.clear());
    byId("item").append(canvas);
  }

  clear() {
    this.pad.clear();
  }

  read() {
    return this.pad.isEmpty ? null : this.pad.readPixels();
  }
}

// Make the source of a task's inputs; null if they cannot be shown to a person.
export const makeSource = (task, announce) => {
  const isText = task.features.kind === "text";
  if (!isText && !task.display) return null;
  byId("stage").classList.toggle("texts", isText);
  if (task.items) return new Items(task);
  return isText ? new Texts() : new Drawings(task, announce);
};
