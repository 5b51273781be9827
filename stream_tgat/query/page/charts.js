// Plotly, loaded when a view first draws a chart, in the page's colours; and the table that stands behind each chart.

import { fill, h, table } from "./dom.js";

const SERIES = {
  light: ["#3b5bdb", "#c2570c", "#1a7f4b", "#9333a8", "#8a6d00", "#0e7490", "#be2f6b", "#5b6470"],
  dark: ["#8fa8ff", "#f0a060", "#5cc48d", "#d495e4", "#d9b84a", "#5cc3da", "#f58ab5", "#a9b1bd"],
};
const drawn = new Map();
let loading = null;

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of("text"), muted: of("muted"), line: of("line"), surface: of("surface"), bad: of("bad"), good: of("good"),
    user: of("user"), item: of("item"), accent: of("accent"),
    series: SERIES[document.documentElement.dataset.theme] ?? SERIES.light,
  };
}

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { src: "plotly.min.js" });
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("plotly.min.js could not be loaded")));
    document.head.append(script);
  });
  return loading;
}

function layoutOf(layout, c) {
  const axis = {
    gridcolor: c.line, linecolor: c.line, zerolinecolor: c.line, tickfont: { color: c.muted, size: 12 }, automargin: true,
    fixedrange: !layout.zooms, title: { font: { color: c.muted, size: 12 }, standoff: 8 },
  };
  const merged = (given = {}) => ({ ...axis, ...given, title: { ...axis.title, text: given.title ?? "" } });
  return {
    autosize: true, height: layout.height ?? 260, margin: { l: 44, r: 12, t: 8, b: 28, ...layout.margin },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "inherit", color: c.text, size: 13 },
    hoverlabel: { bgcolor: c.surface, bordercolor: c.line, font: { color: c.text, size: 13 }, align: "left" },
    showlegend: layout.legend ?? false, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { color: c.text } },
    dragmode: layout.zooms ? "pan" : false, hovermode: layout.hovermode ?? "closest",
    xaxis: merged(layout.x), yaxis: merged(layout.y), shapes: layout.shapes ?? [], annotations: layout.annotations ?? [],
  };
}

// A figure with its caption. describe(c): {traces, layout, click}, in colours c; rows: of the table behind it
export function figure(label, describe, behind = null) {
  const plot = h("div.plot", { role: "img", "aria-label": label });
  const details = behind ? h("details", {}, h("summary", {}, "Show as a table")) : null;
  const outer = h("figure.chart", {}, plot, details);
  const chart = { plot, draw: async (next = describe) => {
    describe = next;
    const Plotly = await plotly();
    if (!plot.isConnected) return;
    const c = colours();
    const { traces, layout, click } = describe(c);
    await Plotly.react(plot, traces, layoutOf(layout, c), {
      displayModeBar: false, responsive: true, scrollZoom: Boolean(layout.zooms), doubleClick: layout.zooms ? "reset" : false,
    });
    plot.removeAllListeners?.("plotly_click");
    if (click) plot.on("plotly_click", (event) => click(event.points[0]));
    if (details?.open) tell();
  } };
  const tell = () => {
    const { head, rows } = behind();
    fill(details, details.firstElementChild, table(label, head, rows));
  };
  details?.addEventListener("toggle", () => details.open && tell());
  drawn.set(plot, chart);
  outer.redraw = chart.draw;
  requestAnimationFrame(() => chart.draw().catch((error) => fill(plot, h("p.problem", {}, error.message))));
  return outer;
}

export function redrawAll() {
  for (const [plot, chart] of drawn) {
    if (plot.isConnected) chart.draw();
    else drawn.delete(plot);
  }
}

export function forgetCharts(within) {
  for (const plot of drawn.keys()) {
    if (within.contains(plot)) {
      window.Plotly?.purge(plot);
      drawn.delete(plot);
    }
  }
}

// A line of bars, without axes: the last seconds at a glance.
export function sparkline(values, label) {
  const width = 2 * values.length;
  const top = Math.max(1, ...values);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} 32`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.classList.add("spark");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", values.map((value, n) => {
    const height = value ? Math.max(1, 32 * value / top) : 0;
    return `M${2 * n} 32v${-height}h1.6v${height}z`;
  }).join(""));
  svg.append(path);
  return svg;
}
