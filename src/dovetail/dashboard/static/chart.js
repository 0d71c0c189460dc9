// @ts-check
/** Time series as SVG: stacked rows over one time axis. */

import { h } from "./vdom.js";
import { clock, dateAndTime } from "./format.js";

/** @typedef {import("./vdom.js").VNode} VNode */
/**
 * @typedef {Object} Row
 * @property {string} id
 * @property {string} label
 * @property {(value: number) => string} write
 * @property {number[]} values one per time
 * @property {boolean} [whole] counts: no fractions on the axis
 * @property {boolean} [bars] amounts of an interval, not levels
 */
/**
 * @typedef {Object} Mark
 * @property {string} key
 * @property {number} at
 * @property {string} kind
 * @property {string} title
 */
/**
 * @typedef {Object} Chart
 * @property {number} width
 * @property {number[]} times milliseconds, ascending
 * @property {Row[]} rows
 * @property {Mark[]} marks
 * @property {number} from
 * @property {number} to
 * @property {number | null} cursor
 * @property {[number, number] | null} selection
 * @property {string} selectedMark
 * @property {(key: string) => string} markLink
 */

export const LEFT = 86;
const RIGHT = 14;
const MARKS_HEIGHT = 30;
const ROW_HEIGHT = 108;
const ROW_GAP = 38;
const AXIS_HEIGHT = 28;
const LABEL_HEIGHT = 26;
const MAX_POINTS = 1500;

/** @param {Chart} chart @param {number} x */
export function timeAt(chart, x) {
  const inner = chart.width - LEFT - RIGHT;
  const part = Math.min(1, Math.max(0, (x - LEFT) / inner));
  return chart.from + part * (chart.to - chart.from);
}

