// The numbers, curves and tables of one task.
import { call, taskPath } from "./api.js";
import { Chart, percentAxis, roundUp } from "./chart.js";
import { bar, byId, count, countOf, duration, keyed, make, number, percent, rate, say, setBar, shortened } from "./dom.js";
import { confidenceText, likeliest, preview, showProbabilities } from "./show.js";
import { why } from "./why.js";

const WINDOWS = [100, 1000, 10000];
const LAST = 8; // decisions shown
const DRIFTS = 3; // alarms shown
const CLASSES_AT_FIRST = 20;
const MORE_CLASSES = 100;
const PROBABILITIES = 3; // bars of one decision

// In shadow mode the learner decides, and something else is shown: what is heard is of that.
const COLUMNS = [
  { title: "Class", key: ({ name }) => String(name) },
  { title: "Times played", inShadow: "Times decided", key: ({ played }) => played },
  { title: "Feedbacks", inShadow: "Feedbacks when shown", key: ({ heard }) => heard },
  { title: "Right (95 % interval)", inShadow: "Right when shown (95 % interval)", key: ({ right_rate }) => right_rate },
];

export class Figures {
  // `changed()` is called when the reader wants other numbers.
  constructor(changed) {
    this.window = 1000;
    this.sorted = { column: 1, direction: -1 };
    this.forget();
    this.curve = new Chart(byId("curve"), {
      label: "Error by feedback",
      xName: "feedbacks",
      yName: "error",
      lines: [
        { name: "all feedbacks", colour: "--curve-0", width: 2.5 },
        { name: "last 50 feedbacks", colour: "--curve-1", dash: [6, 3], width: 1.5 },
      ],
      xText: (x, onAxis) => (onAxis ? count(x) : `after ${countOf(x, "feedback")}`),
      yText: percentAxis,
      range: (highest) => [0, Math.min(roundUp(highest), 1)],
      empty: "No feedback yet. Report to the service whether a decision was right.",
    });
    this.sureCurve = new Chart(byId("sure-curve"), {
      label: "Sure decisions by feedback",
      xName: "feedbacks",
      yName: "share",
      lines: [
        { name: "sure decisions", colour: "--curve-0", width: 2.5 },
        { name: "error of sure decisions", colour: "--curve-1", dash: [6, 3], width: 2 },
      ],
      xText: (x, onAxis) => (onAxis ? count(x) : `after ${countOf(x, "feedback")}`),
      yText: percentAxis,
      range: () => [0, 1],
      empty: "No decision that was required to be sure has feedback yet.",
    });
    this.rates = new Chart(byId("rates"), {
      label: "Decisions and feedbacks per second",
      xName: "seconds from now",
      yName: "per second",
      lines: [
        { name: "decisions", colour: "--curve-0" },
        { name: "feedbacks", colour: "--curve-2", dash: [6, 3] },
      ],
      xText: (x, onAxis) => (onAxis ? (x === 0 ? "now" : `${x} s`) : x === 0 ? "this second" : `${-x} s ago`),
      yText: (y) => rate(y),
      range: (highest) => [0, Math.max(roundUp(highest), 5)],
      height: 300,
      stepped: true,
    });
    this.buildWindows(changed);
    this.buildClasses();
  }

  // Another task is shown: what was opened and fetched for the last one does not hold.
  forget() {
    this.classesShown = CLASSES_AT_FIRST;
    this.lastKey = null;
    this.nowShown = null;
  }

  buildWindows(changed) {
    const buttons = WINDOWS.map((size) => {
      const button = make("button", { type: "button", textContent: count(size), "aria-pressed": String(size === this.window) });
      button.addEventListener("click", () => {
        this.window = size;
        buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
        changed();
      });
      return button;
    });
    byId("windows").append(...buttons);
  }

  buildClasses() {
    const heads = COLUMNS.map((_, column) => {
      const button = make("button", { type: "button" }, make("span"), make("span", { className: "arrow", "aria-hidden": "true" }));
      const head = make("th", { scope: "col" }, button);
      button.addEventListener("click", () => {
        const same = this.sorted.column === column;
        this.sorted = { column, direction: same ? -this.sorted.direction : column === 0 ? 1 : -1 };
        this.showClasses(this.nowShown);
      });
      return head;
    });
    this.heads = heads;
    this.classRows = make("tbody");
    byId("classes").append(make("thead", {}, make("tr", {}, ...heads)), this.classRows);
    byId("more-classes").addEventListener("click", () => {
      this.classesShown += MORE_CLASSES;
      this.showClasses(this.nowShown);
    });
  }

