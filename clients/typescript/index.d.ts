// Written by tools/typescript.py from the OpenAPI document of the service. Do not edit.

import { Transport } from "./runtime.js";

export { OnebitError, type Options } from "./runtime.js";

/** Changes to a task; fields that are not given keep their values. */
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

/** How often a class was played, got feedback and was right, with a 95 % interval of its right rate. */
export interface ClassStats {
  name: string | number;
  played: number;
  heard: number;
  right: number;
  right_rate: number | null;
  low: number | null;
  high: number | null;
}

/** The error and mean reward by number of feedbacks; `recent` is the error since the previous point. */
export interface Curve {
  feedback: number[];
  error: number[];
  recent: number[];
  reward: number[];
}

/**
 * One x to decide on. The same id always gives the same answer; by default an id is generated.
 *
 * `among` lists the candidates, and `complete` says that the right class is one of them. A decision is sure if its confidence is at least `sure`,
 * or if it is among decisions of which at most the share `risk` is wrong; the defaults are those of the task.
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
 * A decision on one x.
 *
 * `version` is the generation of the learner, a dot, and the number of feedbacks it had learnt. `among` are the classes that could be played, null if all
 * could. `confidence` is the probability that the label is right, null before there was any feedback; `unsure` says that it is below the required one.
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

/** How many feedbacks arrived within each bound; the last count is of those beyond the last bound. */
export interface Delays {
  bounds_s: number[];
  counts: number[];
}

/** x is an object that maps names to numbers; names are hashed into 2^hash_bits columns. */
export interface DictFeatures {
  kind: "dict";
  hash_bits?: number;
}

/**
 * A rise of the error beyond chance, detected after `feedback` feedbacks, at row `seq` of the log.
 *
 * `usual` is an upper bound on the usual error of the task, and `error` the error over the last `since` feedbacks, during which it has risen.
 */
export interface DriftAlarm {
  seq: number;
  time: number;
  feedback: number;
  since: number;
  usual: number;
  error: number;
}

/** How often the error of a task has risen, and the last of these alarms, oldest first. */
export interface DriftStats {
  count: number;
  alarms: DriftAlarm[];
}

/**
 * How much one value of x adds to the lead of a label.
 *
 * Names of this x that share a hashed column count together.
 */
export interface ExplanationPart {
  names: (string | number)[];
  value: number;
  contribution: number;
}

/**
 * Why the current learner prefers a label to `rival`, the best of the other labels.
 *
 * `lead` is the sum of `parts`, `constant` and `rest`. `left_out` parts are not shown, and `rest` is their sum.
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

/**
 * The outcome of one feedback: accepted, revised, withdrawn, duplicate or late.
 *
 * In a batch also unknown or conflict, with a message.
 */
export interface FeedbackReply {
  id: string;
  status: "accepted" | "revised" | "withdrawn" | "duplicate" | "late" | "unknown" | "conflict";
  message?: string | null;
}

/**
 * Whether a decision was right, or its reward from 0 to 1, or the class that would have been right.
 *
 * Give one of these. In shadow mode it refers to what was shown instead. With `revise` it replaces earlier feedback; `withdraw`, given alone, withdraws it.
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

/**
 * How many decisions were forgotten, and whether the learner kept or unlearnt them.
 *
 * `erased` says whether they are completely erased from the storage of the log.
 */
export interface ForgetReply {
  forgotten: number;
  learner: "kept" | "unlearnt";
  erased: boolean;
}

/**
 * The decisions to forget: those with given ids, or those made before a time in seconds since 1970.
 *
 * With `unlearn`, the learner also forgets what it learnt from them.
 */
export interface ForgetRequest {
  ids?: string[] | null;
  before?: number | null;
  unlearn?: boolean;
}

/** The state of the process: it is ok if it answers at all. */
export interface Health {
  status: "ok";
}

/** x is an image, row by row; the value `lowest` is white and `highest` is black. */
export interface Image {
  kind: "image";
  width: number;
  height: number;
  lowest?: number;
  highest?: number;
}

/** An item of a task's demo data. */
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

/** All learners that can learn from bandit feedback. */
export interface Learners {
  learners: LearnerKind[];
}

/**
 * A decision in the log, with the latest feedback on it, if any. `seq` is its position in the log.
 *
 * `revised_time` is when its feedback was revised, or withdrawn if `right` is null.
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
}

/** Decisions, newest first. */
export interface LoggedDecisions {
  decisions: LoggedDecision[];
}

/** A learner and its parameters; null for the exploration floor or the seed means the default. */
export interface NewLearner {
  learner: string;
  parameters?: Record<string, unknown>;
  exploration_floor?: number | null;
  seed?: number | null;
}

/** A task to create: what it decides, and how it learns. */
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

/** x is a list of `size` numbers. */
export interface NumbersFeatures {
  kind: "numbers";
  size: number;
}

/**
 * The format of all errors: problem details (RFC 9457).
 *
 * `detail` is the message of `error`, and `type` contains its code.
 */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  error: ProblemError;
}

