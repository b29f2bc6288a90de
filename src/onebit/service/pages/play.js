// Play: the page shows an item, the learner guesses, a person says right or wrong, and the curve falls.
import { callService, isAllowed, isShowable, taskPath } from "./api.js";
import { Chart, formatAxisPercent } from "./chart.js";
import { byId, formatAmount, formatCount, formatPercent, make, setText, shorten } from "./dom.js";
import { formatConfidence, pickLikeliest, showProbabilities } from "./show.js";
import { buildHeader, hideTrouble, showTrouble } from "./shell.js";
import { makeSource } from "./sources.js";
import { makeExplanation } from "./why.js";

const name = decodeURIComponent(location.pathname.slice("/play/".length));
const RECENT = 50; // rounds of the recent error
const MOST_BARS = 10; // if there are more classes, only the likeliest are shown
const AUTO_ROUNDS = 100;
const AUTO_MS = 50;
const CALM_MS = 500; // between two pictures of automatic play, for those who prefer reduced motion
const DIGITS = {
  name: "digits",
  classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
  features: { kind: "numbers", size: 64 },
  display: { kind: "image", width: 8, height: 8, lowest: 0, highest: 16 },
  items: "digits",
};
const LONG = 12; // a class with more characters is shown smaller
const MOST_STORED = 100000; // rounds; a longer curve does not survive a reload

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const prefersCalm = matchMedia("(prefers-reduced-motion: reduce)");
// crypto.randomUUID is missing on pages without a secure origin.
const makeId = () => `play-${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// The feedback of this game, 1 for wrong, stored until the tab is closed, so that the curve survives a reload. The key has the time at
// which the task was created: a new task of the same name starts with an empty curve.
class FeedbackStorage {
  constructor(task) {
    this.key = `onebit-play-${task.name}-${task.created}`;
  }

  read() {
    try {
      return Array.from(sessionStorage.getItem(this.key) ?? "", Number).filter((value) => value === 0 || value === 1);
    } catch {
      return []; // the browser has no storage
    }
  }

  save(wrongs) {
    try {
      if (wrongs.length <= MOST_STORED) sessionStorage.setItem(this.key, wrongs.join(""));
    } catch {
      // the curve then lasts until the reload
    }
  }
}

class Game {
  constructor(task) {
    Object.assign(this, { task, isWaiting: false, isRunning: false, shownAt: 0 });
    this.source = makeSource(task, (text) => setText(byId("speak"), text));
    this.chart = new Chart(byId("curve"), {
      label: "Error by round",
      xName: "rounds",
      yName: "error",
      lines: [
        { name: "all rounds", colour: "--curve-0", width: 2.5 },
        { name: `last ${RECENT} rounds`, colour: "--curve-1", dash: [6, 3], width: 2 },
      ],
      xText: (x, onAxis) => (onAxis ? formatCount(x) : `round ${formatCount(x)}`),
      yText: formatAxisPercent,
      range: () => [0, 1],
      height: 230,
      empty: "The curve starts with your first feedback.",
    });
    this.storage = new FeedbackStorage(task);
    this.startCurve(this.storage.read());
    byId("restart").addEventListener("click", () => {
      this.startCurve([]);
      this.storage.save([]);
      setText(byId("result"), "");
    });
    byId("right").addEventListener("click", () => this.giveFeedback(true));
    byId("wrong").addEventListener("click", () => this.giveFeedback(false));
    addEventListener("keydown", (event) => this.handleKey(event));
    byId("automatic").hidden = !this.source.hasTruth;
    byId("truth").hidden = !this.source.hasTruth;
    if (isAllowed(session, "read", task.name)) byId("why").append(makeExplanation(task, () => this.decision?.id ?? null));
    byId("auto").addEventListener("click", () => (this.isRunning ? (this.isRunning = false) : this.playAutomatically()));
    this.setWaiting(false);
    byId("game").hidden = false;
  }

  // Start the curve with earlier feedback, if any.
  startCurve(wrongs) {
    Object.assign(this, { wrongs: [], errors: [], recentErrors: [], rounds: [], wrong: 0, recentWrong: 0 });
    for (const wrong of wrongs) this.addRound(wrong);
    this.drawCurve();
    if (wrongs.length) setText(byId("result"), `Round ${formatCount(wrongs.length)}: error ${formatPercent(this.errors.at(-1))}.`);
  }

  addRound(wrong) {
    this.wrongs.push(wrong);
    this.wrong += wrong;
    this.recentWrong += wrong - (this.wrongs.length > RECENT ? this.wrongs.at(-RECENT - 1) : 0);
    this.rounds.push(this.wrongs.length);
    this.errors.push(this.wrong / this.wrongs.length);
    this.recentErrors.push(this.recentWrong / Math.min(this.wrongs.length, RECENT));
  }

  drawCurve() {
    this.chart.setData([this.rounds, this.errors, this.recentErrors]);
    byId("restart").hidden = this.wrongs.length === 0;
  }

  // aria-disabled, since disabled buttons would lose the focus.
  setWaiting(isWaiting) {
    this.isWaiting = isWaiting;
    const isOpen = isWaiting && !this.isRunning;
    for (const id of ["right", "wrong"]) byId(id).setAttribute("aria-disabled", String(!isOpen));
  }

  handleKey(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") || event.target.closest?.("input, textarea, select")) return;
    const right = { ArrowRight: true, r: true, R: true, ArrowLeft: false, w: false, W: false }[event.key];
    if (right === undefined) return;
    event.preventDefault();
    this.giveFeedback(right);
  }

  // Do a step; if it fails, offer to repeat it, which is safe because requests have ids.
  async doWithRetries(step) {
    for (;;) {
      try {
        const value = await step();
        hideTrouble();
        return value;
      } catch (error) {
        this.isRunning = false;
        await new Promise((resolve) => showTrouble(error, resolve, "Try again"));
      }
    }
  }

  async startRound() {
    this.setWaiting(false);
    byId("truth").open = false;
    for (const details of byId("why").children) details.open = false;
    if (!this.source.hasTruth) this.showNoGuess();
    this.item = await this.doWithRetries(() => this.source.next());
    const id = makeId();
    this.decision = await this.doWithRetries(() => callService("POST", taskPath(this.task.name, "/decide"), { id, x: this.item.x }));
    this.show();
    this.setWaiting(true);
  }

  showNoGuess() {
    setText(byId("guess"), "");
    setText(byId("confidence"), "");
    byId("chances").replaceChildren();
  }

  show() {
    if (this.isRunning && prefersCalm.matches && performance.now() - this.shownAt < CALM_MS) return;
    this.shownAt = performance.now();
    const { label, probabilities, confidence, unsure } = this.decision;
    this.source.show(this.item);
    if (this.source.hasTruth) setText(byId("truth-text"), String(this.item.truth));
    setText(byId("guess"), shorten(label, 200));
    byId("guess").className = String(label).length > LONG ? "long" : "";
    const certainty = `${formatConfidence(confidence)}${unsure ? ", less than the task requires" : ""}`;
    setText(byId("confidence"), `${certainty[0].toUpperCase()}${certainty.slice(1)}.`);
    const names = Object.keys(probabilities);
    const entries =
      names.length <= MOST_BARS
        ? this.task.classes.map(String).filter((other) => other in probabilities).map((other) => [other, probabilities[other]])
        : pickLikeliest(probabilities, label, MOST_BARS);
    showProbabilities(byId("chances"), entries, label, names.length);
    if (!this.isRunning) setText(byId("speak"), `The learner guesses ${label}, ${certainty}.`);
  }

  async giveFeedback(right) {
    if (!this.isWaiting || this.isRunning) return;
    await this.sendFeedback(right);
    this.startRound();
  }

  async sendFeedback(right) {
    this.setWaiting(false);
    const { status } = await this.doWithRetries(() => callService("POST", taskPath(this.task.name, "/feedback"), { id: this.decision.id, right }));
    this.addRound(right ? 0 : 1);
    this.drawCurve();
    this.storage.save(this.wrongs);
    const late = status === "late" ? " Your feedback came after the deadline and is not learnt." : "";
    setText(byId("result"), `Round ${formatCount(this.wrongs.length)}: error ${formatPercent(this.errors.at(-1))}.${late}`);
  }

  async playAutomatically() {
    if (!this.isWaiting) return;
    this.isRunning = true;
    this.setWaiting(true);
    byId("auto").textContent = "Stop";
    byId("chances").classList.add("quick");
    byId("result").ariaLive = "off"; // nobody can listen to 20 sentences per second
    let round = 0;
    while (this.isRunning && round < AUTO_ROUNDS) {
      const delay = pause(AUTO_MS);
      setText(byId("auto-text"), `This page is giving the feedback for you, using the true class of each item: round ${++round} of ${AUTO_ROUNDS}.`);
      await this.sendFeedback(String(this.decision.label) === String(this.item.truth));
      await this.startRound();
      await delay;
    }
    this.isRunning = false;
    byId("result").ariaLive = "polite";
    byId("chances").classList.remove("quick");
    byId("auto").textContent = `Play ${AUTO_ROUNDS} rounds automatically`;
    setText(byId("auto-text"), `This page gave the feedback for ${formatAmount(round, "round")}. Now it is your turn.`);
    this.show();
    this.setWaiting(true);
  }
}

// ---- why the task cannot be played ------------------------------------------------------------------------------------
const showMessage = (text, ...tools) => {
  byId("message").replaceChildren(make("p", { textContent: text }), make("div", { className: "toolbar" }, ...tools));
  byId("message").hidden = false;
};

const makeTasksLink = () => make("a", { className: "button", href: `/#${new URLSearchParams({ task: name })}`, textContent: "Go to tasks" });

