// What is said of quality in more than one view.

import { empty, h, number } from "./dom.js";

// Hanley and McNeil (1982): the standard error of an AUC by the numbers of both answers.
export function aucInterval(figures) {
  const { auc, count, base_rate: share } = figures;
  const positive = Math.round(count * (share ?? 0));
  const negative = count - positive;
  if (auc === null || positive < 2 || negative < 2) return null;
  const q1 = auc / (2 - auc);
  const q2 = (2 * auc * auc) / (1 + auc);
  const error = Math.sqrt((auc * (1 - auc) + (positive - 1) * (q1 - auc * auc) + (negative - 1) * (q2 - auc * auc)) / (positive * negative));
  return [Math.max(0, auc - 1.96 * error), Math.min(1, auc + 1.96 * error)];
}

export const unmeasured = () => empty("No report so far. Whoever renews the model measures it too: set a trigger under ", h("code", {}, "[retrain]"), " in the topology.");

export const interval = (bounds) => (bounds ? `${number(bounds[0], 3)} to ${number(bounds[1], 3)}` : "–");
