// @ts-check
/** Cost, nodes, pending pods and evictions over time, with decisions. */

import { h } from "../vdom.js";
import { DECISION_WORDS, instant } from "../document.js";
import { empty, link } from "../components.js";
import { drawChart, indexAt, timeAt } from "../chart.js";
import { clock, dateAndTime, duration, money, number, perHour, pluralize } from "../format.js";

/** @typedef {import("../document.js").Decision} Decision */
/** @typedef {import("../main.js").Page} Page */
/** @typedef {import("../chart.js").Chart} Chart */

const RANGES = [
  [300, "5 min"],
  [3600, "1 h"],
  [21600, "6 h"],
  [86400, "24 h"],
];
const MIN_SPAN = 5000;
const MAX_MARKS = 400;
const TABLE_ROWS = 40;

/** State of the pointer; not part of the URL. */
const pointer = {
  /** @type {number | null} */ cursor: null,
  /** @type {number | null} */ dragFrom: null,
};

/** @param {Page} page */
export function timelinePage(page) {
  const view = page.store.view;
  if (!view) return [];
  const samples = page.store.history;
  const heading = h("h1", null, "Timeline");
  if (samples.length < 2) {
    const fixed = view.cluster.source === "dump";
    return [heading, empty(fixed ? "A dump is one instant: there is no history." : "History is recorded from now on; the first points appear within seconds.")];
  }
  const times = samples.map((sample) => sample.at);
  const { from, to, follows } = range(page, times);
  const decisions = Object.values(view.decisions).filter((decision) => decision.kind !== "refused");
  const marks = decisions.map((decision) => ({
    key: decision.key, at: instant(decision.at) || 0, kind: decision.kind, title: describe(decision),
  })).sort((a, b) => a.at - b.at).slice(-MAX_MARKS);
  /** @type {Chart} */
  const chart = {
    width: page.viewport.width,
    times,
    rows: [
      { id: "price", label: "Cost per hour", write: dollars, values: samples.map((sample) => sample.price) },
      { id: "nodes", label: "Nodes", write: count, values: samples.map((sample) => sample.nodes), whole: true },
      { id: "pending", label: "Pending pods", write: count, values: samples.map((sample) => sample.pending), whole: true },
      { id: "evictions", label: "Evictions", write: count, values: samples.map((sample) => sample.evictions), whole: true, bars: true },
    ],
    marks, from, to,
    cursor: pointer.cursor,
    selection: pointer.dragFrom !== null && pointer.cursor !== null ? [pointer.dragFrom, pointer.cursor] : null,
    selectedMark: page.query.get("decision") || "",
    markLink: (key) => page.link({ decision: key }),
  };
  const selected = view.decisions[chart.selectedMark];
  return [
    h("div", { class: "toolbar" }, heading, ranges(page, times, from, to, follows)),
    h("p", { class: "readout", "aria-live": "off" }, readout(chart, samples)),
    h("div", {
      class: "chart-box", tabindex: "0", role: "group",
      "aria-label": "Chart. Left and right arrows move the cursor, plus and minus zoom, Escape shows everything.",
      on: handlers(page, chart),
    }, drawChart(chart)),
    selected ? h("p", { class: "selected-mark" }, h("strong", null, dateAndTime(instant(selected.at) || 0)), ` ${describe(selected)} `,
      h("a", { href: link("decisions", { open: selected.key }) }, "Details")) : null,
    table(chart, samples),
  ];
}

/** Dollars on an axis. @param {number} value */
function dollars(value) {
  const text = value >= 1000 ? number(value) : String(Number(value.toPrecision(3)));
  return `$${text}`;
}

/** @param {number} value */
function count(value) {
  return Number.isInteger(value) ? number(value) : "";
}

/** @param {Page} page @param {number[]} times */
function range(page, times) {
  const first = times[0];
  const last = times[times.length - 1];
  const from = Number(page.query.get("from"));
  const to = Number(page.query.get("to"));
  if (from && to > from) return { from, to, follows: false };
  const seconds = Number(page.query.get("last"));
  if (seconds) return { from: last - seconds * 1000, to: last, follows: true };
  return { from: first, to: Math.max(last, first + MIN_SPAN), follows: true };
}

/** @param {Page} page @param {number[]} times @param {number} from @param {number} to @param {boolean} follows */
function ranges(page, times, from, to, follows) {
  const seconds = page.query.get("last") || "";
  const choice = (/** @type {string} */ label, /** @type {boolean} */ on, /** @type {Record<string, any>} */ query) =>
    h("a", { class: on ? "on" : "", "aria-current": on ? "true" : null, href: page.link({ from: "", to: "", last: "", ...query }) }, label);
  return h("div", { class: "choices" },
    choice("All", follows && !seconds, {}),
    RANGES.map(([length, label]) => choice(String(label), follows && seconds === String(length), { last: length })),
    h("button", { type: "button", "aria-label": "Zoom in", on: { click: () => zoom(page, from, to, (from + to) / 2, 0.5) } }, "+"),
    h("button", { type: "button", "aria-label": "Zoom out", on: { click: () => zoom(page, from, to, (from + to) / 2, 2, times) } }, "−"));
}

/**
 * @param {Page} page
 * @param {number} from
 * @param {number} to
 * @param {number} center
 * @param {number} factor
 * @param {number[]} [times]
 */
