// The numbers, curves and tables of one task.
import { callService, taskPath } from "./api.js";
import { Chart, formatAxisPercent, roundUp } from "./chart.js";
import { byId, formatAmount, formatCount, formatDuration, formatNumber, formatPercent, formatRate, make, makeBar, setBar, setText, shorten, updateChildren } from "./dom.js";
import { formatConfidence, makePreview, pickLikeliest, showProbabilities } from "./show.js";
import { makeExplanation } from "./why.js";

const WINDOWS = [100, 1000, 10000];
const LAST = 8; // decisions shown
const DRIFTS = 3; // alarms shown
const CLASSES_AT_FIRST = 20;
const MORE_CLASSES = 100;
const PROBABILITIES = 3; // bars of one decision

// In shadow mode the learner decides but something else is shown, and feedback is about that.
const COLUMNS = [
  { title: "Class", key: ({ name }) => String(name) },
  { title: "Times played", inShadow: "Times decided", key: ({ played }) => played },
  { title: "Feedbacks", inShadow: "Feedbacks when shown", key: ({ heard }) => heard },
  { title: "Right (95 % interval)", inShadow: "Right when shown (95 % interval)", key: ({ right_rate }) => right_rate },
];

export class Figures {
  // `onChange()` is called when another window is chosen.
  constructor(onChange) {
    this.window = 1000;
    this.sorted = { column: 1, direction: -1 };
    this.reset();
    this.curve = new Chart(byId("curve"), {
      label: "Error by feedback",
      xName: "feedbacks",
      yName: "error",
      lines: [
        { name: "all feedbacks", colour: "--curve-0", width: 2.5 },
        { name: "last 50 feedbacks", colour: "--curve-1", dash: [6, 3], width: 1.5 },
      ],
      xText: (x, onAxis) => (onAxis ? formatCount(x) : `after ${formatAmount(x, "feedback")}`),
      yText: formatAxisPercent,
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
      xText: (x, onAxis) => (onAxis ? formatCount(x) : `after ${formatAmount(x, "feedback")}`),
      yText: formatAxisPercent,
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
      yText: (y) => formatRate(y),
      range: (highest) => [0, Math.max(roundUp(highest), 5)],
      height: 300,
      stepped: true,
    });
    this.buildWindows(onChange);
    this.buildClasses();
  }

  // Forget what belongs to the task that was shown before.
  reset() {
    this.classLimit = CLASSES_AT_FIRST;
    this.lastKey = null;
    this.classes = null;
  }

  buildWindows(onChange) {
    const buttons = WINDOWS.map((size) => {
      const button = make("button", { type: "button", textContent: formatCount(size), "aria-pressed": String(size === this.window) });
      button.addEventListener("click", () => {
        this.window = size;
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        onChange();
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
        const isSame = this.sorted.column === column;
        this.sorted = { column, direction: isSame ? -this.sorted.direction : column === 0 ? 1 : -1 };
        this.showClasses();
      });
      return head;
    });
    this.heads = heads;
    this.classRows = make("tbody");
    byId("classes").append(make("thead", {}, make("tr", {}, ...heads)), this.classRows);
    byId("more-classes").addEventListener("click", () => {
      this.classLimit += MORE_CLASSES;
      this.showClasses();
    });
  }

  async show(task, stats) {
    this.showTitles(stats.mode === "shadow");
    this.showError(stats.window);
    this.showMeanReward(stats);
    this.showDrift(stats.drift);
    this.showShadow(stats.shadow);
    this.showState(stats);
    this.showCertainty(stats);
    const { feedback, error } = stats.curve;
    const span = chooseSpan(feedback.at(-1) ?? 0);
    setText(this.curve.names[1], `last ${formatAmount(span, "feedback")}`);
    this.curve.setData([feedback, error, computeRecentError(feedback, error, span)]);
    const { decisions, feedback: feedbacks } = stats.rates;
    this.rates.setData([decisions.map((_, place) => place - decisions.length + 1), decisions, feedbacks]);
    this.classes = stats.classes;
    this.showClasses();
    this.showDelays(stats.delays);
    await this.showLast(task, stats);
  }

