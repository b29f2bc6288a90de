"use strict";
// Loaded before the page is painted, so that a chosen theme does not flash. shell.js has the button.
try {
  const theme = localStorage.getItem("onebit-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // a browser that keeps nothing follows the system
}
