// One node: what it did, what the model looked at, what was predicted, how it moved, who is like it, what comes next.

import { get, nodePath } from "./api.js";
import { figure } from "./charts.js";
import { bar, date, day, empty, fill, h, nodeLink, number, percent, problem, say, section, span, table, when } from "./dom.js";
import { story } from "./stories.js";

const REFRESH_MS = 10_000;
const AWAY = 503;

export function nodeView(main, [kind, id], last) {
  if (!id || !["user", "item"].includes(kind)) return nobody(main, last);
  const abort = new AbortController();
  const ask = (rest, parameters) => get(nodePath(kind, id, rest), parameters, abort.signal);
  const facts = h("div", {});
  const parts = {
    past: h("div", {}), predictions: h("div", {}), moved: h("div", {}), alerts: h("div", {}), similar: h("div", {}), next: h("div", {}),
  };
  main.append(
    h("div.head", {}, h("h1", {}, h("span.note", {}, `${kind} `), id), h("p", { id: "node-note" })),
    facts,
    section("What it did", "height: how much the model looks at it", parts.past),
    h("div.halves", {},
      kind === "user" ? h("div.stack", {},
        section("Predictions over time", "at each interaction, before it", parts.predictions),
        section("Likely next", "by the release's own affinity", parts.next)) : null,
      h("div.stack", {},
        kind === "user" ? section("Alerts", null, parts.alerts) : null,
        section("How the embedding moved", "from one interaction to the next", parts.moved),
        kind === "user" ? section("Similar nodes", "whose embeddings point the same way now", parts.similar) : null),
      kind === "item" ? section("Similar nodes", "whose embeddings point the same way now", parts.similar) : null));

  // A part that fails says so, and the others are shown. Where nobody answers, that is said once, and all is asked again.
  let isAway = false;
  const into = async (element, what, make) => {
    try {
      fill(element, await make());
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === AWAY && element !== facts) fill(element, empty("No answer just now; it is asked again."));
      else fill(element, problem(error, what));
      isAway ||= error.status === AWAY;
    }
  };
  let known = null;
  const now = () => into(facts, "The node cannot be looked up.", async () => {
    known = await ask("");
    document.getElementById("node-note").textContent = known.note ?? "";
    return factsOf(known);
  });
  const load = () => {
    isAway = false;
    const history = ask("/history", { limit: 500 });
    history.catch(() => {});
    const alerts = kind === "user" ? get("v1/alerts", { user: id, limit: 200 }, abort.signal) : Promise.resolve({ alerts: [] });
    alerts.catch(() => {});
    const first = now();
    into(parts.past, "Past interactions cannot be told.", () => pastOf(ask, kind));
    into(parts.moved, "Its past cannot be told.", async () => movedOf((await history).moments));
    into(parts.similar, "Similar nodes cannot be told.", async () => similarOf(kind, await ask("/similar", { k: 8 })));
    if (kind !== "user") return;
    into(parts.predictions, "Predictions cannot be told.", async () => {
      await first;
      return predictionsOf((await history).moments, (await alerts).alerts, known);
    });
    into(parts.alerts, "Alerts cannot be read.", async () => alertsOf((await alerts).alerts));
    into(parts.next, "Recommendations cannot be told.", () => nextOf(id, abort.signal));
  };
  load();
  const timer = setInterval(() => (isAway ? load() : now()), REFRESH_MS);
  return { stop: () => { clearInterval(timer); abort.abort(); } };
}

function nobody(main, last) {
  const recent = [...new Map(last.interactions.slice(-200).reverse().map((each) => [each.user, each])).values()].slice(0, 12);
  const seen = h("div", {}, recent.length ? h("ul.because", {}, recent.map((each) => h("li", {}, nodeLink("user", each.user)))) : empty("None since this page was opened."));
  const alerting = h("div", {}, empty("None."));
  main.append(
    h("h1", {}, "A node"),
    h("div.halves", {},
      section("Look one up", null, h("p", {}, "Write the beginning of an id into the search above: nodes that the service remembers are offered.")),
      section("Users with an alert", null, alerting),
      section("Users seen just now", null, seen)));
  get("v1/alerts", { limit: 40 }).then(({ alerts }) => {
    const users = [...new Set(alerts.map((each) => each.user))].slice(0, 12);
    if (users.length) fill(alerting, h("ul.because", {}, users.map((user) => h("li", {}, nodeLink("user", user)))));
  }).catch((error) => fill(alerting, problem(error, "Alerts cannot be read.")));
  return {};
}

