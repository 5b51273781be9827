// Embeddings on a plane: fitted on a sample, coloured by what one asks for, as of any time that is remembered.

import { get } from "./api.js";
import { figure } from "./charts.js";
import { empty, fill, h, nodeHref, nodeLink, number, percent, problem, section, when } from "./dom.js";

const STEPS = 200;
const PLAY_MS = 350;
const SHADE = { light: [[0, "#dfe4f5"], [1, "#2a45b8"]], dark: [[0, "#2b3350"], [1, "#b9c7ff"]] };

export function mapView(main) {
  const abort = new AbortController();
  const chart = h("div", {});
  const note = h("p.note", { role: "status" });
  const colour = h("select", { id: "colour", onchange: () => draw() },
    h("option", { value: "kind" }, "kind"), h("option", { value: "community" }, "community"), h("option", { value: "time" }, "last seen"));
  const limit = h("select", { id: "limit", onchange: () => load() }, [300, 1000, 2000].map((count) => h("option", { value: count, selected: count === 1000 }, number(count))));
  const slider = h("input", { id: "time", type: "range", min: 0, max: STEPS, value: STEPS, oninput: () => moved() });
  const shown = h("output", { htmlFor: "time" }, "now");
  const play = h("button", { type: "button", "aria-pressed": "false", onclick: () => playing(!timer) }, "Play");
  main.append(
    h("div.head", {}, h("h1", {}, "The map"), note),
    section("Nodes that the model sees alike are near each other", null,
      h("div.controls", {},
        h("label", { htmlFor: "colour" }, "Colour by", colour), h("label", { htmlFor: "limit" }, "Nodes", limit),
        h("label.wide", { htmlFor: "time" }, "Time", slider, shown), play),
      chart));
  let found = null;
  let range = null;
  let timer = null;
  let wanted = 0;
  let plot = null;

  function atTime() {
    if (Number(slider.value) === STEPS || !found?.since) return null;
    return found.since + (found.until - found.since) * Number(slider.value) / STEPS;
  }

  async function load() {
    const mine = ++wanted;
    const time = atTime();
    try {
      const next = await get("v1/map", { time, limit: limit.value }, abort.signal);
      if (mine !== wanted) return;
      found = next;
    } catch (error) {
      if (error.name !== "AbortError") fill(chart, problem(error, "The map cannot be drawn."));
      return;
    }
    const before = colour.value;
    for (const head of found.heads) {
      if (![...colour.options].some((each) => each.value === `head:${head}`)) colour.append(h("option", { value: `head:${head}` }, `prediction: ${head}`));
    }
    colour.value = before;
    // The axes stay as they are where time moves.
    if (time === null || !range) range = extent(found.places);
    shown.textContent = time === null ? (found.until ? `now, ${when(found.until)}` : "now") : when(time);
    note.textContent = found.model === null ? "" : `${number(found.places.length)} of ${number(found.nodes)} nodes, model ${found.model}; the plane shows ${percent(found.share)} of the variance`;
    draw();
  }

  let due = null;
  function moved() {
    const time = atTime();
    shown.textContent = time === null ? "now" : when(time);
    clearTimeout(due);
    due = setTimeout(load, 60);
  }

  function playing(on) {
    clearInterval(timer);
    timer = null;
    if (on) {
      if (Number(slider.value) === STEPS) slider.value = 0;
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 4;
        load();
        if (Number(slider.value) >= STEPS) playing(false);
      }, PLAY_MS);
    }
    play.setAttribute("aria-pressed", String(on));
    play.textContent = on ? "Stop" : "Play";
  }

  function draw() {
    if (!found) return;
    if (!found.places.length) {
      plot = null;
      fill(chart, empty("Nothing to show yet: the map needs embeddings of at least three nodes."));
      return;
    }
    if (plot) { plot.redraw(describe).catch(() => {}); return; }
    plot = figure("Map of nodes by their embeddings", describe, () => ({
      head: ["node", "kind", "community", "last seen", ...found.heads],
      rows: found.places.slice(0, 200).map((each) => [nodeLink(each.kind, each.id), each.kind, each.community + 1, when(each.time), ...found.heads.map((head) => percent(each.predictions[head], 1))]),
    }));
    fill(chart, plot);
  }

  function describe(c) {
    const by = colour.value;
    const groups = by === "kind" ? ["user", "item"].map((kind) => [kind, found.places.filter((each) => each.kind === kind)])
      : by === "community" ? [...new Set(found.places.map((each) => each.community))].sort((a, b) => a - b).map((one) => [`community ${one + 1}`, found.places.filter((each) => each.community === one)])
        : null;
    const text = (each) => `<b>${escaped(each.id)}</b> ${each.kind}<br>${when(each.time)}${Object.entries(each.predictions).map(([head, value]) => `<br>${escaped(head)} ${percent(value, 1)}`).join("")}`;
    const points = (places, marker, name) => ({
      x: places.map((each) => each.x), y: places.map((each) => each.y), customdata: places.map((each) => [each.kind, each.id]), text: places.map(text), name,
      mode: "markers", hovertemplate: "%{text}<extra></extra>", marker: { size: 7, opacity: 0.8, line: { color: c.surface, width: 0.5 }, ...marker },
    });
    let traces;
    if (groups) {
      traces = groups.map(([name, places], n) => points(places, { color: by === "kind" ? c[name] : c.series[n % c.series.length] }, name));
    } else {
      const value = by === "time" ? (each) => each.time : (each) => each.predictions[by.slice(5)];
      const with_ = found.places.filter((each) => value(each) !== undefined);
      const shades = SHADE[document.documentElement.dataset.theme];
      traces = [
        points(found.places.filter((each) => value(each) === undefined), { color: c.line }, "items"),
        points(with_, {
          color: with_.map((each) => (by === "time" ? each.time - found.until : value(each))), colorscale: shades, showscale: true,
          colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: c.muted }, ...(by === "time" ? { tickvals: [], title: { text: "newest at the top", side: "right", font: { color: c.muted } } } : { tickformat: ".0%" }) },
        }, "nodes"),
      ];
    }
    const hidden = { showticklabels: false, zeroline: false, showgrid: false, showline: false };
    return {
      traces,
      layout: { height: Math.min(640, Math.max(360, 0.6 * innerHeight)), zooms: true, legend: Boolean(groups), x: { ...hidden, range: range?.x }, y: { ...hidden, range: range?.y }, margin: { l: 10, b: 10 } },
      click: (point) => { location.hash = nodeHref(...point.customdata); },
    };
  }

  load();
  return { stop: () => { playing(false); clearTimeout(due); abort.abort(); } };
}

const escaped = (text) => text.replace(/[&<>]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[each]);

function extent(places) {
  if (!places.length) return null;
  const of = (name) => {
    const values = places.map((each) => each[name]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const more = 0.06 * (high - low || 1);
    return [low - more, high + more];
  };
  return { x: of("x"), y: of("y") };
}
