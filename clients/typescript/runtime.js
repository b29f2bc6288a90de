// How requests are sent, and sent again. Written by hand; tools/typescript.py writes index.js and index.d.ts.

const NOT_DONE = new Set([429, 503]); // nothing was done: any request may be sent again
const IN_DOUBT = new Set([408, 502, 504]); // nobody knows: only what is done once however often it comes may be
const PATIENCE = 12; // times the timeout, for requests that may have to compile a learner first
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

export class OnebitError extends Error {
  constructor(message, { status = null, code, field = null, problem = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "OnebitError";
    Object.assign(this, { status, code, field, problem });
  }
}

export class Transport {
  #base;
  #token;
  #attempts;
  #timeoutMs;
  #fetch;

  constructor(url, { token = null, attempts = 4, timeoutMs = 10_000, fetch = globalThis.fetch } = {}) {
    this.#base = String(url).replace(/\/+$/, "");
    this.#token = token;
    this.#attempts = attempts;
    this.#timeoutMs = timeoutMs;
    this.#fetch = fetch;
  }

  // An operation has its `method`, the statuses that are an answer (`good`), whether it may be sent twice (`repeatable`), and
  // whether it may take long (`patient`).
  async _send(operation, path, query = {}, body = undefined) {
    let last = null;
    for (let attempt = 1; attempt <= this.#attempts; attempt += 1) {
      if (last !== null) await pause(attempt, last.after);
      last = await this.#once(operation, path, query, body);
      if (last.error === null) return last.value;
      if (!(last.notDone || (last.inDoubt && operation.repeatable))) break;
    }
    throw last.error;
  }

  async #once({ method, good, patient }, path, query, body) {
    const headers = { accept: "application/json" };
    if (this.#token !== null) headers.authorization = `Bearer ${this.#token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const address = `${this.#base}${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
    const signal = AbortSignal.timeout(this.#timeoutMs * (patient ? PATIENCE : 1));
    let reply, text;
    try {
      reply = await this.#fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
      text = await reply.text();
    } catch (cause) {
      const error = new OnebitError(`the service does not answer at ${this.#base}`, { code: "unreachable", cause });
      return { error, notDone: false, inDoubt: true, after: null };
    }
    return read(reply, text, good);
  }
}

const read = (reply, text, good) => {
  const { status, headers } = reply;
  const kind = (headers.get("content-type") ?? "").split(";")[0];
  const outcome = { error: null, notDone: NOT_DONE.has(status), inDoubt: IN_DOUBT.has(status), after: Number(headers.get("retry-after")) || null };
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // it is not JSON: something else answers there
  }
  if (good.includes(status) && kind === "application/json" && value !== null) return { ...outcome, value };
  if (value?.error?.code) {
    const { code, message, field } = value.error;
    return { ...outcome, error: new OnebitError(message, { status, code, field, problem: value }) };
  }
  return { ...outcome, error: new OnebitError(`something else than the service answers, with status ${status}`, { status, code: "unexpected" }) };
};

// Drawn evenly, so that many clients do not come back at once; never sooner than the service says.
const pause = (attempt, afterS) => {
  const drawn = Math.random() * Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
  return new Promise((resolve) => setTimeout(resolve, Math.max(drawn, 1000 * (afterS ?? 0))));
};

// A part of a path. URLs cannot have one of dots alone: it would lead elsewhere.
export const segment = (text) => {
  if (/^\.{0,2}$/.test(text)) throw new OnebitError(`${JSON.stringify(text)} cannot be a part of an address`, { code: "invalid" });
  return encodeURIComponent(text);
};

// Decisions with ids, so that a request that is sent twice is one decision.
export const identified = (body) => {
  const one = (asked) => (asked.id === undefined || asked.id === null ? { ...asked, id: crypto.randomUUID() } : asked);
  return Array.isArray(body) ? body.map(one) : one(body);
};
