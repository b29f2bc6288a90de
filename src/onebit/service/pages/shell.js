// What all pages share: the header with links to the other pages, the theme and logging out; and the strip for errors.
import { callService, isPlayable, ServiceError } from "./api.js";
import { byId, make } from "./dom.js";

const THEMES = ["system", "light", "dark"];

const makeThemeButton = () => {
  const button = make("button", { type: "button", className: "quiet", id: "theme" });
  const readTheme = () => document.documentElement.dataset.theme ?? "system";
  const showTheme = () => {
    button.replaceChildren(make("span", { className: "roomy", textContent: "Theme:" }), readTheme());
    button.ariaLabel = `Theme: ${readTheme()}. Change it.`;
  };
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(readTheme()) + 1) % THEMES.length];
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "system") localStorage.removeItem("onebit-theme");
      else localStorage.setItem("onebit-theme", theme);
    } catch {
      // without storage it lasts for this page only
    }
    showTheme();
    dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
  showTheme();
  return button;
};

const makeLogOutButton = () => {
  const button = make("button", { type: "button", className: "quiet", id: "log-out", textContent: "Log out", hidden: true });
  button.addEventListener("click", async () => {
    await callService("DELETE", "/session").catch(() => null);
    location.reload();
  });
  return button;
};

const PLAY = "/play/";
const DIGITS = "digits";

// Choose the task behind the link Play: the digits, or else the first that can be played. If there is none, the page of the digits
// offers to create them.
const chooseTask = (session, tasks) => {
  const playable = tasks.filter((task) => task.mode === "learn" && isPlayable(session, task)).map(({ name }) => name);
  return playable.includes(DIGITS) ? DIGITS : (playable[0] ?? DIGITS);
};

// Fill the header and return the session. `here` is the path of this page.
export const buildHeader = async (here) => {
  const makeLink = (path, text, current = here === path) => make("a", { href: path, textContent: text, ...(current && { "aria-current": "page" }) });
  const play = makeLink(PLAY + DIGITS, "Play", here.startsWith(PLAY));
  const logOut = makeLogOutButton();
  const links = make("nav", { "aria-label": "Pages" }, makeLink("/", "Tasks"), play, makeLink("/docs", "API"));
  byId("top").append(make("p", { className: "brand", textContent: "onebit" }), links, makeThemeButton(), logOut);
  const [session, { tasks }] = await Promise.all([callService("GET", "/session"), callService("GET", "/v1/tasks")]);
  logOut.hidden = session.open;
  play.href = PLAY + encodeURIComponent(chooseTask(session, tasks));
  return session;
};

// Show an error in the strip at the top, with one button to act on it. `more` is appended to the message.
export const showTrouble = (error, act, label = "Try now", more = "") => {
  const strip = byId("trouble");
  const isLoggedOut = error instanceof ServiceError && error.status === 401;
  const sentence = isLoggedOut ? "The service no longer accepts this token." : `${error.message.replace(/([^.!?])$/, "$1.")} ${more}`;
  const button = make("button", { type: "button", className: "small", textContent: isLoggedOut ? "Log in again" : label });
  button.addEventListener("click", isLoggedOut ? () => location.reload() : act);
  strip.replaceChildren(make("span", { textContent: sentence }), button);
  strip.hidden = false;
};

export const hideTrouble = () => {
  byId("trouble").hidden = true;
  byId("trouble").replaceChildren();
};
