// Written by tools/typescript.py from the OpenAPI document of the service. Do not edit.

import { Transport } from "./runtime.js";

export { OnebitError, type Options } from "./runtime.js";

/** Changes of a task; fields that are not given stay. */
export interface Change {
  add_classes?: (string | number)[];
  remove_classes?: (string | number)[];
  mode?: "learn" | "shadow" | "log-only" | null;
  deadline_s?: number | null;
  silence?: "nothing" | "wrong" | "right" | null;
  revise_within?: number | null;
  sure?: number | null;
  risk?: number | null;
}

/** How often a class was played, heard of, and right, with the ends of the 95 % interval of its right rate. */
export interface ClassStats {
  name: string | number;
  played: number;
  heard: number;
  right: number;
  right_rate: number | null;
  low: number | null;
  high: number | null;
}

/** The error after so many feedbacks, over all and since the point before; and the mean reward over all. */
export interface Curve {
  feedback: number[];
  error: number[];
  recent: number[];
  reward: number[];
}

/**
 * One x to decide on. The same id again gives the same answer; by default an id is generated.
 *
 * `among` lists the candidates, and `complete` says that the right class is one of them. A decision is sure from a confidence of `sure` on,
 * or such that at most the share `risk` of the sure ones is wrong; the defaults are those of the task.
 */
export interface DecideRequest {
  id?: string | null;
  among?: (string | number)[] | null;
  complete?: boolean;
  sure?: number | null;
  risk?: number | null;
  x: number[] | Record<string, number> | string;
}

/**
 * A decision. `version` is the generation of the learner, a dot, and how many feedbacks it had learnt.
 *
 * `among` are the classes that could be played, null if all could. `confidence` is the probability that the label is right, null
 * before there was any feedback; `unsure` says that it is below the required one.
 */
export interface DecisionReply {
  id: string;
  label: string | number;
  greedy: string | number;
  propensity: number;
  probabilities: Record<string, number>;
  version: string;
  among: (string | number)[] | null;
  confidence: number | null;
  unsure: boolean;
}

/** How many feedbacks came within each bound; the last count is beyond the last bound. */
export interface Delays {
  bounds_s: number[];
  counts: number[];
}

/** x is an object of names and numbers; names are hashed into 2^hash_bits columns. */
export interface DictFeatures {
  kind: "dict";
  hash_bits?: number;
}

/**
 * More mistakes than before, and too many for chance: after `feedback` feedbacks, at the row `seq` of the log.
 *
 * `usual` is the error that the task was used to, at the most, and `error` that of the last `since` feedbacks, in which it has risen.
 */
export interface DriftAlarm {
  seq: number;
  time: number;
  raised_at: string | null;
  feedback: number;
  since: number;
  usual: number;
  error: number;
}

/** How often a task began to err more than it used to, and the last of these alarms, oldest first. */
export interface DriftStats {
  count: number;
  alarms: DriftAlarm[];
}

/** What one value of x adds to the lead of a label. Names of this x that share a hashed column count together. */
export interface ExplanationPart {
  names: (string | number)[];
  value: number;
  contribution: number;
}

/**
 * Why a label rather than `rival`, the best of the others, according to the current learner: `lead` is the sum of parts, constant and rest.
 *
 * `left_out` parts are not shown, and `rest` is their sum.
 */
export interface ExplanationReply {
  id: string;
  label: string | number;
  rival: string | number;
  lead: number;
  parts: ExplanationPart[];
  constant: number;
  rest: number;
  left_out: number;
  version: string;
}

/** The share of the last decisions whose label was not the greedy one. */
export interface Exploration {
  window: number;
  rate: number | null;
}

/** The outcome of one feedback: accepted, revised, withdrawn, duplicate or late; in a batch also unknown or conflict, with a message. */
export interface FeedbackReply {
  id: string;
  status: "accepted" | "revised" | "withdrawn" | "duplicate" | "late" | "unknown" | "conflict";
  message?: string | null;
}

/**
 * Whether a decision was right, or its reward, from 0 to 1, or the class that would have been right: one of these.
 *
 * In shadow mode this refers to what was shown instead. With `revise` it replaces earlier feedback; with `withdraw`, and nothing else, that is withdrawn.
 */
export interface FeedbackRequest {
  id: string;
  right?: boolean | null;
  reward?: number | null;
  truth?: string | number | null;
  shown?: string | number | null;
  shown_propensity?: number | null;
  revise?: boolean;
  withdraw?: boolean;
}

/** How many decisions were forgotten, whether the learner kept or unlearnt them, and whether nothing of them is left where the log is kept. */
export interface ForgetReply {
  forgotten: number;
  learner: "kept" | "unlearnt";
  erased: boolean;
}

/** Which decisions are to be forgotten: those with some ids, or those made before a time, in seconds since 1970. With `unlearn` also what was learnt from them. */
export interface ForgetRequest {
  ids?: string[] | null;
  before?: number | null;
  unlearn?: boolean;
}

/** The process answers. */
export interface Health {
  status: "ok";
}

