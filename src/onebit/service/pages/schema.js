// Describe JSON schemas of the OpenAPI document in words, and build an example of each.
import { make, renderProse } from "./dom.js";

export const resolveReference = (root, schema) => {
  let target = schema ?? {};
  while (target.$ref) target = target.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root) ?? {};
  return target;
};

const findName = (schema) => schema?.$ref?.split("/").at(-1) ?? null;
const findAlternatives = (schema) => schema.anyOf ?? schema.oneOf ?? null;

export const describeType = (root, schema) => {
  const name = findName(schema);
  const target = resolveReference(root, schema);
  const alternatives = findAlternatives(target);
  if (alternatives) return alternatives.map((schema) => describeType(root, schema)).join(" or ");
  if ("const" in target) return JSON.stringify(target.const);
  if (target.enum) return target.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (target.type === "array") return target.items ? `list of ${describeType(root, target.items)}` : "list";
  if (target.properties) return name ?? target.title ?? "object";
  if (target.type === "object" && target.additionalProperties?.type) return `object of ${describeType(root, target.additionalProperties)}`;
  return target.type ?? "anything";
};

// Describe the bounds of a length or a number: "1 to 200 characters", "at least 2 entries", "0 to 1".
const describeBounds = (low, high, unit) => {
  if (low === undefined && high === undefined) return "";
  const range = low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`;
  return `${range}${unit}`;
};

const describeLimits = (root, schema) => {
  const target = resolveReference(root, schema);
  const alternatives = (findAlternatives(target) ?? []).map((schema) => resolveReference(root, schema));
  const limits = [target, ...alternatives].flatMap((schema) => [
    describeBounds(schema.minLength, schema.maxLength, " characters"),
    describeBounds(schema.minItems, schema.maxItems, " entries"),
    describeBounds(schema.minimum, schema.maximum, ""),
    "exclusiveMinimum" in schema ? `above ${schema.exclusiveMinimum}` : "",
    "exclusiveMaximum" in schema ? `below ${schema.exclusiveMaximum}` : "",
    schema.pattern ? `matches ${schema.pattern}` : "",
  ]);
  return [...new Set(limits.filter(Boolean))].join(", ");
};

// Collect all objects with named fields inside a schema by name, the outermost first.
const collectObjects = (root, schema, objects = new Map()) => {
  const name = findName(schema) ?? schema?.title ?? "";
  const target = resolveReference(root, schema);
  if (target.properties && !objects.has(name)) {
    objects.set(name, target);
    Object.values(target.properties).forEach((field) => collectObjects(root, field, objects));
  }
  (findAlternatives(target) ?? []).forEach((schema) => collectObjects(root, schema, objects));
  if (target.items) collectObjects(root, target.items, objects);
  if (typeof target.additionalProperties === "object") collectObjects(root, target.additionalProperties, objects);
  return objects;
};

const makeTable = (root, object, label) => {
  const body = make("tbody");
  for (const [name, schema] of Object.entries(object.properties)) {
    const required = object.required?.includes(name);
    const preset = (schema.default ?? null) === null ? "" : `default ${JSON.stringify(schema.default)}`;
    const notes = [schema.description, describeLimits(root, schema), preset, required ? "" : "optional"].filter(Boolean).join("; ");
    body.append(
      make("tr", {}, make("th", { scope: "row" }, make("code", { textContent: name })), make("td", { textContent: describeType(root, schema) }), make("td", {}, ...renderProse(notes))),
    );
  }
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, make("table", { className: "shape" }, body));
};

export const makeSchemaTables = (root, schema) => {
  const box = make("div", {}, make("p", { textContent: describeType(root, schema) }));
  [...collectObjects(root, schema)].forEach(([name, object], place) => {
    const about = object.description ? make("p", { className: "note" }, ...renderProse(object.description)) : null;
    const inside = [about, makeTable(root, object, name)];
    if (place === 0) box.append(...inside.filter(Boolean));
    else box.append(make("details", {}, make("summary", { textContent: name }), ...inside.filter(Boolean)));
  });
  return box;
};

// Examples that are easier to understand than those built from a schema.
const EXAMPLES = {
  NewTask: { name: "animals", classes: ["cat", "dog", "owl"], features: { kind: "text" } },
  Change: { add_classes: ["fox"] },
  NewLearner: { learner: "auto" },
  DecideRequest: { id: "round-1", x: "it hunts at night" },
  FeedbackRequest: { id: "round-1", right: true },
};

export const buildExample = (root, schema) => {
  const known = EXAMPLES[findName(schema)];
  if (known) return known;
  const target = resolveReference(root, schema);
  if (target.examples?.length) return target.examples[0];
  if ("default" in target) return target.default;
  if ("const" in target) return target.const;
  if (target.enum) return target.enum[0];
  const alternatives = findAlternatives(target);
  if (alternatives) return buildExample(root, alternatives[0]);
  if (target.type === "array") return [buildExample(root, target.items ?? {})];
  if (target.properties) {
    return Object.fromEntries((target.required ?? []).map((name) => [name, buildExample(root, target.properties[name])]));
  }
  return { string: "text", integer: target.minimum ?? 0, number: target.minimum ?? 0, boolean: true, object: {} }[target.type] ?? null;
};
