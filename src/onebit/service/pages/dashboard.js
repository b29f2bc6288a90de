// The dashboard: all tasks, and one of them in full, updated every second while the tab is visible.
import { callService, fetchWarnings, isAllowed, isPlayable, poll, taskPath } from "./api.js";
import { byId, formatAmount, formatCount, formatPercent, formatRate, make, makeCommand, setText, updateChildren } from "./dom.js";
import { Figures } from "./figures.js";
import { addClasses, changeTask, createTask, deleteTask, switchLearner } from "./manage.js";
import { buildHeader, hideTrouble, showTrouble } from "./shell.js";

const INTERVAL_MS = 1000;
const OTHERS_PER_UPDATE = 3; // tasks that are only in the list: their statistics are fetched in turn

const session = await buildHeader("/").catch((error) => {
  showTrouble(error, () => location.reload(), "Try again");
  return null;
});
const figures = new Figures(() => updateNow());
const latestStats = new Map(); // the newest statistics by task
let tasks = [];
let nextOther = 0;
let updateNow = null;

const readChosenName = () => new URLSearchParams(location.hash.slice(1)).get("task");
const findChosen = () => tasks.find(({ name }) => name === readChosenName()) ?? tasks[0] ?? null;
const makeHash = (name) => `#${new URLSearchParams({ task: name })}`;
const isReadable = (task) => isAllowed(session, "read", task.name);

// ---- the list ----------------------------------------------------------------------------------------------------
const makeEntry = () => {
  const part = (className) => make("span", { className });
  return make("li", {}, make("a", {}, part("name"), part("error"), part("about"), part("rate")));
};

