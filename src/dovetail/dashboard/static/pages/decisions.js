// @ts-check
/** What the autoscaler decided, and what it was worth. */

import { h } from "../vdom.js";
import { DECISION_WORDS, instant } from "../document.js";
import { empty, link, nodeName, shortName } from "../components.js";
import { dateAndTime, duration, money, number, perHour, pluralize } from "../format.js";

/** @typedef {import("../document.js").Decision} Decision */
/** @typedef {import("../main.js").Page} Page */

const STEP = 100;
const TITLES = [["Time", ""], ["Decision", ""], ["Why", "wide"], ["Expected", "number minor"], ["Real", "number minor"], ["Saved so far", "number"]];

/** @param {Page} page */
export function decisionsPage(page) {
  const view = page.store.view;
  if (!view) return [];
  const all = Object.values(view.decisions).sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : a.key < b.key ? -1 : 1));
  const kind = page.query.get("kind") || "";
  const filter = (page.query.get("q") || "").toLowerCase();
  const limit = Number(page.query.get("limit")) || STEP;
  const shown = all.filter((decision) => (kind === "all" || (kind ? decision.kind === kind : decision.kind !== "refused")) && matches(decision, filter));
  /** @type {Record<string, number>} */
  const counts = {};
  for (const decision of all) counts[decision.kind] = (counts[decision.kind] || 0) + 1;
  const heading = h("h1", null, "Decisions ", h("span", { class: "count" }, number(shown.length)));
  if (!all.length) {
    return [heading, empty("No decisions are recorded yet. Launches, consolidations, drift, expiration and interruptions appear here with what they save.")];
  }
  const choice = (/** @type {string} */ id, /** @type {string} */ label, /** @type {number} */ count) =>
    h("a", { key: id || "carried out", class: kind === id ? "on" : "", "aria-current": kind === id ? "true" : null, href: page.link({ kind: id, limit: "" }) },
      id && id !== "all" ? h("i", { class: `dot kind-${id}` }) : null, label, h("span", { class: "count" }, number(count)));
  return [
    h("div", { class: "toolbar" }, heading,
      h("label", { class: "field grow" }, h("span", null, "Filter"),
        h("input", { type: "search", value: page.query.get("q") || "", placeholder: "node, NodePool, reason", spellcheck: "false",
          on: { input: (/** @type {Event} */ event) => page.replace({ q: /** @type {HTMLInputElement} */ (event.target).value }) } }))),
    h("div", { class: "choices", role: "group", "aria-label": "Kinds" },
      choice("", "Carried out", all.length - (counts.refused || 0)),
      Object.keys(DECISION_WORDS).filter((id) => counts[id]).map((id) => choice(id, DECISION_WORDS[id], counts[id])),
      counts.refused ? choice("all", "All", all.length) : null),
    shown.length ? table(page, shown.slice(0, limit)) : empty("No decision matches."),
    shown.length > limit ? h("a", { class: "more", href: page.link({ limit: limit + STEP }) }, `Show ${number(Math.min(STEP, shown.length - limit))} more`) : null,
  ];
}

/** @param {Decision} decision @param {string} filter */
function matches(decision, filter) {
  if (!filter) return true;
  const text = [decision.kind, decision.reason, decision.message, ...(decision.nodePools || []), ...(decision.nodes || []),
    ...(decision.nodeClaims || []), ...(decision.replacements || [])].join(" ").toLowerCase();
  return filter.split(/\s+/).every((word) => text.includes(word));
}

/** @param {Page} page @param {Decision[]} decisions */
function table(page, decisions) {
  const open = page.query.get("open") || "";
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions" },
    // Roles, since the rows are grids on a phone, and a table of grids is none to a screen reader.
    h("table", { class: "decisions", role: "table" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, TITLES.map(([title, kind]) => h("th", { key: title, scope: "col", role: "columnheader", class: kind }, title)))),
      h("tbody", { role: "rowgroup" }, decisions.flatMap((decision) => [
        row(page, decision, decision.key === open),
        decision.key === open ? h("tr", { key: `${decision.key} details`, class: "details", role: "row" }, h("td", { colspan: "6", role: "cell" }, details(page, decision))) : null,
      ]))));
}

/** @param {Page} page @param {Decision} decision @param {boolean} open */
function row(page, decision, open) {
  const subject = decision.kind === "launched" ? decision.nodeClaims || [] : decision.nodes?.length ? decision.nodes : decision.nodeClaims || [];
  return h("tr", { key: decision.key, class: open ? "open" : "", role: "row" },
    h("td", { class: "time", role: "cell" }, dateAndTime(instant(decision.at) || 0)),
    h("td", { class: "decision", role: "cell" }, h("button", { type: "button", class: "disclose", "aria-expanded": open ? "true" : "false", on: { click: () => page.go({ open: open ? "" : decision.key }) } },
      h("i", { class: `dot kind-${decision.kind}` }), DECISION_WORDS[decision.kind] || decision.kind, " ",
      subject.length === 1 ? shortName(subject[0]) : subject.length ? pluralize(subject.length, "node") : "",
      decision.state === "running" ? h("span", { class: "chip running" }, "running") : decision.state === "failed" ? h("span", { class: "chip failed" }, "failed") : null)),
    h("td", { class: "wide", role: "cell" }, [decision.reason, decision.message].filter(Boolean).join(": ")),
    h("td", { class: "number minor", role: "cell" }, decision.expectedPerHour == null ? "–" : perHour(decision.expectedPerHour)),
    h("td", { class: "number minor", role: "cell" }, decision.realizedPerHour == null ? "–" : perHour(decision.realizedPerHour)),
    h("td", { class: `number saved ${(decision.realized || 0) > 0 ? "gain" : ""}`, role: "cell" }, decision.realized == null ? "–" : money(decision.realized)));
}

/** @param {Page} page @param {Decision} decision */
function details(page, decision) {
  const names = (/** @type {string[] | undefined} */ list) =>
    (list || []).length ? (list || []).map((name, index) => [index ? ", " : "", nodeName(page.store, name)]) : "–";
  const until = instant(decision.until);
  const at = instant(decision.at) || 0;
  const rows = [
    ["Reason", decision.reason || "–"],
    ["Explanation", decision.message || "–"],
    ["NodePools", (decision.nodePools || []).join(", ") || "–"],
    [decision.kind === "launched" ? "NodeClaims" : "Nodes", names(decision.nodes?.length ? decision.nodes : decision.nodeClaims)],
    ["Launched instead", names(decision.replacements)],
    ["Pods that move", number(decision.pods || 0)],
    ["Saving", decision.expectedPerHour == null ? "–"
      : `${perHour(decision.expectedPerHour)} expected, ${decision.realizedPerHour == null ? "not known yet" : perHour(decision.realizedPerHour) + " real"}`],
    ["Saved so far", decision.realized == null ? "–" : `${money(decision.realized)} ${until ? `in ${duration((until - at) / 1000)}; ended ${dateAndTime(until)}` : "and counting"}`],
  ];
  return [
    h("dl", { class: "facts" }, rows.map(([label, value]) => [h("dt", null, label), h("dd", null, value)])),
    h("a", { href: link("timeline", { decision: decision.key }) }, "Show on the timeline"),
  ];
}