  showTitles(inShadow) {
    setText(byId("error-title"), inShadow ? "Error of shown classes" : "Current error");
    setText(byId("curve-title"), inShadow ? "Error curve of shown classes" : "Error curve");
    COLUMNS.forEach(({ title, inShadow: other = title }, column) => {
      setText(this.heads[column].firstElementChild.firstElementChild, inShadow ? other : title);
    });
  }

  showError({ error, low, high, wrong, feedback }) {
    setText(byId("error-now"), formatPercent(error));
    const interval = `Wrong: ${formatCount(wrong)} of the last ${formatAmount(feedback, "feedback")}; 95\u00a0% interval ${formatPercent(low)} to ${formatPercent(high)}.`;
    setText(byId("error-interval"), error === null ? "No feedback yet." : interval);
  }

  showMeanReward({ rewards, window, mean_reward: overall }) {
    byId("mean-reward").hidden = rewards === 0;
    const recent = `${formatNumber(window.mean_reward ?? 0)} over the last ${formatAmount(window.feedback, "feedback")}`;
    setText(byId("mean-reward"), `Mean reward ${recent}, ${formatNumber(overall ?? 0)} in total. A reward below 1 counts as wrong.`);
  }

  showDrift({ count: alarms, alarms: last }) {
    byId("drift").hidden = alarms === 0;
    updateChildren(
      byId("drift-list"),
      [...last].reverse().slice(0, DRIFTS),
      ({ seq }) => seq,
      () => make("li"),
      (item, { time, feedback, since, usual, error }) =>
        setText(item, `${new Date(1000 * time).toLocaleString()}, after ${formatAmount(feedback, "feedback")}: ${formatPercent(error)} of the last ${formatCount(since)} were wrong; usually at most ${formatPercent(usual)}.`),
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
        : `The learner's own error: about ${formatPercent(error)} (95\u00a0% interval ${formatPercent(low)} to ${formatPercent(high)}), from ${formatAmount(rounds, "round")}.`;
    const neverShown = missing > 0 ? ` In ${formatPercent(missing)} of the rounds it would have played classes that are never shown.` : "";
    setText(byId("own-error"), `${estimate}${neverShown}`);
  }

  showCertainty({ certainty, curve }) {
    const { asked, sure, answered, heard, error, risk, overshoot } = certainty;
    byId("certainty").hidden = asked === 0;
    if (asked === 0) return;
    const share = `${formatCount(sure)} of ${formatAmount(asked, "decision")} were sure (${formatPercent(answered)}).`;
    const wrong = error === null ? " No sure decision has feedback yet." : ` Of the ${formatAmount(heard, "sure decision")} with feedback, ${formatPercent(error)} were wrong.`;
    setText(byId("certainty-text"), `${share}${wrong}${describeRisk(risk, overshoot, error)}`);
    this.sureCurve.setData([curve.feedback, certainty.answered_curve, certainty.error_curve]);
  }

  showState(stats) {
    const facts = [
      ["Learner", stats.learner],
      ["Generation", formatCount(stats.generation)],
      ["Feedbacks learnt", formatCount(stats.learnt)],
      ["Rows waiting to be learnt", formatCount(stats.queue)],
      ["Exploration rate", formatPercent(stats.exploration.rate)],
      ["Decisions", formatCount(stats.decisions)],
      ["Decisions/s, last minute", formatRate(stats.rates.decisions_per_s)],
      ["Feedbacks", formatCount(stats.feedback)],
      ["Feedbacks/s, last minute", formatRate(stats.rates.feedback_per_s)],
      ["Late feedbacks", formatCount(stats.late)],
      ["Feedbacks by silence", formatCount(stats.silences)],
      ["Revised feedbacks", formatCount(stats.revised)],
      ["Withdrawn feedbacks", formatCount(stats.withdrawn)],
      ["Refused by the learner", formatCount(stats.refused)],
      ...(stats.rewards ? [["Rewards reported", formatCount(stats.rewards)]] : []),
      ...(stats.truths ? [["True classes reported", formatCount(stats.truths)]] : []),
    ];
    const create = () => make("div", {}, make("dt"), make("dd"));
    updateChildren(byId("state"), facts, ([name]) => name, create, (row, [name, value]) => {
      setText(row.firstElementChild, name);
      setText(row.lastElementChild, value);
    });
  }

  showClasses() {
    const { classes } = this;
    if (!classes) return;
    const { column, direction } = this.sorted;
    const key = COLUMNS[column].key;
    const compare = (first, second) => {
      const [a, b] = [key(first), key(second)];
      if (a === null || b === null) return (a === null) - (b === null); // unknown values come last in both directions
      return direction * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    };
    const visible = [...classes].sort(compare).slice(0, this.classLimit);
    const mostPlayed = Math.max(...classes.map(({ played }) => played), 1);
    const cell = (...children) => make("td", {}, make("span", { className: "value" }), ...children);
    const create = () =>
      make("tr", {}, make("th", { scope: "row", dir: "auto" }), cell(makeBar(0)), cell(), cell(makeIntervalBar(), make("span", { className: "interval" })));
    updateChildren(this.classRows, visible, ({ name }) => String(name), create, (row, item) => {
      const [name, played, feedbacks, right] = row.cells;
      setText(name, shorten(item.name, 80));
      name.title = item.name;
      setText(played.firstElementChild, formatCount(item.played));
      setBar(played.lastElementChild, item.played / mostPlayed);
      setText(feedbacks.firstElementChild, formatCount(item.heard));
      setText(right.firstElementChild, formatPercent(item.right_rate));
      setIntervalBar(right.children[1], item);
      setText(right.lastElementChild, item.low === null ? "" : `${formatPercent(item.low)} to ${formatPercent(item.high)}`);
    });
    this.heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const hiddenCount = classes.length - visible.length;
    byId("more-classes").hidden = hiddenCount <= 0;
    setText(byId("more-classes"), `Show ${formatCount(Math.min(hiddenCount, MORE_CLASSES))} more (${formatCount(hiddenCount)} not shown)`);
  }

  showDelays({ bounds_s, counts }) {
    const total = counts.reduce((sum, value) => sum + value, 0);
    const firstUsed = counts.findIndex((value) => value > 0);
    const lastUsed = counts.findLastIndex((value) => value > 0);
    const rows = total ? counts.map((value, place) => ({ place, share: value / total, value })).slice(firstUsed, lastUsed + 1) : [];
    const nameDelay = (place) =>
      place === 0
        ? `up to ${formatDuration(bounds_s[0])}`
        : place === bounds_s.length
          ? `over ${formatDuration(bounds_s.at(-1))}`
          : `${formatDuration(bounds_s[place - 1])} to ${formatDuration(bounds_s[place])}`;
    const create = () => make("tr", {}, make("th", { scope: "row" }), make("td", {}, makeBar(0)), make("td", { className: "value" }));
    updateChildren(byId("delays").tBodies[0], rows, ({ place }) => place, create, (row, { place, share, value }) => {
      setText(row.cells[0], nameDelay(place));
      setBar(row.cells[1].firstElementChild, share);
      setText(row.cells[2], `${formatCount(value)} (${formatPercent(share)})`);
    });
    byId("delays").hidden = !total;
    byId("no-delays").hidden = total > 0;
  }

  async showLast(task, stats) {
    const key = [task.name, stats.generation, stats.decisions, stats.feedback, stats.right, stats.late, stats.silences, stats.revised, stats.withdrawn, stats.truths, stats.mean_reward].join();
    if (key !== this.lastKey) {
      const { decisions } = await callService("GET", taskPath(task.name, `/decisions?limit=${LAST}`));
      if (byId("task").dataset.of !== task.name) return; // another was chosen meanwhile
      this.lastKey = key;
      byId("last").className = task.display ? "pictures" : "";
      updateChildren(byId("last"), decisions, ({ seq }) => seq, (decision) => makeDecision(decision, task), showFeedback);
    }
    byId("no-last").hidden = byId("last").children.length > 0;
    for (const item of byId("last").children) {
      const age = Math.max(Date.now() / 1000 - item.time, 0);
      setText(item.querySelector("time"), age < 2 ? "now" : `${formatDuration(Math.round(age))} ago`);
    }
  }
}

// The recent error is over about a twentieth of all feedbacks, but at least 50: it would only be noise over fewer.
const chooseSpan = (feedbacks) => Math.max(roundUp(feedbacks / 20), 50);

// The error of the last `span` feedbacks at each point.
const computeRecentError = (feedback, error, span) => {
  const countWrong = (place) => (place < 0 ? 0 : feedback[place] * error[place]);
  const countFeedback = (place) => (place < 0 ? 0 : feedback[place]);
  let from = -1;
  return feedback.map((total, place) => {
    while (from + 1 < place && countFeedback(from + 1) <= total - span) from++;
    return (countWrong(place) - countWrong(from)) / (total - countFeedback(from));
  });
};

// Says whether the promise holds that at most the share `risk` of the sure decisions is wrong.
const describeRisk = (risk, overshoot, error) => {
  if (risk === null || error === null) return "";
  if (overshoot > 0) return ` The risk of ${formatPercent(risk)} is not kept: the error exceeds it by at least ${formatPercent(overshoot)}.`;
  return error <= risk ? ` The risk of ${formatPercent(risk)} is kept.` : ` That is above the risk of ${formatPercent(risk)}, but within what chance explains.`;
};

const makeIntervalBar = () =>
  make("span", { className: "bar range", "aria-hidden": "true" }, make("span"), make("span", { className: "ends" }));

const setIntervalBar = (element, { right_rate, low, high }) => {
  const [fill, ends] = element.children;
  element.hidden = right_rate === null;
  fill.style.width = `${100 * (right_rate ?? 0)}%`;
  Object.assign(ends.style, { left: `${100 * (low ?? 0)}%`, width: `${100 * ((high ?? 0) - (low ?? 0))}%` });
};

const makeDecision = (decision, task) => {
  const isExplored = String(decision.label) !== String(decision.greedy);
  const bars = make("ol", { className: "probabilities", "aria-label": "Chance of being played" });
  const entries = pickLikeliest(decision.probabilities, decision.label, PROBABILITIES);
  showProbabilities(bars, entries, decision.label, Object.keys(decision.probabilities).length);
  const time = make("time", { dateTime: new Date(1000 * decision.time).toISOString(), title: new Date(1000 * decision.time).toLocaleString() });
  const title = make("p", { className: "label" }, make("strong", { dir: "auto", textContent: shorten(decision.label), title: decision.label }));
  const badges = make("p", { className: "badges" }, make("span", { className: "badge feedback" }));
  badges.append(make("span", { className: "badge", textContent: decision.unsure ? `unsure: ${formatConfidence(decision.confidence)}` : formatConfidence(decision.confidence) }));
  if (isExplored) badges.append(make("span", { className: "badge", textContent: "explored", title: `The learner considered ${decision.greedy} best.` }));
  const candidates = decision.among === null ? "" : ` · chosen from ${formatCount(decision.among.length)} of ${formatCount(Object.keys(decision.probabilities).length)} classes`;
  const about = make("p", { className: "note" }, time, ` · learner version ${decision.version}${candidates}`);
  const id = make("p", { className: "note" }, make("code", { textContent: shorten(decision.id, 40), title: decision.id }));
  const item = make("li", {}, make("div", { className: "x" }, makePreview(decision.x, task.display)), make("div", { className: "what" }, title, badges, about, id, makeExplanation(task, () => decision.id)), bars);
  item.time = decision.time;
  return item;
};

const showFeedback = (item, { right, late, source, shown, reward, truth, revised_time: revisedTime }) => {
  const badge = item.querySelector(".feedback");
  const result = reward === null ? (right ? "right" : "wrong") : `reward ${formatNumber(reward)}`;
  const state = right !== null ? result : revisedTime === null ? "no feedback yet" : "withdrawn";
  const notes = [
    right === false && truth !== null ? `true class: ${shorten(truth, 30)}` : "",
    late ? "late" : "",
    source === "silence" ? "by silence" : "",
    right !== null && revisedTime !== null ? "revised" : "",
    shown === null ? "" : `shown: ${shorten(shown, 30)}`,
  ];
  setText(badge, [state, ...notes.filter(Boolean)].join(", "));
  badge.className = `badge feedback ${right === null || reward !== null ? "" : right ? "good" : "bad"}`;
};