/** What is wrong: a code for programs, a message for people, and the field. */
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

/**
 * Decisions and feedback per second over the last minute, and in each of the last 120 seconds.
 *
 * The lists begin with the oldest second.
 */
export interface Rates {
  decisions_per_s: number;
  feedback_per_s: number;
  decisions: number[];
  feedback: number[];
}

/**
 * Whether decisions and feedback are accepted, and if not, why.
 *
 * `quarantined` lists the tasks that are not served while all others are; `warnings` lists other problems for the operator.
 */
export interface Readiness {
  ready: boolean;
  reason: string | null;
  quarantined: QuarantinedTask[];
  warnings: string[];
}

/** What a token may do; null for `tasks` means all tasks. `open`: the service has no tokens. */
export interface Session {
  scopes: ("decide" | "feedback" | "read" | "admin")[];
  tasks: string[] | null;
  open: boolean;
}

/**
 * The estimated error of the learner's own decisions while something else was shown.
 *
 * It is estimated over the last such rounds from the probabilities in the log (SNIPS), with a 95 % interval; null if nothing that was shown could have been
 * played. `effective` is the number of rounds of its own decisions that would give as much information. `missing` is the share of its probability on classes
 * that could not be shown, as far as known, by which the interval is widened.
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
 * How many decisions with a required confidence or risk were sure, and how many of those were wrong.
 *
 * `answered` is the share that was sure, and `error` the error of those sure decisions that got feedback. `overshoot` is a lower bound on how far the error
 * exceeds the `risk` of the task, valid at all times at once except with probability 0.05; null if the task has no risk. The curves have a number
 * for each point of `Curve`, or null where there is none yet: the share of sure decisions among those with feedback so far, and the error of the sure ones.
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
}

/** All tasks that the token may see. */
export interface Tasks {
  tasks: Task[];
  quarantined: QuarantinedTask[];
}

/** x is a string, read as the set of its words, which are hashed into 2^hash_bits columns. */
export interface TextFeatures {
  kind: "text";
  hash_bits?: number;
}

/** A learner that is being trained from the log to take over. */
export interface Training {
  learner: string;
  done: number;
  of: number;
  error: string | null;
}

/**
 * The versions and the CPU that the service runs on.
 *
 * If all of these agree, learners are bit for bit the same.
 */
export interface Version {
  version: string;
  python: string;
  numba: string;
  numpy: string;
  cpu: string;
}

/** The error over the last feedbacks, with its 95 % interval. */
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
  /** Decide on one x or a list of them, and log it; a repeated id gets the same answer again. */
  decide(task: string, body: DecideRequest): Promise<DecisionReply>;
  decide(task: string, body: DecideRequest[]): Promise<DecisionReply[]>;

  /** Report, revise or withdraw feedback on one decision or a list of them, in any order, at any time. */
  feedback(task: string, body: FeedbackRequest): Promise<FeedbackReply>;
  feedback(task: string, body: FeedbackRequest[]): Promise<FeedbackReply[]>;

  /** Return the statistics of a task. */
  stats(task: string, query?: { window?: number }): Promise<Stats>;

  /** Return the newest decisions of a task, newest first; with `before`, only those before this `seq`. */
  decisions(task: string, query?: { limit?: number; before?: number | null }): Promise<LoggedDecisions>;

  /** Return one decision in the log. */
  decision(task: string, id: string): Promise<LoggedDecision>;

  /** Return the features or words that contribute most to a decision's label, for the current learner. */
  explanation(task: string, query: { id: string; top?: number }): Promise<ExplanationReply>;

  /** Return an item of a task's demo data. */
  item(task: string, query: { number: number }): Promise<Item>;

  /** Train another learner from the log of the task; it takes over when the training is done. */
  switch(task: string, body: NewLearner): Promise<Task>;

  /** Forget decisions: delete them from the log with all their feedback; their ids are never reused. */
  forget(task: string, body: ForgetRequest): Promise<ForgetReply>;

  /** Return the current state of a task. */
  task(task: string): Promise<Task>;

  /** Change a task: add or retire classes, or set its mode, deadline, silence, revisions or confidence. */
  change(task: string, body: Change): Promise<Task>;

  /** Delete a task: its rows stay in the log, and its name can be used again. */
  delete(task: string): Promise<Task | QuarantinedTask>;

  /** Create a task. The header Location of the reply has its path. */
  create(body: NewTask): Promise<Task>;

  /** Return the tasks that the token may see. */
  tasks(): Promise<Tasks>;

  /** Return the learners that a task can have, and their parameters. */
  learners(): Promise<Learners>;

  /** Return ok if the process answers. */
  healthz(): Promise<Health>;

  /** Return whether decisions and feedback are accepted, or why not; list quarantined tasks and warnings. */
  readyz(): Promise<Readiness>;

  /** Return the versions and the CPU in use; services with equal ones learn the same, bit for bit. */
  version(): Promise<Version>;
}
