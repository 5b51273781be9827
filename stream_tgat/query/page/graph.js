// The graph as it grows: the newest interactions as edges that fade, their ends as nodes; a click leads to a node.

import { colours } from "./charts.js";
import { empty, fill, h, nodeHref, nodeLink, number, section, table, when } from "./dom.js";
import { Layout, MOST_EDGES } from "./layout.js";

const SHADES = 6;
const FRAMES = 240;
const LISTED = 10;

export function graphView(main, _parts, last) {
  const layout = new Layout();
  const canvas = h("canvas", { tabIndex: 0, role: "img", "aria-label": "Newest interactions as a graph; the table below tells the same. Arrow keys move, plus and minus zoom." });
  const tip = h("div.tip", { hidden: true });
  const counts = h("p.note", { role: "status" });
  const list = h("div", {});
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => hold(!held) }, "Pause");
  const fit = h("button", { type: "button", onclick: () => { follows = true; } }, "Fit");
  const kept = h("input", { type: "range", min: 10, max: 600, step: 10, value: 120, id: "kept", oninput: () => { shown.textContent = `${kept.value} s`; } });
  const shown = h("output", { htmlFor: "kept" }, "120 s");
  main.append(
    h("div.head", {}, h("h1", {}, "The graph, live"), counts),
    section("Newest interactions as they are embedded", null,
      h("div.controls", {}, pause, fit, h("label.wide", { htmlFor: "kept" }, "Fades within", kept, shown),
        h("div.key", {}, h("span.user", {}, "user"), h("span.item", {}, "item"), h("span.raised", {}, "alert"))),
      h("div.canvas", {}, canvas, tip)),
    section("The same as a list", `the newest ${LISTED}`, list));

  const context = canvas.getContext("2d");
  const frames = [];
  let c = colours();
  let held = false;
  let follows = true;
  let zoom = 1;
  let middleX = 0;
  let middleY = 0;
  let over = -1;
  let isListed = true;
  let toldAt = 0;
  let request = 0;
  let isBlank = false;

  function hold(value) {
    held = value;
    pause.setAttribute("aria-pressed", String(held));
    pause.textContent = held ? "Go on" : "Pause";
  }

  function add(interactions) {
    const now = performance.now();
    for (const each of interactions) layout.meet(each.user, each.item, now);
  }

  function size() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    return ratio;
  }

  function lookAtAll() {
    // Nearly all: a few that are far away would make all the others small.
    let sumX = 0; let sumY = 0; let squareX = 0; let squareY = 0;
    for (let n = 0; n < layout.count; n++) {
      if (!layout.ids[n]) continue;
      sumX += layout.x[n];
      sumY += layout.y[n];
      squareX += layout.x[n] ** 2;
      squareY += layout.y[n] ** 2;
    }
    const count = layout.nodes;
    if (!count) return;
    const [meanX, meanY] = [sumX / count, sumY / count];
    const wide = 5 * Math.sqrt(Math.max(squareX / count - meanX ** 2, 0)) + 80;
    const high = 5 * Math.sqrt(Math.max(squareY / count - meanY ** 2, 0)) + 80;
    const wanted = Math.min(2, canvas.clientWidth / wide, canvas.clientHeight / high);
    zoom += 0.12 * (wanted - zoom);
    middleX += 0.12 * (meanX - middleX);
    middleY += 0.12 * (meanY - middleY);
  }

  function draw(now, ratio) {
    const { x, y, ids, seen } = layout;
    const scale = zoom * ratio;
    const life = 1000 * Number(kept.value);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(scale, 0, 0, scale, canvas.width / 2 - scale * middleX, canvas.height / 2 - scale * middleY);
    // One path for all edges of about one age.
    const paths = Array.from({ length: SHADES }, () => new Path2D());
    for (let number = layout.first; number < layout.edges; number++) {
      const edge = number % MOST_EDGES;
      const a = layout.from[edge];
      const b = layout.to[edge];
      if (!ids[a] || !ids[b]) continue;
      const shade = Math.min(SHADES - 1, Math.floor(SHADES * (now - layout.at[edge]) / life));
      paths[shade].moveTo(x[a], y[a]);
      paths[shade].lineTo(x[b], y[b]);
    }
    context.lineWidth = 1 / zoom;
    context.strokeStyle = c.muted;
    for (let shade = SHADES - 1; shade >= 0; shade--) {
      context.globalAlpha = 0.5 * (1 - shade / SHADES) ** 1.5;
      context.stroke(paths[shade]);
    }
    const few = layout.nodes < 3000;
    const share = layout.nodes < 800 ? 1 : 0.6;
    for (const item of [1, 0]) {
      context.fillStyle = item ? c.item : c.user;
      for (let shade = SHADES - 1; shade >= 0; shade--) {
        const path = new Path2D();
        for (let n = 0; n < layout.count; n++) {
          if (!ids[n] || layout.isItem[n] !== item) continue;
          if (Math.min(SHADES - 1, Math.floor(SHADES * (now - seen[n]) / life)) !== shade) continue;
          const r = (few ? share * (2.2 + Math.min(5, 0.7 * Math.sqrt(layout.degree[n]))) : 2.4) / Math.max(0.45, Math.min(zoom, 1));
          if (few) { path.moveTo(x[n] + r, y[n]); path.arc(x[n], y[n], r, 0, 7); } else path.rect(x[n] - r, y[n] - r, 2 * r, 2 * r);
        }
        context.globalAlpha = 0.35 + 0.65 * (1 - shade / SHADES);
        context.fill(path);
      }
    }
    context.globalAlpha = 1;
    for (let n = 0; n < layout.count; n++) {
      if (!ids[n] || (n !== over && !layout.raised[n])) continue;
      context.beginPath();
      context.arc(x[n], y[n], 9 * share / zoom, 0, 7);
      context.lineWidth = 2 / zoom;
      context.strokeStyle = n === over ? c.text : c.bad;
      context.stroke();
    }
  }

  function step(begin) {
    const ratio = size();
    if (!held) {
      layout.fade(begin, 1000 * Number(kept.value));
      layout.step();
      if (follows) lookAtAll();
    }
    draw(begin, ratio);
    isBlank = !layout.nodes;
    frames.push(performance.now() - begin);
    if (frames.length > FRAMES) frames.shift();
  }

  function frame() {
    request = requestAnimationFrame(frame);
    const begin = performance.now();
    // What is blank stays so until something comes.
    if (layout.nodes || !isBlank) step(begin);
    if (begin - toldAt > 1000) {
      toldAt = begin;
      if (!isListed) listed();
      const sorted = [...frames].sort((a, b) => a - b);
      counts.textContent = `${number(layout.nodes)} nodes, ${number(layout.edges - layout.first)} edges · ${number(sorted[sorted.length >> 1], 1)} ms a frame`;
    }
  }

  function listed() {
    const rows = last.interactions.slice(-LISTED).reverse().map((each) => [nodeLink("user", each.user), nodeLink("item", each.item), when(each.time, true)]);
    // Not while somebody is in it with the keyboard.
    isListed = !list.contains(document.activeElement);
    if (isListed) fill(list, rows.length ? table("Newest interactions", ["user", "item", "when"], rows) : empty("None since this page was opened; they appear as they are embedded."));
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left - box.width / 2) / zoom + middleX, (event.clientY - box.top - box.height / 2) / zoom + middleY];
  };
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => { dragged = { x: event.clientX, y: event.clientY, moved: 0 }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged) {
      const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
      dragged.moved += Math.abs(dx) + Math.abs(dy);
      if (dragged.moved > 4) { follows = false; middleX -= dx / zoom; middleY -= dy / zoom; }
      dragged.x = event.clientX;
      dragged.y = event.clientY;
    }
    over = layout.nearest(...place(event), 12 / zoom);
    canvas.classList.toggle("over", over >= 0);
    tip.hidden = over < 0;
    if (over >= 0) {
      const box = canvas.getBoundingClientRect();
      const { kind, id } = layout.ids[over];
      fill(tip, h(`span.node.${kind}`, {}, id), ` ${kind}, ${number(layout.degree[over])} here`);
      const left = event.clientX - box.left;
      tip.style.left = `${Math.min(left + 12, Math.max(box.width - 190, 0))}px`;
      tip.style.top = `${event.clientY - box.top + 14}px`;
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = dragged && dragged.moved <= 4;
    dragged = null;
    const hit = clicked ? layout.nearest(...place(event), 14 / zoom) : -1;
    if (hit >= 0) location.hash = nodeHref(layout.ids[hit].kind, layout.ids[hit].id);
  });
  canvas.addEventListener("pointerleave", () => { over = -1; tip.hidden = true; });
  const zoomBy = (factor) => { follows = false; zoom = Math.max(0.03, Math.min(8, zoom * factor)); };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-0.0015 * event.deltaY));
  }, { passive: false });
  const KEYS = { ArrowLeft: [-40, 0], ArrowRight: [40, 0], ArrowUp: [0, -40], ArrowDown: [0, 40] };
  canvas.addEventListener("keydown", (event) => {
    if (KEYS[event.key]) { follows = false; middleX += KEYS[event.key][0] / zoom; middleY += KEYS[event.key][1] / zoom; } else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else return;
    event.preventDefault();
  });

  add(last.interactions);
  listed();
  request = requestAnimationFrame(frame);
  // For those who measure: the graph itself, and how long the last frames took.
  canvas.graph = { add, layout, frames };
  return {
    stop: () => cancelAnimationFrame(request),
    recolour: () => { c = colours(); },
    tell: (kind, content) => {
      if (kind === "interactions" && !held) { add(content.interactions); isListed = false; }
      if (kind === "alert") {
        const at = layout.places.get(`user/${content.user}`);
        if (at !== undefined) layout.raised[at] = performance.now();
      }
    },
  };
}
