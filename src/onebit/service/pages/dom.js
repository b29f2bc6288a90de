// Make elements and format numbers. Text is inserted as text: nothing that comes from the service becomes markup.

// Make an element. Names with a hyphen set attributes, others properties; children that are null are left out.
export const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
};

// Split a sentence into texts and code elements, which are between backticks.
export const renderProse = (text) => text.split("`").map((part, place) => (place % 2 ? make("code", { textContent: part }) : part));

export const byId = (id) => document.getElementById(id);

// Set the text only if it differs, so that a selection survives and a live region announces only changes.
export const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Make the children of `parent` match `items`, keeping elements with the same key, so that focus and selection survive.
export const updateChildren = (parent, items, keyOf, create, update) => {
  const elements = new Map([...parent.children].map((child) => [child.key, child]));
  items.forEach((item, place) => {
    const key = keyOf(item);
    const element = elements.get(key) ?? create(item);
    element.key = key;
    update(element, item);
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
};

export const formatCount = (value) => Math.round(value).toLocaleString("en");

// "1 feedback", "1,000 feedbacks"
export const formatAmount = (value, noun) => `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;

// "12.3 %", with a space at which no line breaks.
export const formatPercent = (share) => {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  return `${value.toFixed(value >= 0.005 && value < 1 ? 2 : 1)}\u00a0%`;
};

export const formatRate = (value) => (value >= 100 ? formatCount(value) : Number(value.toPrecision(2)).toString());

export const formatNumber = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4))));

// Cut a long text; whole characters, so that no surrogate pair is split.
export const shorten = (text, limit = 60) => {
  const characters = [...String(text)];
  return characters.length > limit ? `${characters.slice(0, limit - 1).join("")}…` : characters.join("");
};

export const formatDuration = (seconds) => {
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(2))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 7200) return `${Number((seconds / 60).toPrecision(2))} min`;
  if (seconds < 172800) return `${Number((seconds / 3600).toPrecision(2))} h`;
  return `${Number((seconds / 86400).toPrecision(2))} days`;
};

// Make a bar that fills this share of its box. It is hidden from screen readers, which read the number beside it.
export const makeBar = (share, kind = "") =>
  make("span", { className: `bar ${kind}`, "aria-hidden": "true" }, make("span", { style: `width: ${100 * share}%` }));

export const setBar = (element, share) => {
  element.firstElementChild.style.width = `${Math.min(Math.max(100 * share, 0), 100)}%`;
};

// Make a command with a button that copies it.
export const makeCommand = (text, label) => {
  const code = make("code", { tabIndex: 0, textContent: text, "aria-label": label });
  const button = make("button", { type: "button", className: "small", textContent: "Copy", "aria-label": `Copy ${label}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // only pages of a secure origin may copy: leave it selected
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return make("div", { className: "command" }, code, button);
};
