// Elements, and how numbers and times are written.

export function h(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && !key.startsWith("aria") && key !== "list") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function say(text) {
  document.getElementById("said").textContent = text;
}

export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${number(100 * value, digits)} %`);
export const rate = (value) => number(value, value !== null && value < 10 ? 1 : 0);
export const milliseconds = (value) => (value === null || value === undefined ? "–" : value < 10_000 ? `${number(value)} ms` : `${number(value / 1000)} s`);

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value) => String(value).padStart(2, "0");

// UTC, as all times of the stream.
export function when(seconds, withSeconds = false) {
  if (seconds === null || seconds === undefined) return "–";
  const at = new Date(1000 * seconds);
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${withSeconds ? `:${two(at.getUTCSeconds())}` : ""}`;
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ${time}`;
}

export function day(seconds) {
  const at = new Date(1000 * seconds);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
}

export function span(seconds) {
  const s = Math.abs(seconds);
  for (const [unit, length] of [["d", 86_400], ["h", 3600], ["min", 60]]) {
    if (s >= (unit === "d" ? 2 : 1) * length) return `${number(s / length)} ${unit}`;
  }
  return `${number(s, s < 10 && s % 1 ? 1 : 0)} s`;
}

export const date = (seconds) => new Date(1000 * seconds);

export const nodeHref = (kind, id) => `#/node/${kind}/${encodeURIComponent(id)}`;
export const nodeLink = (kind, id, ...also) => h(`a.node.${kind}`, { href: nodeHref(kind, id) }, id, ...also);

export function bar(share, label, mark = null) {
  const outer = h("span.meter", { role: "img", "aria-label": label });
  const inner = h("span");
  inner.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  outer.append(inner);
  if (mark !== null) {
    const line = h("i");
    line.style.left = `${100 * mark}%`;
    outer.append(line);
  }
  return outer;
}

export function table(caption, head, rows, classes = "") {
  // Numbers stand under each other, and so does what heads them.
  const isNumber = (value) => !(value instanceof Node) && /^[-+−–]?[\d.,]*( %)?$/.test(String(value));
  const numeric = head.map((_, column) => column > 0 && rows.length > 0 && rows.every((row) => isNumber(row[column])) && rows.some((row) => /\d/.test(String(row[column]))));
  const cell = (value, column) => h(numeric[column] ? "td.number" : "td", {}, value instanceof Node || Array.isArray(value) ? value : String(value));
  return h("div.scroll", { tabIndex: 0, role: "group", "aria-label": caption },
    h(classes ? `table.${classes}` : "table", {},
      h("caption.hidden", {}, caption),
      h("thead", {}, h("tr", {}, head.map((each, column) => (each ? h(numeric[column] ? "th.number" : "th", { scope: "col" }, each) : h("td"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

export function section(title, note, ...content) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section.card", { "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), note ? h("p.note", {}, note) : null), ...content);
}

export const empty = (...text) => h("p.empty", {}, ...text);

export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "");

export function problem(error, what) {
  return h("p.problem", { role: "alert" }, h("strong", {}, `${what} `), sentence(error.message));
}
