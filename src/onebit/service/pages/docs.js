// The API page: every route of /openapi.json with its fields, an example, and a form to try it if it only reads.
import { callService } from "./api.js";
import { byId, make, makeCommand, renderProse } from "./dom.js";
import { buildExample, describeType, makeSchemaTables, resolveReference } from "./schema.js";
import { buildHeader, showTrouble } from "./shell.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

let openapi = null;

const findJson = (content) => content?.["application/json"] ?? null;

const buildCurl = (method, path, operation, parameters) => {
  const filledPath = path.replace(/\{([^}]+)\}/g, (_, name) => (name === "task" ? "animals" : name.toUpperCase()));
  const query = parameters.filter((parameter) => parameter.in === "query" && parameter.required).map((parameter) => `${parameter.name}=${buildExample(openapi, parameter.schema) ?? 0}`);
  const parts = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${location.origin}${filledPath}${query.length ? `?${query.join("&")}` : ""}'`];
  if (path !== "/healthz") parts.push('-H "Authorization: Bearer $TOKEN"');
  const body = findJson(operation.requestBody?.content);
  if (body) {
    const text = JSON.stringify(body.example ?? buildExample(openapi, body.schema)).replaceAll("'", "'\\''");
    parts.push('-H "Content-Type: application/json"', `-d '${text}'`);
  }
  return parts.join(" \\\n  ");
};

const makeParameterTable = (parameters) => {
  const body = make("tbody");
  for (const parameter of parameters) {
    const kind = `${parameter.in}, ${describeType(openapi, parameter.schema ?? {})}${parameter.required ? ", required" : ""}`;
    body.append(
      make(
        "tr",
        {},
        make("th", { scope: "row" }, make("code", { textContent: parameter.name })),
        make("td", { textContent: kind }),
        make("td", {}, ...renderProse(parameter.description ?? resolveReference(openapi, parameter.schema ?? {}).description ?? "")),
      ),
    );
  }
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Parameters" }, make("table", { className: "shape" }, body));
};

const makeTryForm = (path, parameters, names) => {
  const inputs = parameters.map((parameter) => {
    const input = make("input", { name: parameter.name, required: Boolean(parameter.required), autocomplete: "off", value: parameter.schema?.default ?? "" });
    if (parameter.name === "task" && names.length) {
      input.value = names[0];
      input.setAttribute("list", "task-names");
    }
    return make("label", { textContent: `${parameter.name} ` }, input);
  });
  const send = make("button", { type: "submit", textContent: "Send" });
  const reply = make("div", { role: "status" });
  const form = make("form", { className: "try" }, ...inputs, send);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = new FormData(form);
    const query = new URLSearchParams();
    let filledPath = path;
    for (const parameter of parameters) {
      const value = values.get(parameter.name);
      if (parameter.in === "path") filledPath = filledPath.replace(`{${parameter.name}}`, encodeURIComponent(value));
      else if (parameter.in === "query" && value !== "") query.set(parameter.name, value);
    }
    const address = `${filledPath}${query.size ? `?${query}` : ""}`;
    send.disabled = true;
    try {
      const response = await fetch(address, { signal: AbortSignal.timeout(20000) });
      const text = await response.text();
      reply.replaceChildren(make("p", { className: "note", textContent: `GET ${address}: status ${response.status}` }), make("pre", { tabIndex: 0, textContent: formatJson(text) }));
    } catch {
      reply.replaceChildren(make("p", { className: "problem", textContent: "The service is not responding." }));
    } finally {
      send.disabled = false;
    }
  });
  return [make("h3", { textContent: "Try it" }), form, reply];
};

const MOST_CHARACTERS = 20000;
const formatJson = (text) => {
  let formatted = text;
  try {
    formatted = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // not JSON: show it unchanged
  }
  return formatted.length > MOST_CHARACTERS ? `${formatted.slice(0, MOST_CHARACTERS)}\n… (truncated; ${formatted.length} characters in total)` : formatted;
};

// What a route requires, by the names in the service's table of routes.
const NEEDS = { nobody: "no token needed", anybody: "any token", everything: "scope read, for all tasks" };
const describeScope = ({ "x-scope": needs }) => NEEDS[needs] ?? (needs ? `scope ${needs}` : null);

// Make a route. It is filled in when it is opened: all routes at once would be slow.
const makeRoute = (path, method, operation, shared, names) => {
  const parameters = [...shared, ...(operation.parameters ?? [])].map((parameter) => resolveReference(openapi, parameter)).filter(({ in: place }) => place !== "header" && place !== "cookie");
  const scope = describeScope(operation);
  const [about, ...paragraphs] = (operation.description ?? operation.summary ?? "").split(/\n\s*\n/);
  const summary = make(
    "summary",
    {},
    make("span", { className: `method ${method}`, textContent: method.toUpperCase() }),
    make("code", { className: "path", textContent: path }),
    make("span", { className: "about" }, ...renderProse(about)),
    scope ? make("span", { className: "badge", textContent: scope }) : null,
  );
  const route = make("details", { className: "route" }, summary);
  const fill = () => {
    if (!route.open || route.children.length > 1) return;
    const inside = make("div", { className: "inside" });
    for (const text of paragraphs) inside.append(make("p", {}, ...renderProse(text)));
    if (parameters.length) inside.append(make("h3", { textContent: "Parameters" }), makeParameterTable(parameters));
    const body = findJson(operation.requestBody?.content);
    if (body) inside.append(make("h3", { textContent: "Request body" }), makeSchemaTables(openapi, body.schema));
    for (const [status, response] of Object.entries(operation.responses ?? {}).filter(([code]) => code.startsWith("2"))) {
      const content = findJson(resolveReference(openapi, response).content);
      inside.append(make("h3", { textContent: `Reply ${status}` }));
      inside.append(content?.schema ? makeSchemaTables(openapi, content.schema) : make("p", {}, ...renderProse(resolveReference(openapi, response).description ?? "")));
    }
    inside.append(make("h3", { textContent: "Example" }), makeCommand(buildCurl(method, path, operation, parameters), `example of ${method.toUpperCase()} ${path}`));
    if (method === "get") inside.append(...makeTryForm(path, parameters, names));
    route.append(inside);
  };
  route.addEventListener("toggle", fill);
  return route;
};

const showRoutes = async () => {
  openapi = await callService("GET", "/openapi.json");
  const names = (await callService("GET", "/v1/tasks").catch(() => ({ tasks: [] }))).tasks.map(({ name }) => name);
  document.body.append(make("datalist", { id: "task-names" }, ...names.map((value) => make("option", { value }))));
  byId("about").textContent = [openapi.info.title, openapi.info.version].join(" ");
  const groups = new Map((openapi.tags ?? []).map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(openapi.paths).sort(([first], [second]) => first.localeCompare(second, "en"))) {
    for (const method of METHODS.filter((name) => item[name])) {
      const tag = item[method].tags?.[0] ?? "Other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(makeRoute(path, method, item[method], item.parameters ?? [], names));
    }
  }
  const titles = new Map((openapi.tags ?? []).map(({ name, description }) => [name, description ?? name]));
  for (const [tag, routes] of groups) {
    if (routes.length) byId("routes").append(make("section", {}, make("h2", { textContent: titles.get(tag) ?? tag }), ...routes));
  }
};

try {
  await buildHeader("/docs");
  await showRoutes();
} catch (error) {
  showTrouble(error, () => location.reload(), "Try again");
}