const makeCreateButton = () => {
  const label = "Create task 'digits'";
  const button = make("button", { type: "button", className: "primary", textContent: label });
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Creating… (up to 30 seconds the first time)";
    try {
      await callService("POST", "/v1/tasks", DIGITS);
      hideTrouble();
      byId("message").hidden = true;
      await startGame();
    } catch (error) {
      showTrouble(error, hideTrouble, "Dismiss");
      button.disabled = false;
      button.textContent = label;
    }
  });
  return button;
};

const showMissing = (session) => {
  if (name !== "digits") return showMessage(`There is no task named ${shorten(name)}.`, makeTasksLink());
  if (!isAllowed(session, "admin", name)) {
    return showMessage("Task 'digits' does not exist yet, and this token cannot create it: that requires scope 'admin'.", makeTasksLink());
  }
  return showMessage("A learner that starts from nothing guesses handwritten digits. You only tell it whether each guess is right or wrong.", makeCreateButton());
};

const findObstacle = (session, task) => {
  if (!isAllowed(session, "decide", name) || !isAllowed(session, "feedback", name)) return "Playing requires a token with scopes 'decide' and 'feedback'.";
  if (task.mode !== "learn") return `Only tasks in learn mode can be played; this one is in ${task.mode} mode.`;
  if (!isShowable(task)) return "This task cannot be played: its inputs are numbers without a display setting.";
  return null;
};

const startGame = async () => {
  const { tasks } = await callService("GET", "/v1/tasks"); // fetching a missing task would log an error in the console
  const task = tasks.find((other) => other.name === name);
  if (!task) return showMissing(session);
  const problem = findObstacle(session, task);
  if (problem) return showMessage(problem, makeTasksLink());
  const history = task.learnt ? ` It has already learnt from ${formatAmount(task.learnt, "feedback")}.` : "";
  byId("intro").textContent = `The learner (${task.learner}) is never told the class, only whether its guess was right.${history}`;
  await new Game(task).startRound();
};

document.title = `Play ${name} · onebit`;
byId("title").textContent = name;
const session = await buildHeader(location.pathname).catch((error) => {
  showTrouble(error, () => location.reload(), "Try again");
  return null;
});
if (session) await startGame().catch((error) => showTrouble(error, () => location.reload(), "Try again"));