  async show(task, stats) {
    this.nameAll(stats.mode === "shadow");
    this.showError(stats.window);
    this.showMeanReward(stats);
    this.showDrift(stats.drift);
    this.showShadow(stats.shadow);
    this.showState(stats);
    this.showCertainty(stats);
    const { feedback, error } = stats.curve;
    const span = spanOf(feedback.at(-1) ?? 0);
    say(this.curve.names[1], `last ${countOf(span, "feedback")}`);
    this.curve.set([feedback, error, lately(feedback, error, span)]);
    const { decisions, feedback: heard } = stats.rates;
    this.rates.set([decisions.map((_, place) => place - decisions.length + 1), decisions, heard]);
    this.nowShown = stats.classes;
    this.showClasses(stats.classes);
    this.showDelays(stats.delays);
    await this.showLast(task, stats);
  }

  nameAll(inShadow) {
    say(byId("error-title"), inShadow ? "Error of shown classes" : "Current error");
    say(byId("curve-title"), inShadow ? "Error curve of shown classes" : "Error curve");
    COLUMNS.forEach(({ title, inShadow: other = title }, column) => {
      say(this.heads[column].firstElementChild.firstElementChild, inShadow ? other : title);
    });
  }

  showError({ error, low, high, wrong, feedback }) {
    say(byId("error-now"), percent(error));
    const interval = `Wrong: ${count(wrong)} of the last ${countOf(feedback, "feedback")}; 95 % interval ${percent(low)} to ${percent(high)}.`;
    say(byId("error-interval"), error === null ? "No feedback yet." : interval);
  }

  showMeanReward({ rewards, window, mean_reward: overall }) {
    byId("mean-reward").hidden = rewards === 0;
    const recent = `${number(window.mean_reward ?? 0)} over the last ${countOf(window.feedback, "feedback")}`;
    say(byId("mean-reward"), `Mean reward ${recent}, ${number(overall ?? 0)} in total. A reward below 1 counts as wrong.`);
  }

  showDrift({ count: alarms, alarms: last }) {
    byId("drift").hidden = alarms === 0;
    keyed(
      byId("drift-list"),
      [...last].reverse().slice(0, DRIFTS),
      ({ seq }) => seq,
      () => make("li"),
      (item, { time, feedback, since, usual, error }) =>
        say(item, `${new Date(1000 * time).toLocaleString()}, after ${countOf(feedback, "feedback")}: ${percent(error)} of the last ${count(since)} were wrong; usually at most ${percent(usual)}.`),
    );
  }

  // How wrong the learner's own decisions would have been, while something else was shown.
  showShadow(shadow) {
    byId("own-error").hidden = shadow === null;
    if (shadow === null) return;
    const { rounds, error, low, high, missing } = shadow;
    const estimate =
      error === null
        ? "The learner's own error is not known yet."
        : `The learner's own error: about ${percent(error)} (95 % interval ${percent(low)} to ${percent(high)}), from ${countOf(rounds, "round")}.`;
    const unseen = missing > 0 ? ` In ${percent(missing)} of the rounds it would have played classes that are never shown.` : "";
    say(byId("own-error"), `${estimate}${unseen}`);
  }

  showCertainty({ certainty, curve }) {
    const { asked, sure, answered, heard, error, risk, overshoot } = certainty;
    byId("certainty").hidden = asked === 0;
    if (asked === 0) return;
    const share = `${count(sure)} of ${countOf(asked, "decision")} were sure (${percent(answered)}).`;
    const wrong = error === null ? " No sure decision has feedback yet." : ` Of the ${countOf(heard, "sure decision")} with feedback, ${percent(error)} were wrong.`;
    say(byId("certainty-text"), `${share}${wrong}${riskText(risk, overshoot, error)}`);
    this.sureCurve.set([curve.feedback, certainty.answered_curve, certainty.error_curve]);
  }

