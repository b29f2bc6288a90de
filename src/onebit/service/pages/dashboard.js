// The dashboard: all tasks, and one of them in full, asked for anew every second while the tab is seen.
import { call, may, mayPlay, poll, readiness, taskPath } from "./api.js";
import { byId, command, count, countOf, keyed, make, percent, rate, say } from "./dom.js";
import { Figures } from "./figures.js";
import { addClasses, changeTask, createTask, deleteTask, switchLearner } from "./manage.js";
import { noTrouble, shell, trouble } from "./shell.js";

const EVERY_MS = 1000;
const OTHERS_A_TURN = 3; // statistics of tasks that are only in the list, asked for in turn

const session = await shell("/").catch((error) => {
  trouble(error, () => location.reload(), "Try again");
  return null;
});
const figures = new Figures(() => turn());
const known = new Map(); // the newest statistics by task
let tasks = [];
let turnOf = 0;
let turn = null;

const chosenName = () => new URLSearchParams(location.hash.slice(1)).get("task");
const chosen = () => tasks.find(({ name }) => name === chosenName()) ?? tasks[0] ?? null;
const hashOf = (name) => `#${new URLSearchParams({ task: name })}`;
const readable = (task) => may(session, "read", task.name);

// ---- the list ----------------------------------------------------------------------------------------------------
const entry = () => {
  const part = (className) => make("span", { className });
  return make("li", {}, make("a", {}, part("name"), part("error"), part("about"), part("rate")));
};

