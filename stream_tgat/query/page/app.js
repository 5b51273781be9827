// The page: which view is shown, what comes live, the search, and light or dark.

import { follow, get } from "./api.js";
import { forgetCharts, redrawAll } from "./charts.js";
import { fill, h, nodeHref, say } from "./dom.js";
import { graphView } from "./graph.js";
import { mapView } from "./map.js";
import { modelsView } from "./models.js";
import { nodeView } from "./node.js";
import { nowView } from "./now.js";

const VIEWS = {
  now: { title: "Now", make: nowView },
  node: { title: "A node", make: nodeView },
  graph: { title: "The graph, live", make: graphView },
  map: { title: "The map", make: mapView },
  models: { title: "Models", make: modelsView },
};
const main = document.getElementById("main");
// What came last of each kind, for views that are opened later.
const last = { interactions: [], alerts: [] };
let view = null;

function show() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/");
  const chosen = VIEWS[name] ?? VIEWS.now;
  view?.stop?.();
  forgetCharts(main);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === `#/${VIEWS[name] ? name : "now"}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${chosen.title} · Streaming TGAT`;
  fill(main);
  view = chosen.make(main, parts.map(decoded), last) ?? {};
  if (show.before !== undefined && show.before !== location.hash) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
    say(`${chosen.title} is shown`);
  }
  show.before = location.hash;
}

// An address may be written by hand, with a % that begins no letter.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function tell(kind, content) {
  if (kind === "pulse") last.pulse = content;
  else if (kind === "interactions") last.interactions = [...last.interactions, ...content.interactions].slice(-2000);
  else if (kind === "alert") last.alerts = [...last.alerts, content].slice(-50);
  view?.tell?.(kind, content);
}

function connected(text, isLive) {
  const shown = document.getElementById("connection");
  shown.textContent = text;
  shown.className = `connection ${isLive ? "live" : "gone"}`;
}

// Light and dark

const themeButton = document.getElementById("theme");

function setTheme(theme, isChosen) {
  document.documentElement.dataset.theme = theme;
  themeButton.textContent = theme === "dark" ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Change to ${theme === "dark" ? "light" : "dark"} colours`);
  if (isChosen) localStorage.setItem("stream-tgat-theme", theme);
  redrawAll();
  view?.recolour?.();
}

themeButton.addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  if (!localStorage.getItem("stream-tgat-theme")) setTheme(event.matches ? "dark" : "light", false);
});

// Search, with completion

const search = document.getElementById("search-id");
const found = document.getElementById("found");
let names = [];
let at = -1;
let asked = 0;

function choose(place) {
  at = place;
  [...found.children].forEach((option, n) => option.setAttribute("aria-selected", String(n === at)));
  if (at >= 0) search.setAttribute("aria-activedescendant", `found-${at}`);
  else search.removeAttribute("aria-activedescendant");
}

function closeFound() {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
  choose(-1);
}

function open(name) {
  closeFound();
  search.value = "";
  search.blur();
  location.hash = nodeHref(name.kind, name.id);
}

async function complete() {
  const text = search.value;
  const mine = ++asked;
  if (!text) return closeFound();
  try {
    names = (await get("v1/nodes", { prefix: text, limit: 8 })).nodes;
  } catch {
    names = [];
  }
  if (mine !== asked) return;
  fill(found, names.map((name, n) => h("li", {
    id: `found-${n}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); open(name); },
  }, name.id, h("small", {}, name.kind))));
  found.hidden = !names.length;
  search.setAttribute("aria-expanded", String(Boolean(names.length)));
  choose(-1);
  say(names.length ? `${names.length} nodes begin with ${text}` : `no node that is remembered begins with ${text}`);
}

search.addEventListener("input", complete);
search.addEventListener("blur", closeFound);
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeFound();
  if (found.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  choose((at + (event.key === "ArrowDown" ? 1 : names.length)) % names.length);
});
document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = search.value.trim();
  if (at >= 0) { open(names[at]); return; }
  if (!text) return;
  // What was typed fast is sent before it is completed. An id that is not remembered is looked up as a user's.
  const known = await get("v1/nodes", { prefix: text, limit: 8 }).then((found) => found.nodes, () => []);
  open(known.find((name) => name.id === text) ?? (known.length === 1 ? known[0] : { kind: "user", id: text }));
});

setTheme(document.documentElement.dataset.theme, false);
addEventListener("hashchange", show);
show();
follow(tell, connected);
