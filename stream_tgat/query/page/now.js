// How the stream does now: speed, latency, what lags, how good predictions are, and the newest alerts.

import { get } from "./api.js";
import { aucInterval, interval, unmeasured } from "./quality.js";
import { sparkline } from "./charts.js";
import { bar, empty, fill, h, milliseconds, nodeLink, number, problem, rate, section, table, when } from "./dom.js";
import { story } from "./stories.js";

const REFRESH_MS = 5000;
const SHOWN = 6;
const MOST_SHOWN = 96;

export function nowView(main, _parts, last) {
  const tiles = h("dl.tiles", { "aria-label": "The stream now" });
  const stories = h("div", {});
  const lag = h("div", {});
  const quality = h("div.stack", {});
  const newest = h("div", {});
  const state = h("div", { role: "status" });
  let model = null;
  let isUntrained = false;
  const choices = [["All", undefined], ["Came true", true], ["Did not come true", false]];
  let chosen = 0;
  let limit = SHOWN;
  const more = h("button.small", { type: "button", hidden: true, onclick: () => { limit = Math.min(2 * limit, MOST_SHOWN); refresh(); } }, "Show more");
  function choose(n, button) {
    chosen = n;
    limit = SHOWN;
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    refresh();
  }
  main.append(
    h("div.head", {}, h("h1", {}, "Now"), h("p", {}, "Times are those of the stream, in UTC.")),
    state, tiles,
    h("div.columns", {},
      h("div.stack", {},
        section("Newest alerts", "what the model looked at, and what turned out",
          h("div.controls", { role: "group", "aria-label": "Which alerts" }, choices.map(([text], n) => h("button.small", { type: "button", "aria-pressed": String(n === 0), onclick: (event) => choose(n, event.target) }, text))),
          stories, more),
        section("Newest interactions", null, newest)),
      h("div.stack", {},
        section("How good predictions are", "on what became known lately", quality),
        section("How far behind", "records that are not in the state yet", lag))));

  const pulse = (content) => {
    fill(tiles, tilesOf(content, model));
    fill(lag, lagOf(content));
    const why = isUntrained ? "No model serves yet. Train one from what is in the log: faust -A stream_tgat train"
      : content.unanswered ? `Questions about nodes have no answer now: ${content.unanswered}.` : "";
    if (state.textContent !== why) fill(state, why ? h("p.held", {}, why) : null);
  };

  async function refresh() {
    const [alerts, report, releases] = await Promise.allSettled([
      get("v1/alerts", { limit: limit + 1, came_true: choices[chosen][1] }), get("v1/quality"), get("v1/releases"),
    ]);
    if (!main.contains(stories)) return;
    model = releases.value?.releases.find((each) => each.serves) ?? model;
    isUntrained = releases.value?.releases.length === 0;
    if (last.pulse) pulse(last.pulse);
    if (alerts.status === "rejected") fill(stories, problem(alerts.reason, "Alerts cannot be read."));
    else if (!alerts.value.alerts.length) fill(stories, empty(chosen ? "None so far: labels tell what turned out." : "None so far. A head with a threshold raises one when its prediction comes to be above it."));
    else fill(stories, h("ul.stories", {}, alerts.value.alerts.slice(0, limit).map((each) => story(each))));
    more.hidden = !(alerts.value?.alerts.length > limit) || limit === MOST_SHOWN;
    if (report.status === "rejected") fill(quality, problem(report.reason, "The report cannot be read."));
    else if (report.value.report) fill(quality, qualityOf(report.value.report));
    else fill(quality, unmeasured());
  }

  const interactions = () => {
    const rows = last.interactions.slice(-8).reverse();
    fill(newest, rows.length
      ? table("Newest interactions", ["user", "item", "when"], rows.map((each) => [nodeLink("user", each.user), nodeLink("item", each.item), when(each.time, true)]))
      : empty("None since this page was opened."));
  };

  if (last.pulse) pulse(last.pulse);
  else fill(tiles, tilesOf(null, null));
  interactions();
  refresh();
  const timer = setInterval(refresh, REFRESH_MS);
  return {
    stop: () => clearInterval(timer),
    tell: (kind, content) => {
      if (kind === "pulse") pulse(content);
      if (kind === "interactions") interactions();
      if (kind === "alert" || kind === "quality") refresh();
    },
  };
}

function tile(name, value, small, isText = false) {
  return h("div", {}, h("dt", {}, name), h(isText ? "dd.text" : "dd", {}, value), small ? h("dd.small", {}, small) : null);
}

function tilesOf(pulse, model) {
  const p = pulse ?? {};
  const counts = (p.by_second ?? []).map(([, count]) => count);
  const latency = p.latencies ? "the last minute" : "no interaction came lately";
  return [
    tile("Interactions per second", rate(p.interactions_per_s), counts.length ? sparkline(counts, "interactions in each of the last 120 seconds") : null),
    tile("Latency, half of all", milliseconds(p.latency_p50_ms), latency),
    tile("Latency, 99 %", milliseconds(p.latency_p99_ms), latency),
    tile("Alerts", number(p.alerts), `${number(p.nodes)} nodes seen`),
    tile("Time of the stream", when(p.event_time), p.unread > 1000 ? `this page reads on: ${number(p.unread)} to go` : "of the newest embedding", true),
    tile("Model", p.model === null || p.model === undefined ? "–" : `version ${p.model}`, model ? model.release : null, true),
  ];
}

function lagOf(pulse) {
  if (!pulse.sources.length) return empty("Nothing is known yet.");
  const worst = Math.max(1, ...pulse.sources.map((each) => each.behind));
  // Where rows wait for all of them, naming each says nothing.
  const isOne = pulse.sources.some((each) => !each.blocks);
  return [
    pulse.held ? h("p.held", {}, pulse.held) : null,
    table("How far behind each source is", ["source", "behind", "", "has come to"], pulse.sources.map((each) => [
      each.name, number(each.behind), bar(each.behind / worst, `${each.behind} records behind`),
      [h("span.nowrap", {}, when(each.watermark, true)), each.blocks && isOne ? [" ", h("span.badge.warn", {}, "rows wait")] : null],
    ]), "lag"),
    h("p.note", {}, pulse.waiting ? `${pulse.waiting === 1 ? "One row waits" : `${number(pulse.waiting)} rows wait`} until all sources have come as far.` : "No row waits."),
  ];
}

function qualityOf(report) {
  const heads = report.heads.filter((each) => each.overall.count);
  return [
    heads.length
      ? table("Live quality by head", ["head", "answers", "came true", "AUC", "95 %"], heads.map((each) => [
        each.head, number(each.overall.count), number(100 * (each.overall.base_rate ?? 0), 1) + " %", number(each.overall.auc, 3), h("span.nowrap", {}, interval(aucInterval(each.overall))),
      ]))
      : empty("No answer is known yet."),
    h("p.note", {}, "AUC: how often a user for whom it comes true is ranked above one for whom it does not; 0.5 is chance. The interval takes answers as independent."),
    report.drift.length
      ? h("p.held", {}, `Drift since the model began: ${report.drift.map((each) => `${each.name.replace(/^(score|feature):/, "$1 ")} (mean ${number(each.present, 3)}, was ${number(each.reference, 3)})`).join(", ")}.`)
      : h("p.note", {}, `No drift in ${number(report.watched)} scores and features.`),
  ];
}