/** x is a picture, row after row; `lowest` is white and `highest` black. */
export interface Image {
  kind: "image";
  width: number;
  height: number;
  lowest?: number;
  highest?: number;
}

/** An item of the data of a task, to play with. */
export interface Item {
  number: number;
  of: number;
  x: number[] | Record<string, number> | string;
  truth: string | number;
}

/** A learner that a task can have. */
export interface LearnerKind {
  name: string;
  summary: string;
  parameters: LearnerParameter[];
}

/** A parameter of a learner. */
export interface LearnerParameter {
  name: string;
  default: unknown;
  range: string;
  meaning: string;
}

/** All learners with bandit feedback. */
export interface Learners {
  learners: LearnerKind[];
}

/**
 * A decision in the log, with the latest feedback on it, if any. `seq` is its position in the log.
 *
 * `revised_time` is when its feedback was revised, or withdrawn where `right` is null. `decided_at`, `feedback_at` and `revised_at` are the
 * times as texts.
 */
export interface LoggedDecision {
  id: string;
  label: string | number;
  greedy: string | number;
  propensity: number;
  probabilities: Record<string, number>;
  version: string;
  among: (string | number)[] | null;
  confidence: number | null;
  unsure: boolean;
  seq: number;
  time: number;
  weight: number;
  notes: number[];
  mode: "learn" | "shadow" | "log-only";
  x: number[] | Record<string, number> | string;
  right: boolean | null;
  feedback_time: number | null;
  late: boolean;
  source: "caller" | "silence" | null;
  shown: string | number | null;
  shown_propensity: number | null;
  reward: number | null;
  truth: string | number | null;
  revised_time: number | null;
  complete: boolean;
  raw: number | null;
  sure: number | null;
  decided_at: string | null;
  feedback_at: string | null;
  revised_at: string | null;
}

/** Decisions, the newest first. */
export interface LoggedDecisions {
  decisions: LoggedDecision[];
}

/** Which learner, with which parameters; an exploration floor or a seed of null means the default. */
export interface NewLearner {
  learner: string;
  parameters?: Record<string, unknown>;
  exploration_floor?: number | null;
  seed?: number | null;
}

/** A task to create: what is decided, and how it is learnt. */
export interface NewTask {
  learner?: string;
  parameters?: Record<string, unknown>;
  exploration_floor?: number | null;
  seed?: number | null;
  name: string;
  classes: (string | number)[] | number;
  features: NumbersFeatures | DictFeatures | TextFeatures;
  mode?: "learn" | "shadow" | "log-only";
  deadline_s?: number | null;
  silence?: "nothing" | "wrong" | "right";
  revise_within?: number | null;
  sure?: number | null;
  risk?: number | null;
  display?: Image | null;
  items?: string | null;
}

/** x is a list of so many numbers. */
export interface NumbersFeatures {
  kind: "numbers";
  size: number;
}

/** The one shape of all errors: problem details (RFC 9457). `detail` is the sentence of `error`, and `type` has its code. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  error: ProblemError;
}

/** What is wrong: a code for machines, a sentence for people, and the field. */
export interface ProblemError {
  code: string;
  message: string;
  field?: string | null;
}

/** A task that is quarantined, and why: its routes answer 503, and it can be deleted. */
export interface QuarantinedTask {
  name: string;
  reason: string;
}

/** Decisions and feedback per second over the last minute, and in each of the last 120 seconds, oldest first. */
export interface Rates {
  decisions_per_s: number;
  feedback_per_s: number;
  decisions: number[];
  feedback: number[];
}

/**
 * Whether decisions and feedback are accepted, and if not, why.
 *
 * `quarantined` has the tasks that are not served while all others are, and `warnings` what else should be looked after.
 */
export interface Readiness {
  ready: boolean;
  reason: string | null;
  quarantined: QuarantinedTask[];
  warnings: string[];
}

/** What a token may do; tasks of null means all of them. `open`: the service has no tokens. */
export interface Session {
  scopes: ("decide" | "feedback" | "read" | "admin")[];
  tasks: string[] | null;
  open: boolean;
}

/**
 * The error that the learner's own decisions would have had in the last rounds in which something else was shown, with a 95 % interval.
 *
 * It is estimated from the probabilities in the log (SNIPS); null where none of what was shown could have been played. `effective` is the number of
 * rounds of its own that would say as much, and `missing` the share of its probability on classes that could not be shown, as far as known, by which the
 * interval is widened.
 */
export interface ShadowStats {
  rounds: number;
  error: number | null;
  low: number;
  high: number;
  effective: number;
  missing: number;
}

/** The statistics of a task. */
export interface Stats {
  task: string;
  mode: "learn" | "shadow" | "log-only";
  learner: string;
  generation: number;
  learnt: number;
  position: number;
  queue: number;
  decisions: number;
  feedback: number;
  right: number;
  late: number;
  silences: number;
  refused: number;
  window: Window;
  rates: Rates;
  delays: Delays;
  classes: ClassStats[];
  exploration: Exploration;
  curve: Curve;
  revised: number;
  withdrawn: number;
  rewards: number;
  truths: number;
  mean_reward: number | null;
  certainty: SureStats;
  shadow: ShadowStats | null;
  drift: DriftStats;
}

