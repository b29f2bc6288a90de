// Why a class: what each feature of x adds to its lead over the best of the others. It is asked for when somebody opens it.
import { call, taskPath } from "./api.js";
import { bar, count, make, number, shortened } from "./dom.js";

const TOP = 8; // parts that are shown

const signed = (value) => `${value > 0 ? "+" : ""}${number(value)}`;

// What a part is called: by its words or names, and where it is a number of a picture, by where it stands there.
const called = (name, task) => {
  if (typeof name !== "number") return shortened(name, 40);
  if (task.display === null) return `x[${name}]`;
  return `row ${Math.floor(name / task.display.width) + 1}, column ${(name % task.display.width) + 1}`;
};

const row = (text, value, largest, title = text) =>
  make(
    "li",
    { className: value < 0 ? "against" : "" },
    make("span", { className: "name", dir: "auto", textContent: text, title }),
    bar(Math.min(Math.abs(value) / largest, 1)),
    make("span", { className: "value", textContent: signed(value) }),
  );

const rows = (found, task) => {
  const { parts, constant, rest, left_out } = found;
  const largest = Math.max(...parts.map(({ contribution }) => Math.abs(contribution)), Math.abs(constant), Math.abs(rest)) || 1;
  const all = parts.map(({ names, contribution }) => {
    const together = names.length > 1 ? " (same column)" : "";
    return row(`${names.map((name) => called(name, task)).join(" + ")}${together}`, contribution, largest);
  });
  if (constant !== 0) all.push(row("constant", constant, largest, "the part that does not depend on any feature"));
  if (left_out > 0) all.push(row(left_out === 1 ? "1 more feature" : `${count(left_out)} more features`, rest, largest));
  return all;
};

const shown = (found, task) => {
  const lead = found.lead === 0 ? "equal to" : `${number(Math.abs(found.lead))} ${found.lead > 0 ? "higher" : "lower"} than`;
  const title = make("p", { className: "note" }, `Its score is ${lead} that of `, make("strong", { dir: "auto", textContent: shortened(found.rival) }), ", the best other class.");
  const list = make("ol", { className: "probabilities", "aria-label": "Contribution of each feature" }, ...rows(found, task));
  const silent = found.parts.length ? null : make("p", { className: "note", textContent: "No feature favours either class." });
  const now = make("p", { className: "note", textContent: `According to the current learner (version ${found.version}), which may have changed since the decision.` });
  return [title, silent, list, now].filter((one) => one !== null);
};

// An element to open; `idOf()` is the id of the decision that is asked about then, or null where there is none yet.
export const why = (task, idOf) => {
  const inside = make("div", { "aria-live": "polite" });
  const details = make("details", { className: "why" }, make("summary", { textContent: "Why this class?" }), inside);
  details.addEventListener("toggle", async () => {
    const id = idOf();
    inside.replaceChildren();
    if (!details.open || id === null) return;
    try {
      const found = await call("GET", taskPath(task.name, `/explanation?${new URLSearchParams({ id, top: TOP })}`));
      if (details.open && idOf() === id) inside.replaceChildren(...shown(found, task));
    } catch (error) {
      inside.replaceChildren(make("p", { className: "note", textContent: error.message }));
    }
  });
  return details;
};
