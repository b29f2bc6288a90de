// What whoever may administer can do: create a task, change it, switch its learner, delete it.
import { call, taskPath } from "./api.js";
import { countOf, make, shortened } from "./dom.js";
import { linesOf, openForm, parametersOf } from "./form.js";

const MODES = [
  ["learn", "learn: decide and learn from feedback"],
  ["shadow", "shadow: decide, but another system's choice is shown; learn from feedback on that"],
  ["log-only", "log-only: decide and log, but learn nothing"],
];
const SILENCES = [
  ["nothing", "nothing (silence is ignored)"],
  ["wrong", "the decision was wrong"],
  ["right", "the decision was right"],
];
const deadlineField = (value) => ({
  name: "deadline_s",
  label: "Feedback deadline (seconds)",
  kind: "number",
  value: value ?? "",
  hint: "Feedback after the deadline is kept but not learnt. Leave empty for no deadline.",
});
const silenceField = (value) => ({
  name: "silence",
  label: "No feedback by the deadline means",
  kind: "choice",
  options: SILENCES,
  value,
  shown: (values) => values.deadline_s !== "",
});
const numberOrNull = (text) => (text === "" ? null : Number(text));

// The choice of a learner, and under it what it is and which parameters it has.
const learnerFields = (learners, chosen) => {
  const about = make("div", { className: "about" });
  const describe = (name) => {
    const learner = learners.find((one) => one.name === name);
    about.replaceChildren(make("p", { className: "note", textContent: learner?.summary ?? "" }));
    if (!learner?.parameters.length) return;
    const body = make("tbody");
    for (const one of learner.parameters) {
      body.append(
        make(
          "tr",
          {},
          make("th", { scope: "row" }, make("code", { textContent: one.name })),
          make("td", { textContent: String(one.default ?? "") }),
          make("td", { textContent: String(one.range ?? "") }),
          make("td", { textContent: String(one.meaning ?? "") }),
        ),
      );
    }
    const head = make("tr", {}, ...["Name", "Default", "Range", "Meaning"].map((textContent) => make("th", { scope: "col", textContent })));
    const table = make("table", {}, make("thead", {}, head), body);
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Parameters" }, table);
    about.append(make("details", {}, make("summary", { textContent: countOf(learner.parameters.length, "parameter") }), scroll));
  };
  describe(chosen);
  return [
    {
      name: "learner",
      label: "Learner",
      kind: "choice",
      options: learners.map(({ name }) => [name, name]),
      value: chosen,
      hint: "A learner is compiled on first use, once per machine. This takes up to 30 seconds.",
      after: about,
      shown: ({ learner }) => {
        if (about.dataset.of !== learner) describe((about.dataset.of = learner));
        return true;
      },
    },
    { name: "parameters", label: "Parameters", kind: "lines", rows: 2, hint: "One name=value per line. Leave empty for the defaults." },
    {
      name: "exploration_floor",
      label: "Exploration floor",
      kind: "number",
      hint: "The probability of playing a random class, whatever the learner prefers, from 0 to 1. Leave empty for the default.",
    },
  ];
};

const learnerOf = (values) => ({
  learner: values.learner,
  parameters: parametersOf(values.parameters),
  exploration_floor: numberOrNull(values.exploration_floor),
});

const learnersNow = async () => (await call("GET", "/v1/learners")).learners;

