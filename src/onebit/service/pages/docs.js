// The interface for people: every route of /openapi.json with its shapes, an example, and for reading routes a try.
import { call } from "./api.js";
import { byId, command, make, prose } from "./dom.js";
import { exampleOf, resolved, shapeElement, typeOf } from "./schema.js";
import { shell, trouble } from "./shell.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

let document_ = null;

const jsonOf = (content) => content?.["application/json"] ?? null;

const curl = (method, path, operation, parameters) => {
  const filled = path.replace(/\{([^}]+)\}/g, (_, name) => (name === "task" ? "animals" : name.toUpperCase()));
  const asked = parameters.filter((one) => one.in === "query" && one.required).map((one) => `${one.name}=${exampleOf(document_, one.schema) ?? 0}`);
  const parts = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${location.origin}${filled}${asked.length ? `?${asked.join("&")}` : ""}'`];
  if (path !== "/healthz") parts.push('-H "Authorization: Bearer $TOKEN"');
  const body = jsonOf(operation.requestBody?.content);
  if (body) {
    const text = JSON.stringify(body.example ?? exampleOf(document_, body.schema)).replaceAll("'", "'\\''");
    parts.push('-H "Content-Type: application/json"', `-d '${text}'`);
  }
  return parts.join(" \\\n  ");
};

const parameterTable = (parameters) => {
  const body = make("tbody");
  for (const one of parameters) {
    const kind = `${one.in}, ${typeOf(document_, one.schema ?? {})}${one.required ? ", required" : ""}`;
    body.append(
      make(
        "tr",
        {},
        make("th", { scope: "row" }, make("code", { textContent: one.name })),
        make("td", { textContent: kind }),
        make("td", {}, ...prose(one.description ?? resolved(document_, one.schema ?? {}).description ?? "")),
      ),
    );
  }
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Parameters" }, make("table", { className: "shape" }, body));
};

const tryIt = (path, parameters, names) => {
  const inputs = parameters.map((one) => {
    const input = make("input", { name: one.name, required: Boolean(one.required), autocomplete: "off", value: one.schema?.default ?? "" });
    if (one.name === "task" && names.length) {
      input.value = names[0];
      input.setAttribute("list", "task-names");
    }
    return make("label", { textContent: `${one.name} ` }, input);
  });
  const send = make("button", { type: "submit", textContent: "Send" });
  const reply = make("div", { role: "status" });
  const form = make("form", { className: "try" }, ...inputs, send);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = new FormData(form);
    const asked = new URLSearchParams();
    let filled = path;
    for (const one of parameters) {
      const value = values.get(one.name);
      if (one.in === "path") filled = filled.replace(`{${one.name}}`, encodeURIComponent(value));
      else if (one.in === "query" && value !== "") asked.set(one.name, value);
    }
    const address = `${filled}${asked.size ? `?${asked}` : ""}`;
    send.disabled = true;
    try {
      const response = await fetch(address, { signal: AbortSignal.timeout(20000) });
      const text = await response.text();
      reply.replaceChildren(make("p", { className: "note", textContent: `GET ${address}: status ${response.status}` }), make("pre", { tabIndex: 0, textContent: pretty(text) }));
    } catch {
      reply.replaceChildren(make("p", { className: "problem", textContent: "The service is not responding." }));
    } finally {
      send.disabled = false;
    }
  });
  return [make("h3", { textContent: "Try it" }), form, reply];
};

const MOST_LETTERS = 20000;
const pretty = (text) => {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // it is not JSON: as it came
  }
  return shown.length > MOST_LETTERS ? `${shown.slice(0, MOST_LETTERS)}\n… (truncated; ${shown.length} characters in total)` : shown;
};

// Who may use a route, as the service's table of routes calls it.
const NEEDS = { nobody: "no token needed", anybody: "any token", everything: "scope read, for all tasks" };
const scopeOf = ({ "x-scope": needs }) => NEEDS[needs] ?? (needs ? `scope ${needs}` : null);

// What is inside is made when it is opened: the shapes of all routes at once are long.
const routeElement = (path, method, operation, shared, names) => {
  const parameters = [...shared, ...(operation.parameters ?? [])].map((one) => resolved(document_, one)).filter((one) => one.in !== "header" && one.in !== "cookie");
  const scope = scopeOf(operation);
  const [about, ...more] = (operation.description ?? operation.summary ?? "").split(/\n\s*\n/);
  const summary = make(
    "summary",
    {},
    make("span", { className: `method ${method}`, textContent: method.toUpperCase() }),
    make("code", { className: "path", textContent: path }),
    make("span", { className: "about" }, ...prose(about)),
    scope ? make("span", { className: "badge", textContent: scope }) : null,
  );
  const route = make("details", { className: "route" }, summary);
  const fill = () => {
    if (!route.open || route.children.length > 1) return;
    const inside = make("div", { className: "inside" });
    for (const text of more) inside.append(make("p", {}, ...prose(text)));
    if (parameters.length) inside.append(make("h3", { textContent: "Parameters" }), parameterTable(parameters));
    const body = jsonOf(operation.requestBody?.content);
    if (body) inside.append(make("h3", { textContent: "Request body" }), shapeElement(document_, body.schema));
    for (const [status, response] of Object.entries(operation.responses ?? {}).filter(([code]) => code.startsWith("2"))) {
      const content = jsonOf(resolved(document_, response).content);
      inside.append(make("h3", { textContent: `Reply ${status}` }));
      inside.append(content?.schema ? shapeElement(document_, content.schema) : make("p", {}, ...prose(resolved(document_, response).description ?? "")));
    }
    inside.append(make("h3", { textContent: "Example" }), command(curl(method, path, operation, parameters), `example of ${method.toUpperCase()} ${path}`));
    if (method === "get") inside.append(...tryIt(path, parameters, names));
    route.append(inside);
  };
  route.addEventListener("toggle", fill);
  return route;
};

const show = async () => {
  document_ = await call("GET", "/openapi.json");
  const names = (await call("GET", "/v1/tasks").catch(() => ({ tasks: [] }))).tasks.map(({ name }) => name);
  document.body.append(make("datalist", { id: "task-names" }, ...names.map((value) => make("option", { value }))));
  byId("about").textContent = [document_.info.title, document_.info.version].join(" ");
  const groups = new Map((document_.tags ?? []).map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(document_.paths).sort(([one], [other]) => one.localeCompare(other, "en"))) {
    for (const method of METHODS.filter((one) => item[one])) {
      const tag = item[method].tags?.[0] ?? "Other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(routeElement(path, method, item[method], item.parameters ?? [], names));
    }
  }
  const titles = new Map((document_.tags ?? []).map(({ name, description }) => [name, description ?? name]));
  for (const [tag, routes] of groups) {
    if (routes.length) byId("routes").append(make("section", {}, make("h2", { textContent: titles.get(tag) ?? tag }), ...routes));
  }
};

try {
  await shell("/docs");
  await show();
} catch (error) {
  trouble(error, () => location.reload(), "Try again");
}
