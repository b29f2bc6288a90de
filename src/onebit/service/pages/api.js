// Requests to the service, and the loop that repeats them.

export class ServiceError extends Error {
  constructor(status, { code, message, field = null }) {
    super(message);
    Object.assign(this, { status, code, field });
  }
}

const TIMEOUT_MS = { GET: 20000, OTHERS: 120000 }; // the learner of a new task may have to be compiled first

export const callService = async (method, path, body) => {
  const options = { method, signal: AbortSignal.timeout(TIMEOUT_MS[method] ?? TIMEOUT_MS.OTHERS), cache: "no-cache" }; // an unchanged reply is not sent again
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
    if (!reply) throw new ServiceError(0, { code: "unreachable", message: "The service is not responding." });
    if (!(error instanceof SyntaxError)) throw new ServiceError(0, { code: "unreachable", message: "The connection was lost before the reply was complete." });
  }
  if (reply.ok) return value;
  throw new ServiceError(reply.status, value?.error ?? { code: "unknown", message: `The service replied with status ${reply.status}.` });
};

// Return why the service is not ready, and its warnings. A service that is not ready replies with 503, which is no error here.
export const fetchWarnings = async () => {
  const reply = await fetch("/readyz", { signal: AbortSignal.timeout(TIMEOUT_MS.GET), cache: "no-store" }).catch(() => null);
  const { reason = null, warnings = [] } = (await reply?.json().catch(() => null)) ?? {};
  return [...(reason === null ? [] : [`The service is not ready: ${reason}`]), ...warnings];
};

export const taskPath = (name, suffix = "") => `/v1/tasks/${encodeURIComponent(name)}${suffix}`;

// Whether the token has a scope for a task; without a task, for any task.
export const isAllowed = (session, scope, task = null) =>
  session.scopes.includes(scope) && (session.tasks === null || task === null || session.tasks.includes(task));

// Whether a person can be shown the inputs of a task, and so play it.
export const isShowable = (task) => task.display !== null || task.features.kind === "text";

export const isPlayable = (session, task) => isShowable(task) && isAllowed(session, "decide", task.name) && isAllowed(session, "feedback", task.name);

const LONGEST_PAUSE_S = 30;

// Call `work` every `intervalMs` while the tab is visible. After an error call `onError(error, seconds)` with the time to
// the next attempt, which doubles each time; after the next success, `onRecovery()`. Return a function that runs `work` now.
export const poll = (work, { intervalMs, onRecovery, onError }) => {
  let timer = null;
  let isRunning = false;
  let isRequested = false;
  let failures = 0;
  const schedule = (seconds) => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(run, 1000 * seconds);
  };
  const run = async () => {
    clearTimeout(timer);
    if (isRunning) {
      isRequested = true;
      return;
    }
    isRunning = true;
    try {
      do {
        isRequested = false;
        await work();
      } while (isRequested);
      if (failures) onRecovery();
      failures = 0;
      schedule(intervalMs / 1000);
    } catch (error) {
      if (!(error instanceof ServiceError)) console.error(error);
      const seconds = Math.min(2 ** failures++, LONGEST_PAUSE_S);
      onError(error, seconds);
      schedule(seconds);
    } finally {
      isRunning = false;
    }
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : run()));
  run();
  return run;
};