  showState(stats) {
    const facts = [
      ["Learner", stats.learner],
      ["Generation", count(stats.generation)],
      ["Feedbacks learnt", count(stats.learnt)],
      ["Rows waiting to be learnt", count(stats.queue)],
      ["Exploration rate", percent(stats.exploration.rate)],
      ["Decisions", count(stats.decisions)],
      ["Decisions per second, last minute", rate(stats.rates.decisions_per_s)],
      ["Feedbacks", count(stats.feedback)],
      ["Feedbacks per second, last minute", rate(stats.rates.feedback_per_s)],
      ["Late feedbacks", count(stats.late)],
      ["Feedbacks by silence", count(stats.silences)],
      ["Revised feedbacks", count(stats.revised)],
      ["Withdrawn feedbacks", count(stats.withdrawn)],
      ["Refused by the learner", count(stats.refused)],
      ...(stats.rewards ? [["Rewards reported", count(stats.rewards)]] : []),
      ...(stats.truths ? [["True classes reported", count(stats.truths)]] : []),
    ];
    const create = () => make("div", {}, make("dt"), make("dd"));
    keyed(byId("state"), facts, ([name]) => name, create, (row, [name, value]) => {
      say(row.firstElementChild, name);
      say(row.lastElementChild, value);
    });
  }

  showClasses(classes) {
    if (!classes) return;
    const { column, direction } = this.sorted;
    const key = COLUMNS[column].key;
    const compare = (one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null); // what is unknown comes last either way
      return direction * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    };
    const shown = [...classes].sort(compare).slice(0, this.classesShown);
    const most = Math.max(...classes.map(({ played }) => played), 1);
    const cell = (...children) => make("td", {}, make("span", { className: "value" }), ...children);
    const create = () =>
      make("tr", {}, make("th", { scope: "row", dir: "auto" }), cell(bar(0)), cell(), cell(intervalBar(), make("span", { className: "interval" })));
    keyed(this.classRows, shown, ({ name }) => String(name), create, (row, one) => {
      const [name, played, heard, right] = row.cells;
      say(name, shortened(one.name, 80));
      name.title = one.name;
      say(played.firstElementChild, count(one.played));
      setBar(played.lastElementChild, one.played / most);
      say(heard.firstElementChild, count(one.heard));
      say(right.firstElementChild, percent(one.right_rate));
      setInterval95(right.children[1], one);
      say(right.lastElementChild, one.low === null ? "" : `${percent(one.low)} to ${percent(one.high)}`);
    });
    this.heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const rest = classes.length - shown.length;
    byId("more-classes").hidden = rest <= 0;
    say(byId("more-classes"), `Show ${count(Math.min(rest, MORE_CLASSES))} more (${count(rest)} not shown)`);
  }

  showDelays({ bounds_s, counts }) {
    const all = counts.reduce((sum, one) => sum + one, 0);
    const first = counts.findIndex((one) => one > 0);
    const last = counts.findLastIndex((one) => one > 0);
    const rows = all ? counts.map((one, place) => ({ place, share: one / all, one })).slice(first, last + 1) : [];
    const name = (place) =>
      place === 0
        ? `up to ${duration(bounds_s[0])}`
        : place === bounds_s.length
          ? `over ${duration(bounds_s.at(-1))}`
          : `${duration(bounds_s[place - 1])} to ${duration(bounds_s[place])}`;
    const create = () => make("tr", {}, make("th", { scope: "row" }), make("td", {}, bar(0)), make("td", { className: "value" }));
    keyed(byId("delays").tBodies[0], rows, ({ place }) => place, create, (row, { place, share, one }) => {
      say(row.cells[0], name(place));
      setBar(row.cells[1].firstElementChild, share);
      say(row.cells[2], `${count(one)} (${percent(share)})`);
    });
    byId("delays").hidden = !all;
    byId("no-delays").hidden = all > 0;
  }

  async showLast(task, stats) {
    const key = [task.name, stats.generation, stats.decisions, stats.feedback, stats.right, stats.late, stats.silences, stats.revised, stats.withdrawn, stats.truths, stats.mean_reward].join();
    if (key !== this.lastKey) {
      const { decisions } = await call("GET", taskPath(task.name, `/decisions?limit=${LAST}`));
      if (byId("task").dataset.of !== task.name) return; // another was chosen meanwhile
      this.lastKey = key;
      byId("last").className = task.display ? "pictures" : "";
      keyed(byId("last"), decisions, ({ seq }) => seq, (one) => decisionItem(one, task), showFeedback);
    }
    byId("no-last").hidden = byId("last").children.length > 0;
    for (const item of byId("last").children) {
      const age = Math.max(Date.now() / 1000 - item.time, 0);
      say(item.querySelector("time"), age < 2 ? "now" : `${duration(Math.round(age))} ago`);
    }
  }
}

