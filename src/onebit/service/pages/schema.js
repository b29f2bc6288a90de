// JSON schemas of the OpenAPI document in words, and an example for each.
import { make, prose } from "./dom.js";

export const resolved = (root, schema) => {
  let found = schema ?? {};
  while (found.$ref) found = found.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root) ?? {};
  return found;
};

const nameOf = (schema) => schema?.$ref?.split("/").at(-1) ?? null;
const choices = (schema) => schema.anyOf ?? schema.oneOf ?? null;

export const typeOf = (root, schema) => {
  const name = nameOf(schema);
  const found = resolved(root, schema);
  const some = choices(found);
  if (some) return some.map((one) => typeOf(root, one)).join(" or ");
  if ("const" in found) return JSON.stringify(found.const);
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (found.type === "array") return found.items ? `list of ${typeOf(root, found.items)}` : "list";
  if (found.properties) return name ?? found.title ?? "object";
  if (found.type === "object" && found.additionalProperties?.type) return `object of ${typeOf(root, found.additionalProperties)}`;
  return { string: "text", integer: "whole number", boolean: "true or false" }[found.type] ?? found.type ?? "anything";
};

// "1 to 200 characters", "at least 2 entries", "0 to 1": the bounds of a length or of a number.
const boundText = (low, high, unit) => {
  if (low === undefined && high === undefined) return "";
  const range = low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`;
  return `${range}${unit}`;
};

const limits = (root, schema) => {
  const all = [resolved(root, schema), ...(choices(resolved(root, schema)) ?? []).map((one) => resolved(root, one))];
  const found = all.flatMap((one) => [
    boundText(one.minLength, one.maxLength, " characters"),
    boundText(one.minItems, one.maxItems, " entries"),
    boundText(one.minimum, one.maximum, ""),
    "exclusiveMinimum" in one ? `above ${one.exclusiveMinimum}` : "",
    "exclusiveMaximum" in one ? `below ${one.exclusiveMaximum}` : "",
    one.pattern ? `matches ${one.pattern}` : "",
  ]);
  return [...new Set(found.filter(Boolean))].join(", ");
};

// All objects inside a schema that have named fields, the outermost first.
const objectsIn = (root, schema, found = new Map()) => {
  const name = nameOf(schema) ?? schema?.title ?? "";
  const at = resolved(root, schema);
  if (at.properties && !found.has(name)) {
    found.set(name, at);
    Object.values(at.properties).forEach((one) => objectsIn(root, one, found));
  }
  (choices(at) ?? []).forEach((one) => objectsIn(root, one, found));
  if (at.items) objectsIn(root, at.items, found);
  if (typeof at.additionalProperties === "object") objectsIn(root, at.additionalProperties, found);
  return found;
};

const table = (root, object, label) => {
  const body = make("tbody");
  for (const [name, schema] of Object.entries(object.properties)) {
    const required = object.required?.includes(name);
    const preset = (schema.default ?? null) === null ? "" : `default ${JSON.stringify(schema.default)}`;
    const notes = [schema.description, limits(root, schema), preset, required ? "" : "optional"].filter(Boolean).join("; ");
    body.append(
      make("tr", {}, make("th", { scope: "row" }, make("code", { textContent: name })), make("td", { textContent: typeOf(root, schema) }), make("td", {}, ...prose(notes))),
    );
  }
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, make("table", { className: "shape" }, body));
};

export const shapeElement = (root, schema) => {
  const box = make("div", {}, make("p", { textContent: typeOf(root, schema) }));
  [...objectsIn(root, schema)].forEach(([name, object], place) => {
    const about = object.description ? make("p", { className: "note" }, ...prose(object.description)) : null;
    const inside = [about, table(root, object, name)];
    if (place === 0) box.append(...inside.filter(Boolean));
    else box.append(make("details", {}, make("summary", { textContent: name }), ...inside.filter(Boolean)));
  });
  return box;
};

// Examples that a reader understands better than what a schema alone gives.
const EXAMPLES = {
  NewTask: { name: "animals", classes: ["cat", "dog", "owl"], features: { kind: "text" } },
  Change: { add_classes: ["fox"] },
  NewLearner: { learner: "auto" },
  DecideRequest: { id: "round-1", x: "it hunts at night" },
  FeedbackRequest: { id: "round-1", right: true },
};

export const exampleOf = (root, schema) => {
  const known = EXAMPLES[nameOf(schema)];
  if (known) return known;
  const found = resolved(root, schema);
  if (found.examples?.length) return found.examples[0];
  if ("default" in found) return found.default;
  if ("const" in found) return found.const;
  if (found.enum) return found.enum[0];
  const some = choices(found);
  if (some) return exampleOf(root, some[0]);
  if (found.type === "array") return [exampleOf(root, found.items ?? {})];
  if (found.properties) {
    return Object.fromEntries((found.required ?? []).map((name) => [name, exampleOf(root, found.properties[name])]));
  }
  return { string: "text", integer: found.minimum ?? 0, number: found.minimum ?? 0, boolean: true, object: {} }[found.type] ?? null;
};
