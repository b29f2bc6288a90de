// Why this class: what each feature of x adds to its lead over the best other class. Fetched when it is opened.
import { callService, taskPath } from "./api.js";
import { formatAmount, formatNumber, make, makeBar, shorten } from "./dom.js";

const MOST_FEATURES = 8;

const formatSigned = (value) => `${value > 0 ? "+" : ""}${formatNumber(value)}`;

// Name a feature: by its word or name, by its place in the image, or by its index.
const nameFeature = (name, task) => {
  if (typeof name !== "number") return shorten(name, 40);
  if (task.display === null) return `x[${name}]`;
  return `row ${Math.floor(name / task.display.width) + 1}, column ${(name % task.display.width) + 1}`;
};

const makeRow = (text, value, largest, title = text) =>
  make(
    "li",
    { className: value < 0 ? "against" : "" },
    make("span", { className: "name", dir: "auto", textContent: text, title }),
    makeBar(Math.min(Math.abs(value) / largest, 1)),
    make("span", { className: "value", textContent: formatSigned(value) }),
  );

const makeRows = (explanation, task) => {
  const { parts, constant, rest, left_out } = explanation;
  const largest = Math.max(...parts.map(({ contribution }) => Math.abs(contribution)), Math.abs(constant), Math.abs(rest)) || 1;
  const elements = parts.map(({ names, contribution }) => {
    const suffix = names.length > 1 ? " (same column)" : "";
    return makeRow(`${names.map((name) => nameFeature(name, task)).join(" + ")}${suffix}`, contribution, largest);
  });
  if (constant !== 0) elements.push(makeRow("constant", constant, largest, "the part that does not depend on any feature"));
  if (left_out > 0) elements.push(makeRow(formatAmount(left_out, "more feature"), rest, largest));
  return elements;
};

const makeElements = (explanation, task) => {
  const lead = explanation.lead === 0 ? "equal to" : `${formatNumber(Math.abs(explanation.lead))} ${explanation.lead > 0 ? "higher" : "lower"} than`;
  const title = make("p", { className: "note" }, `Its score is ${lead} that of `, make("strong", { dir: "auto", textContent: shorten(explanation.rival) }), ", the best other class.");
  const list = make("ol", { className: "probabilities", "aria-label": "Contribution of each feature" }, ...makeRows(explanation, task));
  const noFeature = explanation.parts.length ? null : make("p", { className: "note", textContent: "No feature favours either class." });
  const version = make("p", { className: "note", textContent: `According to the current learner (version ${explanation.version}), which may have changed since the decision.` });
  return [title, noFeature, list, version].filter((element) => element !== null);
};

// Make an element to open; `findId()` returns the id of the decision to explain, or null if there is none yet.
export const makeExplanation = (task, findId) => {
  const inside = make("div", { "aria-live": "polite" });
  const details = make("details", { className: "why" }, make("summary", { textContent: "Why this class?" }), inside);
  details.addEventListener("toggle", async () => {
    const id = findId();
    inside.replaceChildren();
    if (!details.open || id === null) return;
    try {
      const explanation = await callService("GET", taskPath(task.name, `/explanation?${new URLSearchParams({ id, top: MOST_FEATURES })}`));
      if (details.open && findId() === id) inside.replaceChildren(...makeElements(explanation, task));
    } catch (error) {
      inside.replaceChildren(make("p", { className: "note", textContent: error.message }));
    }
  });
  return details;
};