function factsOf(node) {
  const heads = Object.entries(node.predictions);
  const tile = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd.text", {}, value), small ? h("dd.small", {}, small) : null);
  return h("div.stack", {},
    h("dl.tiles", { "aria-label": "The node now" },
      tile("Interactions", number(node.interactions), node.known ? null : "a newcomer"),
      tile("Last seen", when(node.last_seen)),
      tile("Embedding as of", when(node.time), `${node.embedding.length} numbers`),
      tile("Model", `version ${node.model}`),
      tile("Received until", when(node.received_until), "everything before is in it"),
      tile("Complete", node.complete ? "yes" : "not yet", node.complete ? null : "something is on its way")),
    heads.length ? section("Predicted at the newest interaction", "the mark is the threshold of alerts", h("div.heads", {}, heads.map(([name, state]) => headOf(name, state)))) : null);
}

function headOf(name, state) {
  const over = state.threshold !== null && state.probability !== null && state.probability >= state.threshold;
  const meter = bar(state.probability ?? 0, `${name}: ${percent(state.probability, 1)}${state.threshold === null ? "" : `, threshold ${percent(state.threshold)}`}`, state.threshold);
  if (over) meter.classList.add("over");
  return h("div", {}, h("span", {}, name), meter,
    h("span.value", {}, percent(state.probability, 1), state.alerted_at === null ? null : [" ", h("span.badge.bad", { title: `newest alert at ${when(state.alerted_at)}` }, `alerted ${day(state.alerted_at)}`)]));
}

// Interactions on a time axis, each as high as its attention weight; one that is chosen shows what it looked at itself.
async function pastOf(ask, kind) {
  const now = await ask("/neighbours", { limit: 200 });
  if (!now.neighbours.length) return empty("No interaction is known.");
  const events = [...now.neighbours].reverse();
  let shown = now;
  let chosen = null;
  const caption = h("p.note", { role: "status" });
  const back = h("button.small", { type: "button", hidden: true, onclick: () => choose(null) }, "Back to now");

  const weights = () => new Map(shown.neighbours.map((each) => [`${each.interaction} ${each.time}`, each.weight]));
  const describe = (c) => {
    const of = weights();
    const weight = events.map((each) => of.get(`${each.interaction} ${each.time}`) ?? 0);
    const stems = { x: [], y: [] };
    events.forEach((each, n) => { stems.x.push(date(each.time), date(each.time), null); stems.y.push(0, weight[n], null); });
    return {
      traces: [
        { ...stems, mode: "lines", line: { color: c.line, width: 2 }, hoverinfo: "skip" },
        {
          x: events.map((each) => date(each.time)), y: weight, mode: "markers",
          marker: {
            color: events.map((each, n) => (chosen === each ? c.bad : weight[n] ? c[kind === "user" ? "item" : "user"] : c.surface)),
            line: { color: events.map((each) => (chosen === each ? c.bad : c[kind === "user" ? "item" : "user"])), width: 1.5 },
            size: events.map((each) => (chosen === each ? 13 : 9)),
          },
          text: events.map((each, n) => `<b>${escaped(each.peer)}</b><br>${when(each.time)}<br>looked at: ${percent(weight[n], 1)}${each.late ? "<br>came late" : ""}`),
          hovertemplate: "%{text}<extra></extra>",
        },
      ],
      layout: {
        height: 250, y: { title: "attention weight", rangemode: "tozero", tickformat: Math.max(...weight) < 0.05 ? ".1%" : ".0%" },
        shapes: chosen ? [{ type: "line", x0: date(chosen.time), x1: date(chosen.time), y0: 0, y1: 1, yref: "paper", line: { color: c.bad, width: 1.5, dash: "dot" } }] : [],
      },
      click: (point) => point.curveNumber === 1 && choose(events[point.pointNumber]),
    };
  };
  const rows = () => {
    const of = weights();
    return [...events].reverse().map((each) => [
      when(each.time), nodeLink(each.kind, each.peer), percent(of.get(`${each.interaction} ${each.time}`) ?? 0, 1),
      Object.entries(each.features).map(([name, value]) => `${name} ${value}`).join(", "),
      each.late ? h("span.badge.warn", {}, "late") : "",
      h("button.small", { type: "button", "aria-pressed": String(chosen === each), "aria-label": `What was looked at at ${when(each.time)}, with ${each.peer}`, onclick: () => choose(each) }, "Select"),
    ]);
  };
  const behind = () => ({ head: ["when", "with", "looked at", "fields", "", ""], rows: rows() });
  const chart = figure("Interactions over time, each as high as the model looks at it", describe, behind);

  async function choose(each) {
    try {
      shown = each ? await ask("/neighbours", { time: each.time, limit: 200 }) : now;
    } catch (error) {
      if (error.name !== "AbortError") fill(caption, problem(error, "That time cannot be looked at."));
      return;
    }
    chosen = each;
    back.hidden = !each;
    const most = shown.neighbours.filter((past) => past.weight > 0).sort((a, b) => b.weight - a.weight).slice(0, 3);
    fill(caption, each
      ? [`At ${when(each.time)}, with `, nodeLink(each.kind, each.peer), most.length ? [", it looked most at ", most.map((past, n) => [n ? ", " : "", nodeLink(past.kind, past.peer), ` (${percent(past.weight)}, ${span(each.time - past.time)} before)`]), "."] : ", it had nothing to look at."]
      : "What it looks at now. Select an interaction to see what was looked at just before it.");
    chart.redraw(describe).catch(() => {});
    if (each) say("another time is shown");
  }
  choose(null);
  const older = now.older ? h("p.note", {}, `${number(now.older)} earlier interactions are only counted.`) : null;
  return h("div.stack", {}, h("div.row", {}, caption, back), chart, older);
}

