// Play: the page shows an item, the learner guesses, a person says right or wrong, and the curve falls.
import { call, may, showable, taskPath } from "./api.js";
import { Chart, percentAxis } from "./chart.js";
import { byId, count, countOf, make, percent, say, shortened } from "./dom.js";
import { confidenceText, likeliest, showProbabilities } from "./show.js";
import { noTrouble, shell, trouble } from "./shell.js";
import { sourceOf } from "./sources.js";
import { why } from "./why.js";

const name = decodeURIComponent(location.pathname.slice("/play/".length));
const RECENT = 50; // rounds of the recent error
const BARS = 10; // up to so many classes keep their order; of more, the likeliest are shown
const AUTO_ROUNDS = 100;
const AUTO_MS = 50;
const CALM_MS = 500; // how often the picture changes by itself for those who asked for less motion
const DIGITS = {
  name: "digits",
  classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
  features: { kind: "numbers", size: 64 },
  display: { kind: "image", width: 8, height: 8, lowest: 0, highest: 16 },
  items: "digits",
};
const LONG = 12; // letters of a class beyond which it is written smaller
const MOST_KEPT = 100000; // rounds of a curve that survive a reload

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const calm = matchMedia("(prefers-reduced-motion: reduce)");
// crypto.randomUUID is missing where the page is not on a safe origin.
const newId = () => `play-${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// The answers of this game, 1 for wrong, kept by the browser until the tab is closed: a reload goes on with the curve. They are those of
// one task: one that is made anew under the same name has heard nothing of them.
class Answers {
  constructor(task) {
    this.key = `onebit-play-${task.name}-${task.created}`;
  }

  read() {
    try {
      return Array.from(sessionStorage.getItem(this.key) ?? "", Number).filter((one) => one === 0 || one === 1);
    } catch {
      return []; // a browser that keeps nothing
    }
  }

  keep(wrongs) {
    try {
      if (wrongs.length <= MOST_KEPT) sessionStorage.setItem(this.key, wrongs.join(""));
    } catch {
      // then it holds until the reload
    }
  }
}

class Game {
  constructor(task) {
    Object.assign(this, { task, waiting: false, running: false, shownAt: 0 });
    this.source = sourceOf(task, (text) => say(byId("speak"), text));
    this.chart = new Chart(byId("curve"), {
      label: "Error by round",
      xName: "rounds",
      yName: "error",
      lines: [
        { name: "all rounds", colour: "--curve-0", width: 2.5 },
        { name: `last ${RECENT} rounds`, colour: "--curve-1", dash: [6, 3], width: 2 },
      ],
      xText: (x, onAxis) => (onAxis ? count(x) : `round ${count(x)}`),
      yText: percentAxis,
      range: () => [0, 1],
      height: 230,
      empty: "The curve starts with your first feedback.",
    });
    this.answers = new Answers(task);
    this.begin(this.answers.read());
    byId("anew").addEventListener("click", () => {
      this.begin([]);
      this.answers.keep([]);
      say(byId("said"), "");
    });
    byId("right").addEventListener("click", () => this.answer(true));
    byId("wrong").addEventListener("click", () => this.answer(false));
    addEventListener("keydown", (event) => this.key(event));
    byId("itself").hidden = !this.source.hasTruth;
    byId("truth").hidden = !this.source.hasTruth;
    if (may(session, "read", task.name)) byId("why").append(why(task, () => this.decision?.id ?? null));
    byId("auto").addEventListener("click", () => (this.running ? (this.running = false) : this.playItself()));
    this.allow(false);
    byId("game").hidden = false;
  }

  // Begins the curve with the answers that there were.
  begin(wrongs) {
    Object.assign(this, { wrongs: [], over: [], recent: [], rounds: [], wrong: 0, lately: 0 });
    for (const wrong of wrongs) this.count(wrong);
    this.draw();
    if (wrongs.length) say(byId("said"), `Round ${count(wrongs.length)}: error ${percent(this.over.at(-1))}.`);
  }

  count(wrong) {
    this.wrongs.push(wrong);
    this.wrong += wrong;
    this.lately += wrong - (this.wrongs.length > RECENT ? this.wrongs.at(-RECENT - 1) : 0);
    this.rounds.push(this.wrongs.length);
    this.over.push(this.wrong / this.wrongs.length);
    this.recent.push(this.lately / Math.min(this.wrongs.length, RECENT));
  }

  draw() {
    this.chart.set([this.rounds, this.over, this.recent]);
    byId("anew").hidden = this.wrongs.length === 0;
  }

  // Buttons that wait keep the focus, which disabled ones would lose.
  allow(may) {
    this.waiting = may;
    const open = may && !this.running;
    for (const id of ["right", "wrong"]) byId(id).setAttribute("aria-disabled", String(!open));
  }

  key(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") || event.target.closest?.("input, textarea, select")) return;
    const right = { ArrowRight: true, r: true, R: true, ArrowLeft: false, w: false, W: false }[event.key];
    if (right === undefined) return;
    event.preventDefault();
    this.answer(right);
  }

  // Does the step, and offers to do it again where the service does not answer: ids make that safe.
  async steadily(step) {
    for (;;) {
      try {
        const value = await step();
        noTrouble();
        return value;
      } catch (error) {
        this.running = false;
        await new Promise((resolve) => trouble(error, resolve, "Try again"));
      }
    }
  }

  async ask() {
    this.allow(false);
    byId("truth").open = false;
    for (const one of byId("why").children) one.open = false;
    if (!this.source.hasTruth) this.showNoGuess();
    this.item = await this.steadily(() => this.source.next());
    const id = newId();
    this.decision = await this.steadily(() => call("POST", taskPath(this.task.name, "/decide"), { id, x: this.item.x }));
    this.show();
    this.allow(true);
  }

  showNoGuess() {
    say(byId("guess"), "");
    say(byId("confidence"), "");
    byId("chances").replaceChildren();
  }

  show() {
    if (this.running && calm.matches && performance.now() - this.shownAt < CALM_MS) return;
    this.shownAt = performance.now();
    const { label, probabilities, confidence, unsure } = this.decision;
    this.source.show(this.item);
    if (this.source.hasTruth) say(byId("truth-text"), String(this.item.truth));
    say(byId("guess"), shortened(label, 200));
    byId("guess").className = String(label).length > LONG ? "long" : "";
    const sure = `${confidenceText(confidence)}${unsure ? ", less than the task requires" : ""}`;
    say(byId("confidence"), `${sure[0].toUpperCase()}${sure.slice(1)}.`);
    const names = Object.keys(probabilities);
    const entries =
      names.length <= BARS
        ? this.task.classes.filter((one) => String(one) in probabilities).map((one) => [String(one), probabilities[String(one)]])
        : likeliest(probabilities, label, BARS);
    showProbabilities(byId("chances"), entries, label, names.length);
    if (!this.running) say(byId("speak"), `The learner guesses ${label}, ${sure}.`);
  }

  async answer(right) {
    if (!this.waiting || this.running) return;
    await this.tell(right);
    this.ask();
  }

  async tell(right) {
    this.allow(false);
    const { status } = await this.steadily(() => call("POST", taskPath(this.task.name, "/feedback"), { id: this.decision.id, right }));
    this.count(right ? 0 : 1);
    this.draw();
    this.answers.keep(this.wrongs);
    const late = status === "late" ? " Your feedback came after the deadline and is not learnt." : "";
    say(byId("said"), `Round ${count(this.wrongs.length)}: error ${percent(this.over.at(-1))}.${late}`);
  }

  async playItself() {
    if (!this.waiting) return;
    this.running = true;
    this.allow(true);
    byId("auto").textContent = "Stop";
    byId("chances").classList.add("quick");
    byId("said").ariaLive = "off"; // nobody can listen to twenty sentences a second
    let round = 0;
    while (this.running && round < AUTO_ROUNDS) {
      const next = pause(AUTO_MS);
      say(byId("auto-text"), `This page is giving the feedback for you, using the true class of each item: round ${++round} of ${AUTO_ROUNDS}.`);
      await this.tell(String(this.decision.label) === String(this.item.truth));
      await this.ask();
      await next;
    }
    this.running = false;
    byId("said").ariaLive = "polite";
    byId("chances").classList.remove("quick");
    byId("auto").textContent = `Play ${AUTO_ROUNDS} rounds automatically`;
    say(byId("auto-text"), `This page gave the feedback for ${countOf(round, "round")}. Now it is your turn.`);
    this.show();
    this.allow(true);
  }
}

// ---- what is in the way --------------------------------------------------------------------------------------------
const message = (text, ...more) => {
  byId("message").replaceChildren(make("p", { textContent: text }), make("div", { className: "toolbar" }, ...more));
  byId("message").hidden = false;
};

const toDashboard = () => make("a", { className: "button", href: `/#${new URLSearchParams({ task: name })}`, textContent: "Go to tasks" });