/** Index of the last time that is not after `time`; -1 if there is none. @param {number[]} times @param {number} time */
export function indexAt(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** @param {Chart} chart @returns {VNode[]} */
export function drawChart(chart) {
  const inner = Math.max(50, chart.width - LEFT - RIGHT);
  const span = Math.max(1, chart.to - chart.from);
  const x = (/** @type {number} */ time) => LEFT + ((time - chart.from) / span) * inner;
  const bottom = MARKS_HEIGHT + LABEL_HEIGHT + chart.rows.length * (ROW_HEIGHT + ROW_GAP) - ROW_GAP;
  const height = bottom + AXIS_HEIGHT;
  /** @type {VNode[]} */
  const parts = [];
  for (const tick of timeTicks(chart.from, chart.to, Math.max(2, Math.floor(inner / 110)))) {
    parts.push(h("line", { key: `v${tick}`, class: "grid", x1: x(tick), x2: x(tick), y1: MARKS_HEIGHT + LABEL_HEIGHT, y2: bottom }));
    parts.push(h("text", { key: `t${tick}`, class: "tick", x: x(tick), y: height - 8, "text-anchor": "middle" },
      span > 86_400_000 ? dateAndTime(tick).slice(0, -3) : span > 600_000 ? clock(tick).slice(0, 5) : clock(tick)));
  }
  chart.rows.forEach((row, index) => {
    parts.push(drawRow(chart, row, MARKS_HEIGHT + LABEL_HEIGHT + index * (ROW_HEIGHT + ROW_GAP), x));
  });
  if (chart.selection) {
    const [a, b] = [Math.min(...chart.selection), Math.max(...chart.selection)];
    parts.push(h("rect", { key: "selection", class: "selection", x: x(a), width: Math.max(1, x(b) - x(a)), y: MARKS_HEIGHT, height: bottom - MARKS_HEIGHT }));
  }
  if (chart.cursor !== null) {
    parts.push(h("line", { key: "cursor", class: "cursor", x1: x(chart.cursor), x2: x(chart.cursor), y1: 0, y2: bottom }));
  }
  parts.push(h("text", { key: "marks", class: "row-label", x: LEFT - 10, y: 19, "text-anchor": "end" }, "Decisions"));
  for (const mark of chart.marks) {
    if (mark.at < chart.from || mark.at > chart.to) continue;
    parts.push(h("a", { key: `m${mark.key}`, href: chart.markLink(mark.key), "aria-label": mark.title, class: `mark kind-${mark.kind}${mark.key === chart.selectedMark ? " on" : ""}` },
      h("line", { x1: x(mark.at), x2: x(mark.at), y1: 22, y2: bottom }),
      h("circle", { cx: x(mark.at), cy: 15, r: 6 }),
      h("title", null, mark.title)));
  }
  return [h("svg", { class: "chart", width: chart.width, height, viewBox: `0 0 ${chart.width} ${height}`, role: "group", "aria-label": "Time series with decisions" }, parts)];
}

/**
 * @param {Chart} chart
 * @param {Row} row
 * @param {number} top
 * @param {(time: number) => number} x
 */
function drawRow(chart, row, top, x) {
  const first = Math.max(0, indexAt(chart.times, chart.from));
  const last = Math.max(first, indexAt(chart.times, chart.to));
  let max = 0;
  for (let i = first; i <= last; i++) max = Math.max(max, row.values[i] || 0);
  const limit = row.whole ? Math.max(2, niceLimit(max)) : niceLimit(max);
  const y = (/** @type {number} */ value) => top + ROW_HEIGHT - (Math.min(value, limit) / limit) * ROW_HEIGHT;
  /** @type {VNode[]} */
  const parts = [];
  for (const value of [0, limit / 2, limit]) {
    parts.push(h("line", { class: value ? "grid" : "axis", x1: LEFT, x2: chart.width - RIGHT, y1: y(value), y2: y(value) }));
    parts.push(h("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, row.write(value)));
  }
  parts.push(h("text", { class: "row-label", x: LEFT, y: top - 9 }, row.label));
  if (chart.times.length) {
    parts.push(row.bars ? drawBars(chart, row, first, last, x, y) : drawSteps(chart, row, first, last, x, y));
  }
  if (chart.cursor !== null) {
    const index = indexAt(chart.times, chart.cursor);
    if (index >= 0) parts.push(h("circle", { class: "point", cx: x(chart.cursor), cy: y(row.values[index]), r: 3.5 }));
  }
  return h("g", { key: row.id, class: `series ${row.id}` }, parts);
}

/** @typedef {(value: number) => number} Scale */

/** @param {Chart} chart @param {Row} row @param {number} first @param {number} last @param {Scale} x @param {Scale} y */
function drawSteps(chart, row, first, last, x, y) {
  const step = Math.max(1, Math.ceil((last - first + 1) / MAX_POINTS));
  const left = Math.max(LEFT, x(chart.times[first]));
  let line = `M${left.toFixed(1)} ${y(row.values[first]).toFixed(1)}`;
  for (let i = first + step; i <= last; i += step) line += `H${x(chart.times[i]).toFixed(1)}V${y(row.values[i]).toFixed(1)}`;
  const right = Math.min(x(chart.to), x(Math.max(chart.times[last], Math.min(chart.to, chart.times[chart.times.length - 1]))));
  line += `H${right.toFixed(1)}`;
  return h("g", null,
    h("path", { class: "area", d: `${line}V${y(0).toFixed(1)}H${left.toFixed(1)}Z` }),
    h("path", { class: "stroke", d: line }));
}

/** @param {Chart} chart @param {Row} row @param {number} first @param {number} last @param {Scale} x @param {Scale} y */
function drawBars(chart, row, first, last, x, y) {
  let path = "";
  for (let i = first; i <= last; i++) {
    if (!row.values[i] || chart.times[i] < chart.from) continue;
    const end = x(chart.times[i]);
    const start = i > 0 ? Math.max(LEFT, x(chart.times[i - 1])) : end - 3;
    const width = Math.max(2, Math.min(12, end - start - 1));
    path += `M${(end - width).toFixed(1)} ${y(0).toFixed(1)}V${y(row.values[i]).toFixed(1)}h${width.toFixed(1)}V${y(0).toFixed(1)}z`;
  }
  return h("path", { class: "bars", d: path });
}

/** The smallest of 1, 2, 4, 5, 10 × 10ⁿ that is not below a value. @param {number} value */
function niceLimit(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 4, 5, 10]) if (value <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

/** @param {number} from @param {number} to @param {number} count */
function timeTicks(from, to, count) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
  const step = (steps.find((seconds) => (to - from) / 1000 / seconds <= count) || 604800) * 1000;
  const ticks = [];
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  for (let tick = Math.ceil((from - offset) / step) * step + offset; tick <= to; tick += step) ticks.push(tick);
  return ticks;
}