const showList = () => {
  const chosen = findChosen();
  updateChildren(
    byId("task-list"),
    tasks,
    ({ name }) => name,
    makeEntry,
    (item, task) => {
      const link = item.firstElementChild;
      const stats = latestStats.get(task.name);
      const [name, error, about, traffic] = link.children;
      link.href = makeHash(task.name);
      if (task === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
      setText(name, task.name);
      setText(about, `${task.mode} mode · ${task.learner}${task.mode === "shadow" ? " · error of shown classes" : ""}`);
      const hasError = stats && stats.window.error !== null;
      setText(error, hasError ? `${formatPercent(stats.window.error)} error` : "");
      setText(traffic, stats ? `${formatRate(stats.rates.decisions_per_s)} decisions/s, last minute` : "");
    },
  );
};

// ---- what needs attention ----------------------------------------------------------------------------------------
const showAttention = (quarantined, warnings) => {
  const items = [...quarantined.map(({ name, reason }) => ({ name, text: `${name} is quarantined: ${reason}` })), ...warnings.map((text) => ({ text }))];
  byId("attention").hidden = items.length === 0;
  updateChildren(
    byId("attention-list"),
    items,
    ({ text }) => text,
    ({ name }) => {
      const remove = () => deleteTask({ name }, () => announce(`${name} has been deleted.`));
      const canDelete = name !== undefined && isAllowed(session, "admin", name);
      return make("li", {}, make("span", { dir: "auto" }), canDelete ? makeTool("Delete", async () => remove(), "small danger-text") : null);
    },
    (item, { text }) => setText(item.firstElementChild, text),
  );
};

// ---- the chosen task ---------------------------------------------------------------------------------------------
const makeTool = (text, act, className = "") => {
  const button = make("button", { type: "button", textContent: text, className });
  button.addEventListener("click", () => act().catch((error) => showTrouble(error, hideTrouble, "Dismiss")));
  return button;
};

const announce = (text) => {
  setText(byId("news"), text);
  updateNow();
};

const makeTools = (task) => {
  const findNewest = () => tasks.find(({ name }) => name === task.name) ?? task;
  const elements = [];
  if (isPlayable(session, task)) {
    elements.push(make("a", { className: "button", href: `/play/${encodeURIComponent(task.name)}`, textContent: "Play" }));
  }
  if (isAllowed(session, "admin", task.name)) {
    const announceChange = ({ name }) => announce(`${name} has been changed.`);
    elements.push(
      makeTool("Settings", async () => changeTask(findNewest(), announceChange)),
      makeTool("Add classes", async () => addClasses(findNewest(), announceChange)),
      makeTool("Switch learner", () => switchLearner(findNewest(), ({ name }) => announce(`A new learner for ${name} is being trained.`))),
      makeTool("Delete", async () => deleteTask(findNewest(), ({ name }) => announce(`${name} has been deleted.`)), "danger-text"),
    );
  }
  return elements;
};

const describeFeatures = ({ features }) =>
  features.kind === "numbers"
    ? `${formatCount(features.size)} numbers`
    : `${features.kind === "text" ? "text" : "named numbers"}, hashed to ${features.hash_bits} bits`;

const showTask = (task) => {
  const article = byId("task");
  if (article.dataset.of !== task.name) {
    article.dataset.of = task.name;
    byId("task-tools").replaceChildren(...makeTools(task));
    figures.reset();
  }
  document.title = `${task.name} · onebit`;
  setText(byId("task-name"), task.name);
  const silence = task.silence === "nothing" ? "is ignored" : `counts as ${task.silence}`;
  const deadline = task.deadline_s === null ? "no deadline" : `deadline ${task.deadline_s} s, silence ${silence}`;
  const sure = task.sure !== null ? ` · minimum confidence ${formatPercent(task.sure)}` : task.risk !== null ? ` · risk ${formatPercent(task.risk)}` : "";
  setText(byId("task-facts"), `${task.mode} mode · ${formatCount(task.classes.length)} classes · ${describeFeatures(task)} · ${deadline}${sure}`);
  const { training } = task;
  byId("training").hidden = training === null;
  if (training) {
    const hasFailed = training.error !== null;
    const done = `${formatCount(training.done)} of ${formatAmount(training.of, "feedback")}`;
    setText(byId("training-text"), hasFailed ? `Training ${training.learner} failed: ${training.error}` : `Training ${training.learner}: ${done}`);
    byId("training-done").hidden = hasFailed;
    Object.assign(byId("training-done"), { max: Math.max(training.of, 1), value: training.done });
  }
  byId("unreadable").hidden = isReadable(task);
  byId("figures").hidden = !isReadable(task) || !latestStats.has(task.name);
};

// ---- no tasks ----------------------------------------------------------------------------------------------------
const buildExample = () => {
  const body = '{"name": "animals", "classes": ["cat", "dog", "owl"], "features": {"kind": "text"}}';
  const token = session.open ? "" : ' \\\n  -H "Authorization: Bearer $TOKEN"';
  return `curl ${location.origin}/v1/tasks${token} \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`;
};

const showNoTasks = () => {
  document.title = "Tasks · onebit";
  const place = byId("nothing-may");
  if (place.children.length) return;
  if (isAllowed(session, "admin")) {
    const create = make("button", { type: "button", className: "primary", textContent: "Create a task" });
    create.addEventListener("click", openCreateForm);
    const play = make("a", { className: "button", href: "/play/digits", textContent: "Play with digits" });
    place.append(
      make("div", { className: "toolbar" }, create, play),
      make("p", { textContent: "Or from a terminal:" }),
      makeCommand(buildExample(), "command to create a task"),
    );
  } else {
    place.append(make("p", { textContent: "This token has no access to any task and cannot create one: that requires scope 'admin' for all tasks." }));
  }
};

const openCreateForm = () =>
  createTask((task) => {
    location.hash = makeHash(task.name);
    announce(`${task.name} has been created.`);
  }).catch((error) => showTrouble(error, hideTrouble, "Dismiss"));

// ---- every second ------------------------------------------------------------------------------------------------
const fetchStats = async (task, window) => {
  try {
    latestStats.set(task.name, await callService("GET", taskPath(task.name, `/stats?window=${window}`)));
  } catch (error) {
    // The task was deleted or quarantined since the list was fetched.
    if (error.status !== 404 && error.code !== "quarantined") throw error;
  }
};

const pickOthers = () => {
  const others = tasks.filter((task) => task !== findChosen() && isReadable(task));
  const picked = Array.from({ length: Math.min(OTHERS_PER_UPDATE, others.length) }, (_, place) => others[(nextOther + place) % others.length]);
  nextOther += picked.length;
  return picked;
};

const update = async () => {
  const [list, warnings] = await Promise.all([callService("GET", "/v1/tasks"), fetchWarnings()]);
  tasks = list.tasks;
  showAttention(list.quarantined, warnings);
  const task = findChosen();
  byId("nothing").hidden = task !== null;
  byId("task").hidden = task === null;
  if (task === null) {
    showList();
    showNoTasks();
    return;
  }
  const updated = [...(isReadable(task) ? [task] : []), ...pickOthers()];
  await Promise.all(updated.map((other) => fetchStats(other, figures.window)));
  showList();
  if (task !== findChosen()) return; // another was chosen meanwhile, which has its own update
  showTask(task);
  if (isReadable(task) && latestStats.has(task.name)) await figures.show(task, latestStats.get(task.name));
};

if (session) {
  byId("create").hidden = !isAllowed(session, "admin");
  byId("create").addEventListener("click", openCreateForm);
  updateNow = poll(update, {
    intervalMs: INTERVAL_MS,
    onRecovery: hideTrouble,
    onError: (error, seconds) => showTrouble(error, () => updateNow(), "Try now", `Next attempt in ${seconds} s.`),
  });
  addEventListener("hashchange", () => {
    showList();
    if (findChosen()) showTask(findChosen());
    updateNow();
  });
}