function zoom(page, from, to, center, factor, times) {
  let left = center - (center - from) * factor;
  let right = center + (to - center) * factor;
  if (right - left < MIN_SPAN) return;
  if (times) {
    left = Math.max(left, times[0]);
    right = Math.min(right, times[times.length - 1]);
    if (left <= times[0] && right >= times[times.length - 1]) return page.replace({ from: "", to: "", last: "" });
  }
  page.replace({ from: Math.round(left), to: Math.round(right), last: "" });
}

/** @param {Page} page @param {Chart} chart */
function handlers(page, chart) {
  const at = (/** @type {any} */ event) => timeAt(chart, event.clientX - event.currentTarget.getBoundingClientRect().left);
  return {
    pointermove: (/** @type {PointerEvent} */ event) => {
      pointer.cursor = at(event);
      page.update();
    },
    pointerleave: () => {
      pointer.cursor = pointer.dragFrom = null;
      page.update();
    },
    pointerdown: (/** @type {PointerEvent} */ event) => {
      if (event.pointerType === "mouse" && event.button === 0 && !(/** @type {Element} */ (event.target).closest("a"))) pointer.dragFrom = at(event);
    },
    pointerup: (/** @type {PointerEvent} */ event) => {
      const start = pointer.dragFrom;
      pointer.dragFrom = null;
      if (start === null) return;
      const end = at(event);
      const [a, b] = [Math.min(start, end), Math.max(start, end)];
      if ((b - a) / (chart.to - chart.from) > 0.01 && b - a >= 1000) page.go({ from: Math.round(a), to: Math.round(b), last: "" });
      else page.update();
    },
    wheel: (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey) return; // The page scrolls; Ctrl and the wheel zoom, as in maps.
      event.preventDefault();
      zoom(page, chart.from, chart.to, at(event), event.deltaY < 0 ? 0.7 : 1 / 0.7, chart.times);
    },
    keydown: (/** @type {KeyboardEvent} */ event) => key(page, chart, event),
  };
}

/** @param {Page} page @param {Chart} chart @param {KeyboardEvent} event */
function key(page, chart, event) {
  const center = pointer.cursor ?? (chart.from + chart.to) / 2;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const step = (chart.to - chart.from) / 50;
    pointer.cursor = Math.min(chart.to, Math.max(chart.from, center + (event.key === "ArrowLeft" ? -step : step)));
    page.update();
  } else if (event.key === "+" || event.key === "=") {
    zoom(page, chart.from, chart.to, center, 0.5);
  } else if (event.key === "-") {
    zoom(page, chart.from, chart.to, center, 2, chart.times);
  } else if (event.key === "Escape") {
    pointer.cursor = null;
    page.replace({ from: "", to: "", last: "" });
  } else {
    return;
  }
  event.preventDefault();
}

/** @param {Chart} chart @param {import("../document.js").Sample[]} samples */
function readout(chart, samples) {
  const time = chart.cursor ?? chart.times[chart.times.length - 1];
  const sample = samples[Math.max(0, indexAt(chart.times, time))];
  const parts = [
    h("strong", null, chart.cursor === null ? "Now" : dateAndTime(time)),
    h("span", { class: "price" }, perHour(sample.price)),
    h("span", { class: "nodes" }, pluralize(sample.nodes, "node")),
    h("span", { class: "pending" }, `${number(sample.pending)} pending`),
  ];
  const near = chart.cursor === null ? [] : chart.marks.filter((mark) => Math.abs(mark.at - time) < (chart.to - chart.from) / 100);
  return [...parts, near.length ? h("span", { class: "near" }, near[near.length - 1].title) : null];
}

/**
 * A decision in one line, with its saving.
 * @param {Decision} decision
 */
export function describe(decision) {
  const words = DECISION_WORDS[decision.kind] || decision.kind;
  const gone = (decision.nodes || decision.nodeClaims || []).length;
  const subject = decision.kind === "launched" ? pluralize((decision.nodeClaims || []).length || 1, "node") : pluralize(gone, "node");
  const replaced = (decision.replacements || []).length ? `, ${(decision.replacements || []).length} launched instead` : "";
  const saving = decision.realizedPerHour ?? decision.expectedPerHour;
  const saved = saving ? `, ${saving > 0 ? "saves" : "costs"} ${perHour(Math.abs(saving))}` : "";
  const reason = decision.reason ? ` (${decision.reason})` : "";
  return `${words} ${subject}${reason}${replaced}${saved}`;
}

/** The same as text, for screen readers. @param {Chart} chart @param {import("../document.js").Sample[]} samples */
function table(chart, samples) {
  const shown = samples.filter((sample) => sample.at >= chart.from && sample.at <= chart.to);
  const step = Math.max(1, Math.ceil(shown.length / TABLE_ROWS));
  return h("details", { class: "as-table" }, h("summary", null, "Show as a table"),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Time series as a table" }, h("table", null,
      h("thead", null, h("tr", null, ["Time", "Cost per hour", "Nodes", "Pending pods", "Evictions"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", null, shown.filter((_, index) => index % step === 0).map((sample, index) => {
        const evictions = shown.slice(index * step, (index + 1) * step).reduce((sum, each) => sum + each.evictions, 0);
        return h("tr", { key: String(sample.at) }, h("th", { scope: "row" }, clock(sample.at)), h("td", null, money(sample.price)), h("td", null, number(sample.nodes)), h("td", null, number(sample.pending)), h("td", null, number(evictions)));
      })))),
    h("p", { class: "fine" }, `${pluralize(shown.length, "point")} in ${duration((chart.to - chart.from) / 1000)}.`));
}
