// How an x and what a learner thinks of it are shown.
import { bar, count, make, number, percent, setBar, shortened } from "./dom.js";

// The picture in the numbers: lowest white, highest black, on paper that stays white in the dark theme.
export const paint = (canvas, x, { width, height, lowest, highest }) => {
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(width, height);
  const span = highest - lowest || 1;
  for (let place = 0; place < width * height; place++) {
    const ink = Math.min(Math.max(((x[place] ?? lowest) - lowest) / span, 0), 1);
    pixels.data.fill(Math.round(255 * (1 - ink)), 4 * place, 4 * place + 3);
    pixels.data[4 * place + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
};

const joined = (parts, all, unit) => (all > parts.length ? `${parts.join(", ")}, … (${all} ${unit})` : parts.join(", "));

// A small element for an x in a list.
export const preview = (x, display) => {
  if (display?.kind === "image" && Array.isArray(x)) {
    const canvas = make("canvas", { className: "picture", role: "img", "aria-label": `image, ${display.width} by ${display.height} pixels` });
    paint(canvas, x, display);
    return canvas;
  }
  if (typeof x === "string") return make("p", { className: "text", textContent: shortened(x, 240), dir: "auto" });
  if (Array.isArray(x)) {
    return make("p", { className: "text", textContent: joined(x.slice(0, 8).map(number), x.length, "numbers") || "empty list" });
  }
  const names = Object.keys(x);
  const some = names.slice(0, 5).map((name) => `${shortened(name, 30)}: ${number(x[name])}`);
  return make("p", { className: "text", textContent: joined(some, names.length, "names") || "no named numbers", dir: "auto" });
};

// How probably a label is right, as the answers so far have it; nobody knows before the first.
export const confidenceText = (confidence) => (confidence === null ? "confidence not known yet" : `confidence ${percent(confidence)}`);

// The likeliest classes as [name, probability]; the one that was played is among them even where it is not likely.
export const likeliest = (probabilities, label, most) => {
  const entries = Object.entries(probabilities).sort(([, one], [, other]) => other - one).slice(0, most);
  const played = String(label);
  if (played in probabilities && !entries.some(([name]) => name === played)) entries.splice(-1, 1, [played, probabilities[played]]);
  return entries;
};

const row = () => make("li", {}, make("span", { className: "name", dir: "auto" }), bar(0), make("span", { className: "value" }));

// Fills a list with [name, probability], the one that was played set off, and says how many of `all` are not shown.
export const showProbabilities = (list, entries, label, all) => {
  const rest = all - entries.length;
  const total = entries.length + (rest > 0 ? 1 : 0);
  while (list.children.length < total) list.append(row());
  while (list.children.length > total) list.lastElementChild.remove();
  entries.forEach(([name, probability], place) => {
    const [nameOf, barOf, valueOf] = list.children[place].children;
    nameOf.textContent = name;
    nameOf.title = name;
    list.children[place].className = name === String(label) ? "played" : "";
    barOf.hidden = false;
    setBar(barOf, probability);
    valueOf.textContent = percent(probability);
  });
  if (rest > 0) {
    const [nameOf, barOf, valueOf] = list.lastElementChild.children;
    nameOf.textContent = rest === 1 ? "1 more class" : `${count(rest)} more classes`;
    nameOf.title = "";
    barOf.hidden = true;
    valueOf.textContent = "";
    list.lastElementChild.className = "rest";
  }
};