const createDigits = () => {
  const label = "Create task 'digits'";
  const button = make("button", { type: "button", className: "primary", textContent: label });
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Creating… (up to 30 seconds the first time)";
    try {
      await call("POST", "/v1/tasks", DIGITS);
      noTrouble();
      byId("message").hidden = true;
      await begin();
    } catch (error) {
      trouble(error, noTrouble, "Dismiss");
      button.disabled = false;
      button.textContent = label;
    }
  });
  return button;
};

const missing = (session) => {
  const known = shortened(name);
  if (name !== "digits") return message(`There is no task named ${known}.`, toDashboard());
  if (!may(session, "admin", name)) {
    return message("Task 'digits' does not exist yet, and this token cannot create it: that requires scope 'admin'.", toDashboard());
  }
  return message("A learner that starts from nothing guesses handwritten digits. You only tell it whether each guess is right or wrong.", createDigits());
};

const obstacle = (session, task) => {
  if (!may(session, "decide", name) || !may(session, "feedback", name)) return "Playing requires a token with scopes 'decide' and 'feedback'.";
  if (task.mode !== "learn") return `Only tasks in learn mode can be played; this one is in ${task.mode} mode.`;
  if (!showable(task)) return "This task cannot be played: its inputs are numbers without a display setting.";
  return null;
};

const begin = async () => {
  const { tasks } = await call("GET", "/v1/tasks"); // asking for one that is missing would be an error in the console
  const task = tasks.find((one) => one.name === name);
  if (!task) return missing(session);
  const problem = obstacle(session, task);
  if (problem) return message(problem, toDashboard());
  const before = task.learnt ? ` It has already learnt from ${countOf(task.learnt, "feedback")}.` : "";
  byId("intro").textContent = `The learner (${task.learner}) is never told the class, only whether its guess was right.${before}`;
  await new Game(task).ask();
};

document.title = `Play ${name} · onebit`;
byId("title").textContent = name;
const session = await shell(location.pathname).catch((error) => {
  trouble(error, () => location.reload(), "Try again");
  return null;
});
if (session) await begin().catch((error) => trouble(error, () => location.reload(), "Try again"));
