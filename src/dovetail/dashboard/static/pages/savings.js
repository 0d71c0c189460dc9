// @ts-check
/** The bill, its lower bound, the ledger, and what blocks savings. */

import { h } from "../vdom.js";
import { hasPrices, instant } from "../document.js";
import { empty, figure, link, nodeName, notComputed, objectName } from "../components.js";
import { dateAndTime, money, number, percent, perHour, pluralize } from "../format.js";

/** @typedef {import("../document.js").Blocker} Blocker */
/** @typedef {import("../document.js").View} View */
/** @typedef {import("../main.js").Page} Page */

const MAX_BLOCKERS = 100;
const MAX_NODES = 6;

/** @param {Page} page */
export function savingsPage(page) {
  const view = page.store.view;
  if (!view) return [];
  return [h("h1", null, "Savings"), figures(view), split(view), ledger(view), blockers(page, view),
    h("p", { class: "fine" }, view.cluster.prices || "")];
}

/** A bound above the bill is older than the bill: explanations take longer than a document. @param {View} view */
function lowerBound(view) {
  const bound = view.totals.lowerBoundPerHour;
  return bound != null && bound <= (view.totals.pricePerHour || 0) ? bound : null;
}

/** @param {View} view */
function figures(view) {
  const totals = view.totals;
  const savings = view.savings;
  return h("dl", { class: "figures" },
    hasPrices(totals)
      ? figure("Bill now", perHour(totals.pricePerHour || 0), `${money(totals.pricePerMonth || 0)} a month`, "lead")
      : figure("Bill now", "–", "no price is known", "lead"),
    figure("Lower bound", perHour(lowerBound(view)), lowerBound(view) === null ? notComputed(view) : "no fleet for these pods is cheaper"),
    figure("Can be saved now", perHour(totals.availableSavingPerHour || 0), "by nodes that are about to go"),
    figure("Held up by blockers", totals.blockedSavingPerHour == null ? "–" : perHour(totals.blockedSavingPerHour), `nodes of ${perHour(totals.blockedPricePerHour || 0)} are kept`),
    figure("Saved so far", money(savings.realized || 0), savings.since ? `since ${dateAndTime(instant(savings.since) || 0)}` : "no ledger"),
    figure("Nodes without a price", number(totals.unpricedNodes || 0), totals.unpricedNodes ? "not in the sums" : "every node has one"));
}

/** The bill as one bar. @param {View} view */
function split(view) {
  const totals = view.totals;
  const bill = totals.pricePerHour || 0;
  const bound = lowerBound(view);
  if (!bill || bound === null) return null;
  const needed = Math.min(bound, bill);
  const gap = Math.max(0, bill - bound);
  const held = Math.min(gap, totals.blockedSavingPerHour || 0);
  const soon = Math.min(gap - held, totals.availableSavingPerHour || 0);
  const parts = [
    { id: "needed", label: "Needed by these pods", value: needed },
    { id: "soon", label: "About to be saved", value: soon },
    { id: "held", label: "Held up by blockers", value: held },
    { id: "rest", label: "Remaining gap", value: Math.max(0, gap - held - soon) },
  ].filter((part) => part.value > bill / 1000);
  return h("section", null, h("h2", null, "Where the bill goes"),
    h("div", { class: "split", "aria-hidden": "true" }, parts.map((part) => h("span", { key: part.id, class: part.id, style: { "flex-grow": (part.value / bill).toFixed(4) } }))),
    h("ul", { class: "split-legend" }, parts.map((part) => h("li", { key: part.id }, h("i", { class: `swatch ${part.id}` }), part.label, " ",
      h("strong", null, perHour(part.value)), h("span", { class: "soft" }, ` ${percent(part.value / bill)}`)))));
}

/** @param {View} view */
function ledger(view) {
  const reasons = Object.entries(view.savings.byReason || {}).sort((a, b) => (b[1].realized || 0) - (a[1].realized || 0));
  if (!reasons.length) return null;
  return h("section", null, h("h2", null, "Ledger"),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Savings by reason" }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Reason"), ["Decisions", "Nodes", "Expected", "Realized"].map((text) => h("th", { key: text, scope: "col", class: text === "Nodes" ? "number minor" : "number" }, text)))),
      h("tbody", null, reasons.map(([reason, sums]) => h("tr", { key: reason },
        h("th", { scope: "row" }, h("a", { href: link("decisions", { q: reason }) }, reason)),
        h("td", { class: "number" }, number(sums.decisions || 0)), h("td", { class: "number minor" }, number(sums.nodes || 0)),
        h("td", { class: "number" }, money(sums.expected || 0)), h("td", { class: "number gain" }, money(sums.realized || 0))))))));
}

/** @param {Page} page @param {View} view */
function blockers(page, view) {
  const all = Object.values(view.blockers).sort((a, b) => value(b) - value(a) || (b.pricePerHour || 0) - (a.pricePerHour || 0) || (a.key < b.key ? -1 : 1));
  const most = Math.max(...all.map((blocker) => value(blocker)), 1e-9);
  return h("section", null, h("h2", null, "What blocks savings ", h("span", { class: "count" }, number(all.length))),
    all.length ? h("ol", { class: "blockers" }, all.slice(0, MAX_BLOCKERS).map((blocker) => h("li", { key: blocker.key },
      h("span", { class: "amount" }, h("strong", null, blocker.savingPerHour == null ? "–" : money(blocker.savingPerHour * 730)), h("span", { class: "soft" }, blocker.savingPerHour == null ? "saving not computed" : "a month")),
      h("span", { class: "body" },
        h("span", { class: "what" }, objectName(page.store, blocker)),
        h("span", { class: "bar wide", "aria-hidden": "true" }, h("span", { class: "fill", style: { width: `${Math.round((value(blocker) / most) * 100)}%` } })),
        h("span", { class: "why" }, blocker.message || ""),
        h("span", { class: "soft" }, `keeps ${pluralize((blocker.nodes || []).length, "node")} of ${perHour(blocker.pricePerHour || 0)}: `,
          (blocker.nodes || []).slice(0, MAX_NODES).map((name, index) => [index ? ", " : "", nodeName(page.store, name)]),
          (blocker.nodes || []).length > MAX_NODES ? ` and ${(blocker.nodes || []).length - MAX_NODES} more` : "")))))
      : empty(!view.totals.evaluatedAt ? "Blockers are being computed." : Object.keys(view.nodePools).length
        ? "Nothing blocks savings: no pod, PodDisruptionBudget or NodePool keeps a node that could go."
        : "Savings need a NodePool: without one, no node is ever replaced or removed."));
}

/** @param {Blocker} blocker */
function value(blocker) {
  return blocker.savingPerHour || 0;
}
