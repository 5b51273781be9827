// Releases: which serves, why others do or do not, and how good each was on what became known since.

import { get } from "./api.js";
import { empty, fill, h, number, percent, problem, section, sentence, table, when } from "./dom.js";
import { aucInterval, interval, unmeasured } from "./quality.js";

export function modelsView(main) {
  const releases = h("div.stack", {});
  const live = h("div.stack", {});
  const switched = h("div", {});
  main.append(
    h("div.head", {}, h("h1", {}, "Models"), h("p", {}, "Releases are trained from the log; the gate decides which may serve.")),
    section("Live quality, side by side", "each model on the questions that it was asked", live),
    section("What the last switch did", null, switched),
    section("Releases that were promoted", "newest first", releases));

  async function load() {
    const [found, report] = await Promise.allSettled([get("v1/releases"), get("v1/quality")]);
    if (!main.contains(releases)) return;
    const all = found.value?.releases ?? [];
    if (found.status === "rejected") fill(releases, problem(found.reason, "Releases cannot be read."));
    else if (!all.length) fill(releases, empty("None so far: make one with ", h("code", {}, "faust -A stream_tgat train"), "."));
    else fill(releases, all.map((each) => releaseOf(each)));
    if (report.value?.report) {
      fill(live, liveOf(report.value.report, all));
      fill(switched, switchOf(report.value.report, all));
    } else {
      const text = report.value ? unmeasured() : problem(report.reason, "The report cannot be read.");
      fill(live, text);
      fill(switched, empty("Nothing is known of it without a report."));
    }
  }
  load();
  return { tell: (kind) => { if (kind === "quality") load(); } };
}

function releaseOf(each) {
  const metrics = Object.entries(each.metrics).filter(([, value]) => value !== null);
  return h("article.stack", { "aria-label": `Release ${each.release}` },
    h("div.row", {}, h("h3", {}, `Version ${each.version}`), h("span.note", {}, each.release), each.serves ? h("span.badge.good", {}, "serves") : h("span.badge", {}, "served before")),
    each.problem ? h("p.note", {}, each.problem) : null,
    h("dl.facts", {},
      each.created ? [h("dt", {}, "made"), h("dd", {}, when(Date.parse(each.created) / 1000))] : null,
      each.learnt_until ? [h("dt", {}, "learnt from"), h("dd", {}, `everything until ${when(each.learnt_until)}`)] : null,
      each.parent ? [h("dt", {}, "after"), h("dd", {}, each.parent)] : null,
      each.decision ? [h("dt", {}, "the gate"), h("dd", {}, h(each.decision.passed ? "span.badge.good" : "span.badge.bad", {}, each.decision.passed ? "let it serve" : "kept it"), " ", reasonOf(each.decision.reason))] : null,
      each.rules ? [h("dt", {}, "beside rules"), h("dd", {}, each.rules)] : null),
    metrics.length ? h("details", {}, h("summary", {}, `${metrics.length} figures of its card`),
      table(`Figures of ${each.release}`, ["figure", "value"], metrics.map(([name, value]) => [name, number(value, 4)]))) : null);
}

// The figures that a gate has compared stand in its reason one after the other; here they are a table below it.
const COMPARED = String.raw`([\w.]+) (-?[\d.]+) against (-?[\d.]+|none)(?: \(([^)]*)\))?(?:, | and )?`;

function reasonOf(reason) {
  const rows = [...reason.matchAll(new RegExp(COMPARED, "g"))].map(([, figure, now, before, change]) => [
    figure.replace(/^heads\./, "").replace(/[._]/g, " "), before === "none" ? "–" : number(Number(before), 3), number(Number(now), 3), h("span.nowrap", {}, change ?? "–"),
  ]);
  if (!rows.length) return sentence(reason);
  return [sentence(reason.replace(new RegExp(`(?:${COMPARED})+`, "g"), "the figures below").trim()), table("What the gate compared", ["figure", "before", "new", "difference ± its error"], rows)];
}

function liveOf(report, releases) {
  const rows = report.heads.filter((each) => each.overall.count).flatMap((head) => Object.entries(head.by_model)
    .sort(([a], [b]) => Number(b) - Number(a))
    .map(([version, figures]) => {
      const card = releases.find((each) => each.version === Number(version))?.metrics ?? {};
      const told = ["newest", "test", "validation"].map((part) => card[`heads.${head.head}.${part}.auc`]).find((value) => value != null) ?? null;
      return [head.head, h("span.nowrap", {}, `model ${version}`), number(figures.count), number(figures.auc, 3), h("span.nowrap", {}, interval(aucInterval(figures))), number(told, 3), number(figures.average_precision, 3), number(figures.brier, 3), number(figures.alerts), percent(figures.alert_precision)];
    }));
  if (!rows.length) return empty("No answer is known yet for any prediction.");
  return [
    table("Live quality by head and model", ["head", "by", "answers", "AUC", "95 %", "AUC on its card", "average precision", "Brier", "alerts", "came true"], rows),
    h("p.note", {}, `Found ${when(report.created)}. On its card: as it was measured when the release was made.`),
  ];
}

function switchOf(report, releases) {
  const version = report.model;
  const before = releases.map((each) => each.version).filter((each) => each < version).sort((a, b) => b - a)[0];
  if (version === null || before === undefined) return empty("There was none: the first model serves.");
  const compared = report.heads.map((head) => ({ head: head.head, now: head.by_model[version], then: head.by_model[before] })).filter((each) => each.now?.auc != null && each.then?.auc != null);
  const links = report.links.filter((each) => each.model === version || each.model === before);
  return h("div.stack", {},
    h("p", {}, `Version ${version} took over from version ${before}${report.serving_since ? ` at ${when(report.serving_since)}` : ""}. ${report.stale_rows ? `${number(report.stale_rows)} rows still rest on older weights.` : "All rows rest on its weights."}`),
    compared.length
      ? table("AUC before and after the switch", ["head", "before", "after", "change", "answers after"], compared.map((each) => [each.head, number(each.then.auc, 3), number(each.now.auc, 3), (each.now.auc >= each.then.auc ? "+" : "−") + number(Math.abs(each.now.auc - each.then.auc), 3), number(each.now.count)]))
      : h("p.note", {}, "What it predicted has no answer yet, so before and after cannot be compared."),
    links.length > 1 ? h("p.note", {}, links.map((each) => `model ${each.model}: average precision of links ${number(each.average_precision, 3)}`).join("; ")) : null);
}
