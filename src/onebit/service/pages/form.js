// A form in a dialog, made from a list of its fields. What the service refuses is said beside the field that it is about.
import { Refused } from "./api.js";
import { make } from "./dom.js";

let forms = 0;

const inputOf = (field) => {
  const { kind = "text", name, options = [], value = "", rows = 5 } = field;
  const shared = { name, required: Boolean(field.required) };
  if (kind === "choice") {
    const select = make("select", shared);
    select.append(...options.map(([key, text]) => make("option", { value: key, textContent: text })));
    select.value = value;
    return select;
  }
  if (kind === "check") return make("input", { type: "checkbox", name, checked: Boolean(value) });
  if (kind === "lines") return make("textarea", { ...shared, rows, value, spellcheck: false, dir: "auto" });
  const input = make("input", { ...shared, type: kind, value, autocomplete: "off", spellcheck: false });
  if (kind === "number") Object.assign(input, { min: field.min ?? "", max: field.max ?? "", step: field.step ?? "any" });
  return input;
};

// Which names of an error's field ("features.size", "classes[3]") a form field answers for: the more, the better it fits.
const fit = (answers, parts) => (answers.every((name) => parts.includes(name)) ? answers.length : 0);

// fields: [{name, label, kind: text | number | choice | check | lines, hint, value, options, required, answers, shown, after}],
// `shown(values)` hides a field, `after` is an element under it. act(values) does the work; what it throws is shown.
export const openForm = ({ title, intro = null, fields, button, danger = false, act }) => {
  const id = `form-${++forms}`;
  const form = make("form", { noValidate: true });
  const summary = make("p", { className: "problem", role: "alert", tabIndex: -1 });
  const rows = fields.map((field) => {
    const input = inputOf(field);
    const place = `${id}-${field.name}`;
    input.id = place;
    const problem = make("p", { className: "problem", id: `${place}-problem` });
    const hint = field.hint ? make("p", { className: "note", id: `${place}-hint`, textContent: field.hint }) : null;
    input.setAttribute("aria-describedby", [hint?.id, problem.id].filter(Boolean).join(" "));
    const label = make("label", { htmlFor: place, textContent: field.label });
    const check = field.kind === "check";
    const parts = check ? [make("div", { className: "check" }, input, label)] : [label, input];
    return { field, input, problem, row: make("div", { className: "field" }, ...parts, hint, problem, field.after ?? null) };
  });

  const values = () =>
    Object.fromEntries(rows.map(({ field, input }) => [field.name, field.kind === "check" ? input.checked : input.value]));
  const arrange = () => {
    const now = values();
    for (const { field, row } of rows) row.hidden = field.shown ? !field.shown(now) : false;
  };
  const clear = () => {
    summary.textContent = "";
    for (const { input, problem } of rows) {
      problem.textContent = "";
      input.removeAttribute("aria-invalid");
    }
  };
  const blame = ({ input, problem }, message) => {
    problem.textContent = message;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  };
  const explain = (error) => {
    const parts = (error.field ?? "").split(/[.[\]]+/).filter(Boolean);
    const best = rows
      .filter(({ row }) => !row.hidden)
      .map((one) => [fit(one.field.answers ?? [one.field.name], parts), one])
      .reduce((one, other) => (other[0] > one[0] ? other : one), [0, null])[1];
    if (best) blame(best, error.message);
    else {
      summary.textContent = error.message;
      summary.focus();
    }
  };

  const cancel = make("button", { type: "button", textContent: "Cancel" });
  const send = make("button", { type: "submit", className: danger ? "danger" : "primary", textContent: button });
  const heading = make("h2", { id: `${id}-title`, textContent: title });
  form.append(heading, ...(intro ? [intro] : []), summary, ...rows.map(({ row }) => row), make("div", { className: "actions" }, cancel, send));
  const dialog = make("dialog", { "aria-labelledby": heading.id }, form);
  form.addEventListener("input", arrange);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clear();
    const missing = rows.find(({ input, row }) => !row.hidden && !input.checkValidity());
    if (missing) return blame(missing, missing.input.validationMessage);
    send.disabled = true;
    try {
      await act(values());
      dialog.close();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      explain(error);
    } finally {
      send.disabled = false;
    }
  });
  arrange();
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
};

// "name=value" a line; a value that is not JSON is a text.
export const parametersOf = (text) => {
  const found = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf("=");
    if (at < 1) {
      throw new Refused(0, { code: "invalid", message: `Expected name=value, got '${line.trim()}'.`, field: "parameters" });
    }
    const value = line.slice(at + 1).trim();
    try {
      found[line.slice(0, at).trim()] = JSON.parse(value);
    } catch {
      found[line.slice(0, at).trim()] = value;
    }
  }
  return found;
};

export const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
