// @ts-check
/** Parts that several pages share. */

import { h } from "./vdom.js";
import { instant, share, STATE_WORDS } from "./document.js";
import { cpu, duration, memory, money, percent } from "./format.js";

/** @typedef {import("./document.js").ClusterNode} ClusterNode */
/** @typedef {import("./document.js").Usage} Usage */
/** @typedef {import("./document.js").ObjectRef} ObjectRef */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./vdom.js").Children} Children */

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [query]
 */
export function link(path, query) {
  const parameters = new URLSearchParams();
  for (const name in query || {}) {
    const value = /** @type {any} */ (query)[name];
    if (value != null && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return `#/${path}${text ? "?" + text : ""}`;
}

/** @param {ClusterNode} node */
export function nodeLink(node) {
  return link(`node/${encodeURIComponent(node.key)}`);
}

/** @param {string} namespace @param {string} name */
export function podLink(namespace, name) {
  return link(`pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
}

/**
 * Name of a node or NodeClaim, as a link while it exists.
 * @param {Store} store
 * @param {string} name
 */
export function nodeName(store, name) {
  const node = store.byName.get(name);
  return node ? h("a", { href: nodeLink(node) }, name) : h("span", { class: "gone", title: "no longer there" }, name);
}

/**
 * An object that blocks a disruption; pods and nodes are links.
 * @param {Store} store
 * @param {ObjectRef} object
 */
export function objectName(store, object) {
  if (object.kind === "Node" || object.kind === "NodeClaim") return [`${object.kind} `, nodeName(store, object.name)];
  const slash = object.name.indexOf("/");
  if (object.kind === "Pod" && slash > 0) {
    return ["Pod ", h("a", { href: podLink(object.name.slice(0, slash), object.name.slice(slash + 1)) }, object.name)];
  }
  return `${object.kind} ${object.name}`;
}

/** @param {string} state */
export function stateChip(state) {
  return h("span", { class: `chip state-${state}` }, STATE_WORDS[state] || state);
}

/** Node name without the domain that all nodes share. @param {string} name */
export function shortName(name) {
  return /^ip-[\d-]+\./.test(name) ? name.slice(0, name.indexOf(".")) : name;
}

/** @param {ClusterNode} node @param {number} now */
export function age(node, now) {
  const created = instant(node.createdAt);
  return created === null ? "–" : duration((now - created) / 1000);
}

/**
 * A bar of a usage with its figures.
 * @param {string} label
 * @param {Usage | undefined} usage
 * @param {"cpu" | "memory" | "pods"} kind
 */
export function usageBar(label, usage, kind) {
  const requested = usage?.requested || 0;
  const allocatable = usage?.allocatable || 0;
  const part = share(usage);
  const write = kind === "cpu" ? (/** @type {number} */ n) => cpu(n / 1000) : kind === "memory" ? memory : String;
  return h("div", { class: "usage" },
    h("div", { class: "usage-head" },
      h("span", null, label),
      h("span", { class: "figures" }, `${write(requested)} of ${write(allocatable)}`),
      h("strong", null, allocatable ? percent(part) : "–")),
    bar(part));
}

/** @param {number} part @param {string} [name] */
export function bar(part, name) {
  return h("span", { class: `bar ${name || ""}`, "aria-hidden": "true" },
    h("span", { class: part > 1 ? "fill over" : "fill", style: { width: `${Math.min(100, Math.round(part * 100))}%` } }));
}

/**
 * @param {string} label
 * @param {Children} value
 * @param {Children} [note]
 * @param {string} [name]
 */
export function figure(label, value, note, name) {
  return h("div", { class: `figure ${name || ""}` },
    h("dt", null, label),
    h("dd", null, h("span", { class: "value" }, value), note ? h("span", { class: "note" }, note) : null));
}

/** @param {ClusterNode} node */
export function price(node) {
  return node.pricePerHour == null ? "no price" : money(node.pricePerHour);
}

/** @param {ClusterNode} node */
export function capacity(node) {
  return node.capacityType === "on-demand" ? "on demand" : node.capacityType || "";
}

/** Why an explanation is missing. @param {import("./document.js").View} view */
export function notComputed(view) {
  return view.totals.evaluatedAt && !Object.keys(view.nodePools).length ? "needs a NodePool" : "being computed";
}

/** @param {string} text */
export function empty(text) {
  return h("p", { class: "empty" }, text);
}