const escaped = (text) => text.replace(/[&<>]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[each]);

function predictionsOf(moments, alerts, node) {
  const heads = [...new Set(moments.flatMap((each) => Object.keys(each.predictions)))];
  // A basket is many interactions at one time; its newest moment stands for it.
  const told = [...new Map(moments.filter((each) => Object.keys(each.predictions).length).map((each) => [each.time, each])).values()];
  if (!told.length) return empty("None is remembered since this service has started to read.");
  const switches = told.filter((each, n) => n && told[n - 1].model !== each.model);
  const thresholds = Object.fromEntries(heads.map((name) => [name, node?.predictions?.[name]?.threshold ?? null]));
  const describe = (c) => ({
    traces: [
      ...heads.map((name, n) => ({
        x: told.map((each) => date(each.time)), y: told.map((each) => each.predictions[name] ?? null), name, mode: told.length > 60 ? "lines" : "lines+markers",
        line: { color: c.series[n % c.series.length], width: 2, shape: "hv" }, marker: { size: 5 },
        hovertemplate: `${escaped(name)} %{y:.1%}<br>%{x|%-d %b %Y, %H:%M}<extra></extra>`,
      })),
      {
        x: alerts.map((each) => date(each.time)), y: alerts.map((each) => each.probability), name: "alert", mode: "markers", showlegend: alerts.length > 0,
        marker: { symbol: "diamond", size: 12, color: c.bad, line: { color: c.surface, width: 1.5 } },
        text: alerts.map((each) => `alert: ${escaped(each.head)} ${percent(each.probability)}<br>${each.came_true === null ? "not known yet" : each.came_true ? "came true" : "did not come true"}`),
        hovertemplate: "%{text}<extra></extra>",
      },
    ],
    layout: {
      height: 290, legend: true, y: { tickformat: ".0%", rangemode: "tozero" },
      shapes: [
        ...heads.flatMap((name, n) => (thresholds[name] === null ? [] : [{
          type: "line", xref: "paper", x0: 0, x1: 1, y0: thresholds[name], y1: thresholds[name], line: { color: c.series[n % c.series.length], width: 1, dash: "dash" },
        }])),
        ...switches.map((each) => ({ type: "line", yref: "paper", y0: 0, y1: 1, x0: date(each.time), x1: date(each.time), line: { color: c.muted, width: 1, dash: "dot" } })),
      ],
      annotations: switches.map((each, at) => ({ x: date(each.time), y: 1 - 0.08 * (at % 4), yref: "paper", text: `model ${each.model}`, showarrow: false, xanchor: "right", yanchor: "top", font: { color: c.muted, size: 12 } })),
    },
  });
  return [
    figure("Predictions over time by head, with thresholds and alerts", describe, () => ({
      head: ["when", ...heads, "model"], rows: [...told].reverse().map((each) => [when(each.time), ...heads.map((name) => percent(each.predictions[name] ?? null, 1)), each.model]),
    })),
    h("p.note", {}, `Dashed: from which probability on a head raises an alert.${switches.length ? " Dotted: another model took over." : ""}`),
  ];
}

