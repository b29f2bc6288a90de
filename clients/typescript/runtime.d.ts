// The types of runtime.js. Written by hand.
import type { Problem } from "./index.js";

export interface Options {
  /** A token of `onebit token create`. */
  token?: string | null;
  /** How often a request is sent at the most. */
  attempts?: number;
  /** How long an answer may take; twelve times as long where a learner may have to be compiled first. */
  timeoutMs?: number;
  fetch?: typeof globalThis.fetch;
}

/** What goes wrong. `status` is null, and `code` is "unreachable", where no reply came. */
export class OnebitError extends Error {
  readonly status: number | null;
  readonly code: string;
  readonly field: string | null;
  readonly problem: Problem | null;
}

export class Transport {
  /** `url` is where the service listens, such as http://127.0.0.1:8000. */
  constructor(url: string | URL, options?: Options);
}