// Between two points of a short curve there is but one feedback, which says nothing: a twentieth of all does, and fifty.
const spanOf = (all) => Math.max(roundUp(all / 20), 50);

// The error of the last `span` feedbacks at each point.
const lately = (feedback, error, span) => {
  const wrong = (place) => (place < 0 ? 0 : feedback[place] * error[place]);
  const heard = (place) => (place < 0 ? 0 : feedback[place]);
  let from = -1;
  return feedback.map((now, place) => {
    while (from + 1 < place && heard(from + 1) <= now - span) from++;
    return (wrong(place) - wrong(from)) / (now - heard(from));
  });
};

// What became of the promise that at most the share `risk` of the sure decisions is wrong.
const riskText = (risk, overshoot, error) => {
  if (risk === null || error === null) return "";
  if (overshoot > 0) return ` The risk of ${percent(risk)} is not kept: the error exceeds it by at least ${percent(overshoot)}.`;
  return error <= risk ? ` The risk of ${percent(risk)} is kept.` : ` That is above the risk of ${percent(risk)}, but within what chance explains.`;
};

const intervalBar = () =>
  make("span", { className: "bar range", "aria-hidden": "true" }, make("span"), make("span", { className: "ends" }));

const setInterval95 = (element, { right_rate, low, high }) => {
  const [fill, ends] = element.children;
  element.hidden = right_rate === null;
  fill.style.width = `${100 * (right_rate ?? 0)}%`;
  Object.assign(ends.style, { left: `${100 * (low ?? 0)}%`, width: `${100 * ((high ?? 0) - (low ?? 0))}%` });
};

const decisionItem = (one, task) => {
  const explored = String(one.label) !== String(one.greedy);
  const bars = make("ol", { className: "probabilities", "aria-label": "Chance of being played" });
  const entries = likeliest(one.probabilities, one.label, PROBABILITIES);
  showProbabilities(bars, entries, one.label, Object.keys(one.probabilities).length);
  const when = make("time", { dateTime: new Date(1000 * one.time).toISOString(), title: new Date(1000 * one.time).toLocaleString() });
  const title = make("p", { className: "label" }, make("strong", { dir: "auto", textContent: shortened(one.label), title: one.label }));
  const badges = make("p", { className: "badges" }, make("span", { className: "badge feedback" }));
  badges.append(make("span", { className: "badge", textContent: one.unsure ? `unsure: ${confidenceText(one.confidence)}` : confidenceText(one.confidence) }));
  if (explored) badges.append(make("span", { className: "badge", textContent: "explored", title: `The learner considered ${one.greedy} best.` }));
  const set = one.among === null ? "" : ` · chosen from ${count(one.among.length)} of ${count(Object.keys(one.probabilities).length)} classes`;
  const about = make("p", { className: "note" }, when, ` · learner version ${one.version}${set}`);
  const id = make("p", { className: "note" }, make("code", { textContent: shortened(one.id, 40), title: one.id }));
  const item = make("li", {}, make("div", { className: "x" }, preview(one.x, task.display)), make("div", { className: "what" }, title, badges, about, id, why(task, () => one.id)), bars);
  item.time = one.time;
  return item;
};

const showFeedback = (item, { right, late, source, shown, reward, truth, revised_time: revised }) => {
  const badge = item.querySelector(".feedback");
  const heard = reward === null ? (right ? "right" : "wrong") : `reward ${number(reward)}`;
  const state = right !== null ? heard : revised === null ? "no feedback yet" : "withdrawn";
  const more = [
    right === false && truth !== null ? `true class: ${shortened(truth, 30)}` : "",
    late ? "late" : "",
    source === "silence" ? "by silence" : "",
    right !== null && revised !== null ? "revised" : "",
    shown === null ? "" : `shown: ${shortened(shown, 30)}`,
  ];
  say(badge, [state, ...more.filter(Boolean)].join(", "));
  badge.className = `badge feedback ${right === null || reward !== null ? "" : right ? "good" : "bad"}`;
};