function movedOf(moments) {
  // What is less is float32.
  const told = moments.filter((each) => each.moved > 1e-5);
  if (!told.length) return empty("At least two interactions must be remembered.");
  const path = moments.filter((each) => each.x !== null);
  const describeMoves = (c) => ({
    traces: [{
      x: told.map((each) => date(each.time)), y: told.map((each) => each.moved), mode: "markers",
      marker: { color: c.accent, size: 7, opacity: 0.7 }, hovertemplate: "moved %{y:.4f}<br>%{x|%-d %b %Y, %H:%M}<extra></extra>",
    }],
    layout: { height: 180, y: { title: "1 − cosine", type: "log", tickvals: [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1], ticktext: ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1"] } },
  });
  const describePath = (c) => ({
    traces: [
      { x: path.map((each) => each.x), y: path.map((each) => each.y), mode: "lines+markers", line: { color: c.line, width: 1.5 },
        marker: { size: 6, color: path.map((_, n) => n), colorscale: [[0, c.line], [1, c.accent]] },
        text: path.map((each) => when(each.time)), hovertemplate: "%{text}<extra></extra>" },
      { x: path.slice(-1).map((each) => each.x), y: path.slice(-1).map((each) => each.y), mode: "markers", hoverinfo: "skip", marker: { size: 13, color: c.accent, line: { color: c.surface, width: 2 } } },
    ],
    layout: { height: 210, x: { showticklabels: false, showgrid: false, zeroline: false, showline: false }, y: { showticklabels: false, showgrid: false, zeroline: false, showline: false, scaleanchor: "x" }, margin: { l: 8, b: 8 } },
  });
  const rows = () => [...told].reverse().map((each) => [when(each.time), each.peer, number(each.moved, 4), each.model]);
  return [
    figure("By how much the embedding changed at each interaction", describeMoves, () => ({ head: ["when", "with", "moved", "model"], rows: rows() })),
    path.length > 1 ? [figure("The way of the embedding on the map", describePath), h("p.note", {}, "Its way on ", h("a", { href: "#/map" }, "the map"), "; the large point is the newest.")]
      : h("p.note", {}, "Its way on the map is shown once ", h("a", { href: "#/map" }, "the map"), " was drawn."),
  ];
}

function similarOf(kind, similar) {
  if (!similar.nodes.length) return empty("No other node is known by this model.");
  return [
    h("ul.ranked", {}, similar.nodes.map((each) => h("li", {}, nodeLink(kind, each.id), bar(Math.max(each.similarity, 0), `similarity ${number(each.similarity, 3)}`), h("span.value", {}, number(each.similarity, 3))))),
    h("p.note", {}, `Cosine, among ${number(similar.searched)} nodes of this kind.`),
  ];
}

async function nextOf(id, signal) {
  const list = h("div", {});
  const met = h("select", { id: "met", onchange: () => show() },
    h("option", { value: "all" }, "all items"), h("option", { value: "new" }, "not met before"), h("option", { value: "known" }, "met before"));
  async function show() {
    const found = await get(`v1/users/${encodeURIComponent(id)}/recommend`, { k: 8, met: met.value }, signal);
    const best = Math.max(...found.items.map((each) => each.probability), 1e-9);
    fill(list, found.items.length
      ? h("ul.ranked", {}, found.items.map((each) => h("li", {}, nodeLink("item", each.item), bar(each.probability / best, `score ${number(each.probability, 3)}`),
        h("span.value", {}, number(each.probability, 3)), each.why.length ? h("span.why", {}, each.why.join(" · ")) : null)))
      : empty("No such item is known."));
  }
  await show();
  return h("div.stack", {}, h("div.controls", {}, h("label", { htmlFor: "met" }, "Among"), met), list);
}

function alertsOf(alerts) {
  if (!alerts.length) return empty("None is remembered.");
  return h("div.scroll", { tabIndex: 0, role: "group", "aria-label": "Alerts of this user" }, h("ul.stories", {}, alerts.map((each) => story(each, false))));
}
