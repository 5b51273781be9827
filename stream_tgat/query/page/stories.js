// Alerts as stories: who, what, because of which past interactions, and whether it came true.

import { h, nodeLink, percent, span, when } from "./dom.js";

export function story(alert, withUser = true) {
  return h("li", {},
    h("div.what", {},
      h("span", {}, withUser ? [nodeLink("user", alert.user), " · "] : null,
        h("strong", {}, alert.head), ` ${percent(alert.probability)}`,
        h("span.note", {}, ` (threshold ${percent(alert.threshold)}) at `), nodeLink("item", alert.item)),
      h("span.row", {}, outcome(alert), h("span.note", {}, when(alert.time)))),
    alert.because.length ? h("ul.because", { "aria-label": "Because of" },
      h("li.label", {}, "because of"),
      byPeer(alert.because).map((each) => h("li", {}, nodeLink("item", each.peer),
        h("small", {}, `${each.count > 1 ? `${each.count} times, last ` : ""}${span(alert.time - each.time)} before · ${percent(each.weight)}`)))) : null);
}

// What was met more than once is told once.
function byPeer(because) {
  const found = new Map();
  for (const { peer, time, weight } of because) {
    const before = found.get(peer) ?? { peer, time, weight: 0, count: 0 };
    found.set(peer, { peer, time: Math.max(before.time, time), weight: before.weight + weight, count: before.count + 1 });
  }
  return [...found.values()].sort((a, b) => b.weight - a.weight).slice(0, 5);
}

function outcome(alert) {
  if (alert.came_true === null) return h("span.badge", {}, "not known yet");
  const later = alert.known_at > alert.time ? `, known ${span(alert.known_at - alert.time)} later` : "";
  return alert.came_true ? h("span.badge.good", {}, `came true${later}`) : h("span.badge.bad", {}, `did not come true${later}`);
}
