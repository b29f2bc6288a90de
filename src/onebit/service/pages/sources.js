// Where the x of a round comes from: the task's own items, a text that is typed, or a drawing.
import { call, taskPath } from "./api.js";
import { byId, make } from "./dom.js";
import { Pad } from "./draw.js";
import { paint } from "./show.js";

const shuffled = (of) => {
  const numbers = Array.from({ length: of }, (_, place) => place);
  for (let place = of - 1; place > 0; place--) {
    const other = Math.floor(Math.random() * (place + 1));
    [numbers[place], numbers[other]] = [numbers[other], numbers[place]];
  }
  return numbers;
};

// All items in an order that chance makes, then again in another.
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

  get(number) {
    return call("GET", taskPath(this.task.name, `/item?number=${number}`));
  }

  async next() {
    if (this.numbers.length === 0) this.numbers = shuffled((await this.get(0)).of);
    const item = await this.get(this.numbers.at(-1));
    this.numbers.pop();
    return item;
  }

  show({ x }) {
    if (this.task.display) paint(this.element, x, this.task.display);
    else this.element.textContent = x;
  }
}

// What a person puts in, and a button that hands it over.
class Typed {
  hasTruth = false;

  constructor(title, tools) {
    byId("item-title").textContent = title;
    this.guess = make("button", { type: "button", className: "primary", textContent: "Guess" });
    this.guess.addEventListener("click", () => this.hand());
    byId("input-tools").append(this.guess, ...tools);
  }

  next() {
    this.begin();
    this.guess.ariaDisabled = "false";
    return new Promise((resolve) => (this.resolve = resolve));
  }

  hand() {
    const x = this.read();
    if (x === null || !this.resolve) return;
    this.resolve({ x });
    this.resolve = null;
    this.guess.ariaDisabled = "true";
    this.guess.focus(); // from here the keys answer
  }

  show() {}
}

class Texts extends Typed {
  constructor() {
    super("Type or paste text", []);
    this.area = make("textarea", { rows: 7, dir: "auto", "aria-labelledby": "item-title" });
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.hand();
    });
    byId("item").append(this.area);
  }

  begin() {
    this.area.value = "";
    this.area.focus();
  }

  read() {
    return this.area.value.trim() ? this.area.value : null;
  }
}

class Drawings extends Typed {
  constructor(task, said) {
    const clear = make("button", { type: "button", textContent: "Clear" });
    super("Draw something", [clear]);
    const canvas = make("canvas");
    this.pad = new Pad(canvas, task.display, said);
    clear.addEventListener("click", () => this.pad.clear());
    byId("item").append(canvas);
  }

  begin() {
    this.pad.clear();
  }

  read() {
    return this.pad.empty ? null : this.pad.x();
  }
}

// null: such an x cannot be shown to a person.
export const sourceOf = (task, said) => {
  const isText = task.features.kind === "text";
  if (!isText && !task.display) return null;
  byId("stage").classList.toggle("texts", isText);
  if (task.items) return new Items(task);
  return isText ? new Texts() : new Drawings(task, said);
};
