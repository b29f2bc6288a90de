// Calls of the service, and the loop that asks it again and again.

export class Refused extends Error {
  constructor(status, { code, message, field = null }) {
    super(message);
    Object.assign(this, { status, code, field });
  }
}

const PATIENCE_MS = { GET: 20000, OTHERS: 120000 }; // a new task may have to be compiled first

export const call = async (method, path, body) => {
  const options = { method, signal: AbortSignal.timeout(PATIENCE_MS[method] ?? PATIENCE_MS.OTHERS), cache: "no-cache" }; // what has not changed is not sent again
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  let reply;
  let value = null;
  try {
    reply = await fetch(path, options);
    const text = await reply.text();
    value = text ? JSON.parse(text) : null;
  } catch (error) {
    if (!reply) throw new Refused(0, { code: "unreachable", message: "The service is not responding." });
    if (!(error instanceof SyntaxError)) throw new Refused(0, { code: "unreachable", message: "The connection was lost before the reply was complete." });
  }
  if (reply.ok) return value;
  throw new Refused(reply.status, value?.error ?? { code: "unknown", message: `The service replied with status ${reply.status}.` });
};

// What must be looked after: why the service is not ready, and its warnings. That it is not ready is an answer, and no failure.
export const readiness = async () => {
  const reply = await fetch("/readyz", { signal: AbortSignal.timeout(PATIENCE_MS.GET), cache: "no-store" }).catch(() => null);
  const { reason = null, warnings = [] } = (await reply?.json().catch(() => null)) ?? {};
  return [...(reason === null ? [] : [`The service is not ready: ${reason}`]), ...warnings];
};

export const taskPath = (name, rest = "") => `/v1/tasks/${encodeURIComponent(name)}${rest}`;

// Whether the token may do something with a task; without a task, with any.
export const may = (session, scope, task = null) =>
  session.scopes.includes(scope) && (session.tasks === null || task === null || session.tasks.includes(task));

// Whether there is something to show of a task, so that a person can play it.
export const showable = (task) => task.display !== null || task.features.kind === "text";

export const mayPlay = (session, task) => showable(task) && may(session, "decide", task.name) && may(session, "feedback", task.name);

// Calls `work` every `every` milliseconds while the tab is seen. When it fails, `failed(error, seconds)` is told when the
// next try is, which is later each time; when it works again, `works()` is told. Returns a function that tries at once.
export const poll = (work, { every, works, failed }) => {
  const LONGEST_S = 30;
  let timer = null;
  let running = false;
  let again = false;
  let failures = 0;
  const later = (seconds) => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(turn, 1000 * seconds);
  };
  const turn = async () => {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
      if (failures) works();
      failures = 0;
      later(every / 1000);
    } catch (error) {
      if (!(error instanceof Refused)) console.error(error);
      const seconds = Math.min(2 ** failures++, LONGEST_S);
      failed(error, seconds);
      later(seconds);
    } finally {
      running = false;
    }
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : turn()));
  turn();
  return turn;
};
