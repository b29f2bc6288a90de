// What all pages have: the bar at the top with the way to the other pages, the theme and logging out.
import { call, mayPlay, Refused } from "./api.js";
import { byId, make } from "./dom.js";

const THEMES = ["system", "light", "dark"];

const themeButton = () => {
  const button = make("button", { type: "button", className: "quiet", id: "theme" });
  const now = () => document.documentElement.dataset.theme ?? "system";
  const show = () => {
    button.replaceChildren(make("span", { className: "roomy", textContent: "Theme:" }), now());
    button.ariaLabel = `Theme: ${now()}. Change it.`;
  };
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length];
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "system") localStorage.removeItem("onebit-theme");
      else localStorage.setItem("onebit-theme", theme);
    } catch {
      // it holds for this page, then
    }
    show();
    dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
  show();
  return button;
};

const logOutButton = () => {
  const button = make("button", { type: "button", className: "quiet", id: "log-out", textContent: "Log out", hidden: true });
  button.addEventListener("click", async () => {
    await call("DELETE", "/session").catch(() => null);
    location.reload();
  });
  return button;
};

const PLAY = "/play/";
const DIGITS = "digits";

// What there is to play: the digits where they are there, or else the first task that can be played. Without any, the page of the
// digits offers to create them.
const toPlay = (session, tasks) => {
  const some = tasks.filter((task) => task.mode === "learn" && mayPlay(session, task)).map(({ name }) => name);
  return some.includes(DIGITS) ? DIGITS : (some[0] ?? DIGITS);
};

// Fills the bar, and gives the session once it is known. `here` is the path of this page.
export const shell = async (here) => {
  const link = (path, text, current = here === path) => make("a", { href: path, textContent: text, ...(current && { "aria-current": "page" }) });
  const play = link(PLAY + DIGITS, "Play", here.startsWith(PLAY));
  const logOut = logOutButton();
  const links = make("nav", { "aria-label": "Pages" }, link("/", "Tasks"), play, link("/docs", "API"));
  byId("top").append(make("p", { className: "brand", textContent: "onebit" }), links, themeButton(), logOut);
  const [session, { tasks }] = await Promise.all([call("GET", "/session"), call("GET", "/v1/tasks")]);
  logOut.hidden = session.open;
  play.href = PLAY + encodeURIComponent(toPlay(session, tasks));
  return session;
};

// The strip that says what does not work, with one button to do something about it. `more` is said after the error.
export const trouble = (error, act, label = "Try now", more = "") => {
  const strip = byId("trouble");
  const gone = error instanceof Refused && error.status === 401;
  const sentence = gone ? "The service no longer accepts this token." : `${error.message.replace(/([^.!?])$/, "$1.")} ${more}`;
  const button = make("button", { type: "button", className: "small", textContent: gone ? "Log in again" : label });
  button.addEventListener("click", gone ? () => location.reload() : act);
  strip.replaceChildren(make("span", { textContent: sentence }), button);
  strip.hidden = false;
};

export const noTrouble = () => {
  byId("trouble").hidden = true;
  byId("trouble").replaceChildren();
};