export const createTask = async (done) => {
  const learners = await learnersNow();
  const usual = learners.some(({ name }) => name === "auto") ? "auto" : learners[0]?.name;
  const numbers = (values) => values.kind === "numbers";
  const image = (values) => numbers(values) && values.image;
  const size = { kind: "number", min: 1, max: 1000, step: 1, required: true };
  openForm({
    title: "Create a task",
    button: "Create",
    fields: [
      { name: "name", label: "Name", required: true, hint: "Letters, digits, dots, hyphens and underscores." },
      { name: "classes", label: "Classes", kind: "lines", required: true, hint: "One per line, at least two." },
      {
        name: "kind",
        label: "Input",
        kind: "choice",
        options: [
          ["numbers", "list of numbers of fixed length"],
          ["dict", "named numbers"],
          ["text", "text"],
        ],
        value: "numbers",
        answers: ["features"],
      },
      { name: "size", label: "Number of values", kind: "number", min: 1, step: 1, required: true, answers: ["features", "size"], shown: numbers },
      {
        name: "hash_bits",
        label: "Hash bits",
        kind: "number",
        min: 1,
        max: 26,
        step: 1,
        value: 18,
        required: true,
        hint: "With n bits, names or words are hashed into 2ⁿ columns.",
        answers: ["features", "hash_bits"],
        shown: (values) => !numbers(values),
      },
      { name: "image", label: "The numbers are the pixels of an image", kind: "check", answers: ["display"], shown: numbers },
      { name: "width", label: "Image width (pixels)", ...size, answers: ["display", "width"], shown: image },
      { name: "height", label: "Image height (pixels)", ...size, answers: ["display", "height"], shown: image },
      { name: "lowest", label: "Value of a white pixel", kind: "number", value: 0, required: true, answers: ["display", "lowest"], shown: image },
      { name: "highest", label: "Value of a black pixel", kind: "number", value: 1, required: true, answers: ["display", "highest"], shown: image },
      ...learnerFields(learners, usual),
      { name: "mode", label: "Mode", kind: "choice", options: MODES, value: "learn" },
      deadlineField(null),
      silenceField("nothing"),
    ],
    act: async (values) => {
      const { kind } = values;
      const features = kind === "numbers" ? { kind, size: Number(values.size) } : { kind, hash_bits: Number(values.hash_bits) };
      const [width, height, lowest, highest] = [values.width, values.height, values.lowest, values.highest].map(Number);
      const task = await call("POST", "/v1/tasks", {
        name: values.name.trim(),
        classes: linesOf(values.classes),
        features,
        display: image(values) ? { kind: "image", width, height, lowest, highest } : null,
        ...learnerOf(values),
        mode: values.mode,
        deadline_s: numberOrNull(values.deadline_s),
        silence: values.silence,
      });
      done(task);
    },
  });
};

export const changeTask = (task, done) =>
  openForm({
    title: `Settings for ${task.name}`,
    button: "Save",
    fields: [
      { name: "mode", label: "Mode", kind: "choice", options: MODES, value: task.mode },
      deadlineField(task.deadline_s),
      silenceField(task.silence),
      { name: "sure", label: "Minimum confidence", kind: "number", min: 0, max: 1, value: task.sure ?? "", hint: "Decisions with less are marked unsure; from 0 to 1. Leave empty for no minimum." },
      { name: "risk", label: "Risk", kind: "number", min: 0, max: 1, value: task.risk ?? "", hint: "Instead of a minimum confidence: the share of sure decisions that may be wrong, from 0 to 1. The minimum is then set automatically." },
    ],
    act: async (values) => {
      const [sure, risk] = [values.sure, values.risk].map(numberOrNull);
      const wanted = { mode: values.mode, deadline_s: numberOrNull(values.deadline_s), silence: values.silence, sure, risk };
      const changed = Object.entries(wanted).filter(([name, value]) => value !== task[name]);
      done(changed.length ? await call("PATCH", taskPath(task.name), Object.fromEntries(changed)) : task);
    },
  });

export const addClasses = (task, done) =>
  openForm({
    title: `Add classes to ${task.name}`,
    button: "Add",
    fields: [
      { name: "add_classes", label: "New classes", kind: "lines", required: true, hint: "One per line. A class can be retired later, but its index is never reused." },
    ],
    act: async (values) => done(await call("PATCH", taskPath(task.name), { add_classes: linesOf(values.add_classes) })),
  });

export const switchLearner = async (task, done) => {
  const learners = await learnersNow();
  const known = learners.some(({ name }) => name === task.learner);
  openForm({
    title: `Switch learner of ${task.name}`,
    intro: make("p", {
      className: "note",
      textContent: "The new learner is trained from the log while the current one keeps deciding, and takes over when training is done.",
    }),
    button: "Train and switch",
    fields: learnerFields(learners, known ? task.learner : learners[0]?.name),
    act: async (values) => done(await call("POST", taskPath(task.name, "/learner"), learnerOf(values))),
  });
};

export const deleteTask = (task, done) =>
  openForm({
    title: `Delete ${shortened(task.name)}?`,
    intro: make("p", {
      textContent: "The task stops deciding and disappears from this page. Its rows stay in the log, and its name can be used again.",
    }),
    button: "Delete",
    danger: true,
    fields: [],
    act: async () => done(await call("DELETE", taskPath(task.name))),
  });