const showList = () => {
  const now = chosen();
  keyed(
    byId("task-list"),
    tasks,
    ({ name }) => name,
    entry,
    (item, task) => {
      const link = item.firstElementChild;
      const stats = known.get(task.name);
      const [name, error, about, traffic] = link.children;
      link.href = hashOf(task.name);
      if (task === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
      say(name, task.name);
      say(about, `${task.mode} mode · ${task.learner}${task.mode === "shadow" ? " · error of shown classes" : ""}`);
      const heard = stats && stats.window.error !== null;
      say(error, heard ? `${percent(stats.window.error)} error` : "");
      say(traffic, stats ? `${rate(stats.rates.decisions_per_s)} decisions per second, last minute` : "");
    },
  );
};

// ---- what is to be looked after ------------------------------------------------------------------------------------
const showAttention = (aside, warnings) => {
  const items = [...aside.map(({ name, reason }) => ({ name, text: `${name} is quarantined: ${reason}` })), ...warnings.map((text) => ({ text }))];
  byId("attention").hidden = items.length === 0;
  keyed(
    byId("attention-list"),
    items,
    ({ text }) => text,
    ({ name }) => {
      const remove = () => deleteTask({ name }, () => news(`${name} has been deleted.`));
      const offered = name !== undefined && may(session, "admin", name);
      return make("li", {}, make("span", { dir: "auto" }), offered ? tool("Delete", async () => remove(), "small danger-text") : null);
    },
    (item, { text }) => say(item.firstElementChild, text),
  );
};

// ---- the chosen task ---------------------------------------------------------------------------------------------
const tool = (text, act, className = "") => {
  const button = make("button", { type: "button", textContent: text, className });
  button.addEventListener("click", () => act().catch((error) => trouble(error, noTrouble, "Dismiss")));
  return button;
};

const news = (text) => {
  say(byId("news"), text);
  turn();
};

const tools = (task) => {
  const now = () => tasks.find(({ name }) => name === task.name) ?? task;
  const all = [];
  if (mayPlay(session, task)) {
    all.push(make("a", { className: "button", href: `/play/${encodeURIComponent(task.name)}`, textContent: "Play" }));
  }
  if (may(session, "admin", task.name)) {
    const saved = ({ name }) => news(`${name} has been changed.`);
    all.push(
      tool("Settings", async () => changeTask(now(), saved)),
      tool("Add classes", async () => addClasses(now(), saved)),
      tool("Switch learner", () => switchLearner(now(), ({ name }) => news(`A new learner for ${name} is being trained.`))),
      tool("Delete", async () => deleteTask(now(), ({ name }) => news(`${name} has been deleted.`)), "danger-text"),
    );
  }
  return all;
};

const featuresText = ({ features }) =>
  features.kind === "numbers"
    ? `${count(features.size)} numbers`
    : `${features.kind === "text" ? "text" : "named numbers"}, hashed to ${features.hash_bits} bits`;

const showTask = (task) => {
  const article = byId("task");
  if (article.dataset.of !== task.name) {
    article.dataset.of = task.name;
    byId("task-tools").replaceChildren(...tools(task));
    figures.forget();
  }
  document.title = `${task.name} · onebit`;
  say(byId("task-name"), task.name);
  const silence = task.silence === "nothing" ? "is ignored" : `counts as ${task.silence}`;
  const deadline = task.deadline_s === null ? "no deadline" : `deadline ${task.deadline_s} s, silence ${silence}`;
  const sure = task.sure !== null ? ` · minimum confidence ${percent(task.sure)}` : task.risk !== null ? ` · risk ${percent(task.risk)}` : "";
  say(byId("task-facts"), `${task.mode} mode · ${count(task.classes.length)} classes · ${featuresText(task)} · ${deadline}${sure}`);
  const { training } = task;
  byId("training").hidden = training === null;
  if (training) {
    const failed = training.error !== null;
    const done = `${count(training.done)} of ${countOf(training.of, "feedback")}`;
    say(byId("training-text"), failed ? `Training ${training.learner} failed: ${training.error}` : `Training ${training.learner}: ${done}`);
    byId("training-done").hidden = failed;
    Object.assign(byId("training-done"), { max: Math.max(training.of, 1), value: training.done });
  }
  byId("unreadable").hidden = readable(task);
  byId("figures").hidden = !readable(task) || !known.has(task.name);
};

// ---- nothing there -----------------------------------------------------------------------------------------------
const example = () => {
  const body = '{"name": "animals", "classes": ["cat", "dog", "owl"], "features": {"kind": "text"}}';
  const token = session.open ? "" : ' \\\n  -H "Authorization: Bearer $TOKEN"';
  return `curl ${location.origin}/v1/tasks${token} \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`;
};

const showNothing = () => {
  document.title = "Tasks · onebit";
  const place = byId("nothing-may");
  if (place.children.length) return;
  if (may(session, "admin")) {
    const create = make("button", { type: "button", className: "primary", textContent: "Create a task" });
    create.addEventListener("click", startCreating);
    const play = make("a", { className: "button", href: "/play/digits", textContent: "Play with digits" });
    place.append(
      make("div", { className: "toolbar" }, create, play),
      make("p", { textContent: "Or from a terminal:" }),
      command(example(), "command to create a task"),
    );
  } else {
    place.append(make("p", { textContent: "This token has no access to any task and cannot create one: that requires scope 'admin' for all tasks." }));
  }
};

const startCreating = () =>
  createTask((task) => {
    location.hash = hashOf(task.name);
    news(`${task.name} has been created.`);
  }).catch((error) => trouble(error, noTrouble, "Dismiss"));

// ---- every second ------------------------------------------------------------------------------------------------
const statsOf = async (task, window) => {
  try {
    known.set(task.name, await call("GET", taskPath(task.name, `/stats?window=${window}`)));
  } catch (error) {
    // It was deleted, or quarantined, since the list was asked for.
    if (error.status !== 404 && error.code !== "quarantined") throw error;
  }
};

const others = () => {
  const rest = tasks.filter((task) => task !== chosen() && readable(task));
  const some = Array.from({ length: Math.min(OTHERS_A_TURN, rest.length) }, (_, place) => rest[(turnOf + place) % rest.length]);
  turnOf += some.length;
  return some;
};

const work = async () => {
  const [listed, warnings] = await Promise.all([call("GET", "/v1/tasks"), readiness()]);
  tasks = listed.tasks;
  showAttention(listed.quarantined, warnings);
  const task = chosen();
  byId("nothing").hidden = task !== null;
  byId("task").hidden = task === null;
  if (task === null) {
    showList();
    showNothing();
    return;
  }
  const asked = [...(readable(task) ? [task] : []), ...others()];
  await Promise.all(asked.map((one) => statsOf(one, figures.window)));
  showList();
  if (task !== chosen()) return; // another was chosen meanwhile, and has its own turn
  showTask(task);
  if (readable(task) && known.has(task.name)) await figures.show(task, known.get(task.name));
};

if (session) {
  byId("create").hidden = !may(session, "admin");
  byId("create").addEventListener("click", startCreating);
  turn = poll(work, {
    every: EVERY_MS,
    works: noTrouble,
    failed: (error, seconds) => trouble(error, () => turn(), "Try now", `Next attempt in ${seconds} s.`),
  });
  addEventListener("hashchange", () => {
    showList();
    if (chosen()) showTask(chosen());
    turn();
  });
}
