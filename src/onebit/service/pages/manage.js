// The forms of administrators: create a task, change it, switch its learner, delete it.
import { callService, taskPath } from "./api.js";
import { formatAmount, make, shorten } from "./dom.js";
import { openForm, parseParameters, splitLines } from "./form.js";

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
const makeDeadlineField = (value) => ({
  name: "deadline_s",
  label: "Feedback deadline (seconds)",
  kind: "number",
  value: value ?? "",
  hint: "Feedback after the deadline is kept but not learnt. Leave empty for no deadline.",
});
const makeSilenceField = (value) => ({
  name: "silence",
  label: "No feedback by the deadline means",
  kind: "choice",
  options: SILENCES,
  value,
  isVisible: (values) => values.deadline_s !== "",
});
const parseNumber = (text) => (text === "" ? null : Number(text));

// Fields to choose a learner, with its description and its parameters below.
const makeLearnerFields = (learners, chosen) => {
  const about = make("div", { className: "about" });
  const describe = (name) => {
    const learner = learners.find((candidate) => candidate.name === name);
    about.replaceChildren(make("p", { className: "note", textContent: learner?.summary ?? "" }));
    if (!learner?.parameters.length) return;
    const body = make("tbody");
    for (const parameter of learner.parameters) {
      body.append(
        make(
          "tr",
          {},
          make("th", { scope: "row" }, make("code", { textContent: parameter.name })),
          make("td", { textContent: String(parameter.default ?? "") }),
          make("td", { textContent: String(parameter.range ?? "") }),
          make("td", { textContent: String(parameter.meaning ?? "") }),
        ),
      );
    }
    const head = make("tr", {}, ...["Name", "Default", "Range", "Meaning"].map((textContent) => make("th", { scope: "col", textContent })));
    const table = make("table", {}, make("thead", {}, head), body);
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Parameters" }, table);
    about.append(make("details", {}, make("summary", { textContent: formatAmount(learner.parameters.length, "parameter") }), scroll));
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
      footer: about,
      isVisible: ({ learner }) => {
        if (about.dataset.of !== learner) describe((about.dataset.of = learner));
        return true;
      },
    },
    { name: "parameters", label: "Parameters", kind: "lines", rows: 2, hint: "One name=value per line. Leave empty for the defaults." },
    {
      name: "exploration_floor",
      label: "Exploration floor",
      kind: "number",
      hint: "From 0 to 1. The probability of playing a random class, whatever the learner prefers. Leave empty for the default.",
    },
  ];
};

const readLearner = (values) => ({
  learner: values.learner,
  parameters: parseParameters(values.parameters),
  exploration_floor: parseNumber(values.exploration_floor),
});

const fetchLearners = async () => (await callService("GET", "/v1/learners")).learners;

export const createTask = async (onSuccess) => {
  const learners = await fetchLearners();
  const preset = learners.some(({ name }) => name === "auto") ? "auto" : learners[0]?.name;
  const isNumbers = (values) => values.kind === "numbers";
  const isImage = (values) => isNumbers(values) && values.image;
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
        errorNames: ["features"],
      },
      { name: "size", label: "Number of values", kind: "number", min: 1, step: 1, required: true, errorNames: ["features", "size"], isVisible: isNumbers },
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
        errorNames: ["features", "hash_bits"],
        isVisible: (values) => !isNumbers(values),
      },
      { name: "image", label: "The numbers are the pixels of an image", kind: "check", errorNames: ["display"], isVisible: isNumbers },
      { name: "width", label: "Image width (pixels)", ...size, errorNames: ["display", "width"], isVisible: isImage },
      { name: "height", label: "Image height (pixels)", ...size, errorNames: ["display", "height"], isVisible: isImage },
      { name: "lowest", label: "Value of a white pixel", kind: "number", value: 0, required: true, errorNames: ["display", "lowest"], isVisible: isImage },
      { name: "highest", label: "Value of a black pixel", kind: "number", value: 1, required: true, errorNames: ["display", "highest"], isVisible: isImage },
      ...makeLearnerFields(learners, preset),
      { name: "mode", label: "Mode", kind: "choice", options: MODES, value: "learn" },
      makeDeadlineField(null),
      makeSilenceField("nothing"),
    ],
    act: async (values) => {
      const { kind } = values;
      const features = kind === "numbers" ? { kind, size: Number(values.size) } : { kind, hash_bits: Number(values.hash_bits) };
      const [width, height, lowest, highest] = [values.width, values.height, values.lowest, values.highest].map(Number);
      const task = await callService("POST", "/v1/tasks", {
        name: values.name.trim(),
        classes: splitLines(values.classes),
        features,
        display: isImage(values) ? { kind: "image", width, height, lowest, highest } : null,
        ...readLearner(values),
        mode: values.mode,
        deadline_s: parseNumber(values.deadline_s),
        silence: values.silence,
      });
      onSuccess(task);
    },
  });
};

export const changeTask = (task, onSuccess) =>
  openForm({
    title: `Settings for ${task.name}`,
    button: "Save",
    fields: [
      { name: "mode", label: "Mode", kind: "choice", options: MODES, value: task.mode },
      makeDeadlineField(task.deadline_s),
      makeSilenceField(task.silence),
      { name: "sure", label: "Minimum confidence", kind: "number", min: 0, max: 1, value: task.sure ?? "", hint: "From 0 to 1. Decisions with a lower confidence are marked unsure. Leave empty for no minimum." },
      { name: "risk", label: "Risk", kind: "number", min: 0, max: 1, value: task.risk ?? "", hint: "From 0 to 1. The share of sure decisions that may be wrong; the minimum confidence is then set automatically. Leave empty for none." },
    ],
    act: async (values) => {
      const [sure, risk] = [values.sure, values.risk].map(parseNumber);
      const settings = { mode: values.mode, deadline_s: parseNumber(values.deadline_s), silence: values.silence, sure, risk };
      const changed = Object.entries(settings).filter(([name, value]) => value !== task[name]);
      onSuccess(changed.length ? await callService("PATCH", taskPath(task.name), Object.fromEntries(changed)) : task);
    },
  });

export const addClasses = (task, onSuccess) =>
  openForm({
    title: `Add classes to ${task.name}`,
    button: "Add",
    fields: [
      { name: "add_classes", label: "New classes", kind: "lines", required: true, hint: "One per line. A class can be retired later, but its index is never reused." },
    ],
    act: async (values) => onSuccess(await callService("PATCH", taskPath(task.name), { add_classes: splitLines(values.add_classes) })),
  });

export const switchLearner = async (task, onSuccess) => {
  const learners = await fetchLearners();
  const isKnown = learners.some(({ name }) => name === task.learner);
  openForm({
    title: `Switch learner of ${task.name}`,
    intro: make("p", {
      className: "note",
      textContent: "The new learner is trained from the log while the current one keeps deciding, and takes over when training is done.",
    }),
    button: "Train and switch",
    fields: makeLearnerFields(learners, isKnown ? task.learner : learners[0]?.name),
    act: async (values) => onSuccess(await callService("POST", taskPath(task.name, "/learner"), readLearner(values))),
  });
};

export const deleteTask = (task, onSuccess) =>
  openForm({
    title: `Delete ${shorten(task.name)}?`,
    intro: make("p", {
      textContent: "The task stops deciding and disappears from this page. Its rows stay in the log, and its name can be used again.",
    }),
    button: "Delete",
    danger: true,
    fields: [],
    act: async () => onSuccess(await callService("DELETE", taskPath(task.name))),
  });
