// Making elements, and saying numbers in words. All text goes in as text: nothing that comes from the service is markup.

// Names with a hyphen are attributes, all others properties. Children that are null are left out.
export const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
};

// The parts of a sentence in which code stands between backticks.
export const prose = (text) => text.split("`").map((part, place) => (place % 2 ? make("code", { textContent: part }) : part));

export const byId = (id) => document.getElementById(id);

// Sets the text only where it differs, so that a selection survives and a live region speaks only of what is new.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Makes the children of `parent` those of `items`, keeping the elements of the same key: focus and selection survive.
export const keyed = (parent, items, keyOf, create, update) => {
  const old = new Map([...parent.children].map((child) => [child.key, child]));
  items.forEach((item, place) => {
    const key = keyOf(item);
    const element = old.get(key) ?? create(item);
    element.key = key;
    update(element, item);
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
};

export const count = (value) => Math.round(value).toLocaleString("en");

// "1 feedback", "1,000 feedbacks"
export const countOf = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const percent = (share) => {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  return `${value.toFixed(value >= 0.005 && value < 1 ? 2 : 1)} %`;
};

export const rate = (value) => (value >= 100 ? count(value) : Number(value.toPrecision(2)).toString());

export const number = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4))));

// A class at the end of a sentence, cut where it is long.
export const shortened = (text, most = 60) => {
  const letters = [...String(text)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
};

export const duration = (seconds) => {
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(2))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 7200) return `${Number((seconds / 60).toPrecision(2))} min`;
  if (seconds < 172800) return `${Number((seconds / 3600).toPrecision(2))} h`;
  return `${Number((seconds / 86400).toPrecision(2))} days`;
};

// A bar from 0 to `share` of its box; whoever cannot see it reads the number beside it.
export const bar = (share, kind = "") =>
  make("span", { className: `bar ${kind}`, "aria-hidden": "true" }, make("span", { style: `width: ${100 * share}%` }));

export const setBar = (element, share) => {
  element.firstElementChild.style.width = `${Math.min(Math.max(100 * share, 0), 100)}%`;
};

// A command with a button that copies it.
export const command = (text, label) => {
  const code = make("code", { tabIndex: 0, textContent: text, "aria-label": label });
  const button = make("button", { type: "button", className: "small", textContent: "Copy", "aria-label": `Copy ${label}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // pages that are not on a safe origin may not copy: leave it selected
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return make("div", { className: "command" }, code, button);
};
