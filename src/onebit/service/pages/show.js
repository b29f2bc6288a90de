// Show an x, and the learner's confidence and probabilities for it.
import { formatCount, formatNumber, formatPercent, make, makeBar, setBar, shorten } from "./dom.js";

// Paint numbers as an image: lowest white, highest black, also in the dark theme.
export const paintImage = (canvas, x, { width, height, lowest, highest }) => {
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

const joinParts = (parts, total, unit) => (total > parts.length ? `${parts.join(", ")}, … (${total} ${unit})` : parts.join(", "));

// Make a small element for an x in a list.
export const makePreview = (x, display) => {
  if (display?.kind === "image" && Array.isArray(x)) {
    const canvas = make("canvas", { className: "picture", role: "img", "aria-label": `image, ${display.width} by ${display.height} pixels` });
    paintImage(canvas, x, display);
    return canvas;
  }
  if (typeof x === "string") return make("p", { className: "text", textContent: shorten(x, 240), dir: "auto" });
  if (Array.isArray(x)) {
    return make("p", { className: "text", textContent: joinParts(x.slice(0, 8).map(formatNumber), x.length, "numbers") || "empty list" });
  }
  const names = Object.keys(x);
  const parts = names.slice(0, 5).map((name) => `${shorten(name, 30)}: ${formatNumber(x[name])}`);
  return make("p", { className: "text", textContent: joinParts(parts, names.length, "names") || "no named numbers", dir: "auto" });
};

// The confidence is the estimated probability that the label is right; null before the first feedback.
export const formatConfidence = (confidence) => (confidence === null ? "confidence not known yet" : `confidence ${formatPercent(confidence)}`);

// Return the likeliest classes as [name, probability]; the class that was played is always among them.
export const pickLikeliest = (probabilities, label, limit) => {
  const entries = Object.entries(probabilities).sort(([, a], [, b]) => b - a).slice(0, limit);
  const played = String(label);
  if (played in probabilities && !entries.some(([name]) => name === played)) entries.splice(-1, 1, [played, probabilities[played]]);
  return entries;
};

const makeRow = () => make("li", {}, make("span", { className: "name", dir: "auto" }), makeBar(0), make("span", { className: "value" }));

// Fill a list with [name, probability], the class that was played in bold, and the number of further classes of `classCount`.
export const showProbabilities = (list, entries, label, classCount) => {
  const hiddenCount = classCount - entries.length;
  const total = entries.length + (hiddenCount > 0 ? 1 : 0);
  while (list.children.length < total) list.append(makeRow());
  while (list.children.length > total) list.lastElementChild.remove();
  entries.forEach(([name, probability], place) => {
    const [nameOf, barOf, valueOf] = list.children[place].children;
    nameOf.textContent = name;
    nameOf.title = name;
    list.children[place].className = name === String(label) ? "played" : "";
    barOf.hidden = false;
    setBar(barOf, probability);
    valueOf.textContent = formatPercent(probability);
  });
  if (hiddenCount > 0) {
    const [nameOf, barOf, valueOf] = list.lastElementChild.children;
    nameOf.textContent = hiddenCount === 1 ? "1 more class" : `${formatCount(hiddenCount)} more classes`;
    nameOf.title = "";
    barOf.hidden = true;
    valueOf.textContent = "";
    list.lastElementChild.className = "rest";
  }
};
