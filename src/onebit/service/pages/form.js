// A form in a dialog, made from a list of fields. Errors of the service are shown beside the field that they are about.
import { ServiceError } from "./api.js";
import { make } from "./dom.js";

let forms = 0;

const makeInput = (field) => {
  const { kind = "text", name, options = [], value = "", rows = 5 } = field;
  const common = { name, required: Boolean(field.required) };
  if (kind === "choice") {
    const select = make("select", common);
    select.append(...options.map(([key, text]) => make("option", { value: key, textContent: text })));
    select.value = value;
    return select;
  }
  if (kind === "check") return make("input", { type: "checkbox", name, checked: Boolean(value) });
  if (kind === "lines") return make("textarea", { ...common, rows, value, spellcheck: false, dir: "auto" });
  const input = make("input", { ...common, type: kind, value, autocomplete: "off", spellcheck: false });
  if (kind === "number") Object.assign(input, { min: field.min ?? "", max: field.max ?? "", step: field.step ?? "any" });
  return input;
};

// How well a form field matches an error's field, such as "features.size" or "classes[3]": the number of names they share.
const countMatches = (errorNames, parts) => (errorNames.every((name) => parts.includes(name)) ? errorNames.length : 0);

// fields: [{name, label, kind: text | number | choice | check | lines, hint, value, options, required, errorNames, isVisible, footer}].
// `isVisible(values)` may hide a field, `errorNames` are the names of errors shown beside it (else its name), `footer` is an
// element under it. `act(values)` does the work; a ServiceError that it throws is shown.
export const openForm = ({ title, intro = null, fields, button, danger = false, act }) => {
  const id = `form-${++forms}`;
  const form = make("form", { noValidate: true });
  const summary = make("p", { className: "problem", role: "alert", tabIndex: -1 });
  const rows = fields.map((field) => {
    const input = makeInput(field);
    const place = `${id}-${field.name}`;
    input.id = place;
    const problem = make("p", { className: "problem", id: `${place}-problem` });
    const hint = field.hint ? make("p", { className: "note", id: `${place}-hint`, textContent: field.hint }) : null;
    input.setAttribute("aria-describedby", [hint?.id, problem.id].filter(Boolean).join(" "));
    const label = make("label", { htmlFor: place, textContent: field.label });
    const check = field.kind === "check";
    const parts = check ? [make("div", { className: "check" }, input, label)] : [label, input];
    return { field, input, problem, row: make("div", { className: "field" }, ...parts, hint, problem, field.footer ?? null) };
  });

  const readValues = () =>
    Object.fromEntries(rows.map(({ field, input }) => [field.name, field.kind === "check" ? input.checked : input.value]));
  const updateVisibility = () => {
    const values = readValues();
    for (const { field, row } of rows) row.hidden = field.isVisible ? !field.isVisible(values) : false;
  };
  const clearProblems = () => {
    summary.textContent = "";
    for (const { input, problem } of rows) {
      problem.textContent = "";
      input.removeAttribute("aria-invalid");
    }
  };
  const showProblem = ({ input, problem }, message) => {
    problem.textContent = message;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  };
  const showError = (error) => {
    const parts = (error.field ?? "").split(/[.[\]]+/).filter(Boolean);
    const best = rows
      .filter(({ row }) => !row.hidden)
      .map((row) => [countMatches(row.field.errorNames ?? [row.field.name], parts), row])
      .reduce((first, second) => (second[0] > first[0] ? second : first), [0, null])[1];
    if (best) showProblem(best, error.message);
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
  form.addEventListener("input", updateVisibility);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearProblems();
    const invalid = rows.find(({ input, row }) => !row.hidden && !input.checkValidity());
    if (invalid) return showProblem(invalid, invalid.input.validationMessage);
    send.disabled = true;
    try {
      await act(readValues());
      dialog.close();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      showError(error);
    } finally {
      send.disabled = false;
    }
  });
  updateVisibility();
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
};

// Parse lines of "name=value"; a value that is not JSON is a text.
export const parseParameters = (text) => {
  const parameters = {};
  for (const line of text.split("\n").filter((line) => line.trim())) {
    const at = line.indexOf("=");
    if (at < 1) {
      throw new ServiceError(0, { code: "invalid", message: `Expected name=value, got '${line.trim()}'.`, field: "parameters" });
    }
    const value = line.slice(at + 1).trim();
    try {
      parameters[line.slice(0, at).trim()] = JSON.parse(value);
    } catch {
      parameters[line.slice(0, at).trim()] = value;
    }
  }
  return parameters;
};

export const splitLines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