/**
 * Of the decisions of which somebody asked whether they are sure: how many were, and how wrong those were.
 *
 * `answered` is the share that was sure, and `error` that of the sure ones that got feedback. `overshoot` is by how much the error is above the
 * `risk` of the task at least, at all times at once but for a probability of 0.05; null where the task has no risk. The curves have a number
 * for each point of `Curve`, null where there is none yet: of all feedbacks so far, which were of sure ones, and the error of those.
 */
export interface SureStats {
  asked: number;
  sure: number;
  answered: number | null;
  heard: number;
  wrong: number;
  error: number | null;
  risk: number | null;
  overshoot: number | null;
  answered_curve: (number | null)[];
  error_curve: (number | null)[];
}

/** The current state of a task. The classes in `retired` are never played again. */
export interface Task {
  name: string;
  classes: (string | number)[];
  learner: string;
  parameters: Record<string, unknown>;
  exploration_floor: number;
  features: NumbersFeatures | DictFeatures | TextFeatures;
  mode: "learn" | "shadow" | "log-only";
  deadline_s: number | null;
  silence: "nothing" | "wrong" | "right";
  display: Image | null;
  items: string | null;
  created: number;
  deleted: number | null;
  generation: number;
  learnt: number;
  position: number;
  training: Training | null;
  revise_within: number | null;
  retired: (string | number)[];
  sure: number | null;
  risk: number | null;
  created_at: string | null;
  deleted_at: string | null;
}

/** All tasks that the token may see. */
export interface Tasks {
  tasks: Task[];
  quarantined: QuarantinedTask[];
}

/** x is a text, read as the set of its words, which are hashed into 2^hash_bits columns. */
export interface TextFeatures {
  kind: "text";
  hash_bits?: number;
}

/** A learner that is being trained from the log, to take over. */
export interface Training {
  learner: string;
  done: number;
  of: number;
  error: string | null;
}

/** The versions and the CPU that the service runs on. States are the same bit for bit where all of these are the same. */
export interface Version {
  version: string;
  python: string;
  numba: string;
  numpy: string;
  cpu: string;
}

/** The error of the last feedbacks, with the ends of its 95 % interval. */
export interface Window {
  size: number;
  feedback: number;
  wrong: number;
  error: number | null;
  low: number | null;
  high: number | null;
  mean_reward: number | null;
}

export class Client extends Transport {
  /** Decide on one x or a list of them, among all classes or some, and log it; the same id again gives the same answer. */
  decide(task: string, body: DecideRequest): Promise<DecisionReply>;
  decide(task: string, body: DecideRequest[]): Promise<DecisionReply[]>;

  /** Report whether a decision, or each of a list, was right, its reward, or the class that was right; in any order, at any time. Revise or withdraw it. */
  feedback(task: string, body: FeedbackRequest): Promise<FeedbackReply>;
  feedback(task: string, body: FeedbackRequest[]): Promise<FeedbackReply[]>;

  /** The statistics of a task. */
  stats(task: string, query?: { window?: number }): Promise<Stats>;

  /** The last decisions of a task, the newest first; `before` is the seq of the last one seen. */
  decisions(task: string, query?: { limit?: number; before?: number | null }): Promise<LoggedDecisions>;

  /** One decision in the log. */
  decision(task: string, id: string): Promise<LoggedDecision>;

  /** Which features or words speak for the label of a decision, according to the current learner. */
  explanation(task: string, query: { id: string; top?: number }): Promise<ExplanationReply>;

  /** An item of the data of the task, to play with. */
  item(task: string, query: { number: number }): Promise<Item>;

  /** Train another learner from the log of the task; it takes over when the training is done. */
  switch(task: string, body: NewLearner): Promise<Task>;

  /** Forget decisions: they are deleted from the log with all their feedback, and their ids are not used again. */
  forget(task: string, body: ForgetRequest): Promise<ForgetReply>;

  /** The current state of a task. */
  task(task: string): Promise<Task>;

  /** Add classes to a task or retire some, or change its mode, deadline, meaning of silence, time limit for revisions, or required confidence. */
  change(task: string, body: Change): Promise<Task>;

  /** Delete a task: its rows stay in the log, and its name is free again. */
  delete(task: string): Promise<Task | QuarantinedTask>;

  /** Create a task. */
  create(body: NewTask): Promise<Task>;

  /** The tasks that the token may see. */
  tasks(): Promise<Tasks>;

  /** The learners that a task can have, and their parameters. */
  learners(): Promise<Learners>;

  /** Whether the process answers. */
  healthz(): Promise<Health>;

  /** Whether decisions and feedback are accepted, and if not, why; tasks that are quarantined, and warnings. */
  readyz(): Promise<Readiness>;

  /** The versions and the CPU that the service runs on; services that agree in these learn the same, bit for bit. */
  version(): Promise<Version>;
}
