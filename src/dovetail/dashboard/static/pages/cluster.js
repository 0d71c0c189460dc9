// @ts-check
/** The cluster: figures, pending pods, and nodes as cards. */

import { h } from "../vdom.js";
import { hasPrices, instant, PENDING_WORDS, share, STATE_WORDS, workloadKey } from "../document.js";
import { bar, capacity, empty, figure, nodeLink, notComputed, podLink, price, shortName, stateChip } from "../components.js";
import { cpu, duration, memory, money, number, percent, perHour, pluralize } from "../format.js";

/** @typedef {import("../document.js").ClusterNode} ClusterNode */
/** @typedef {import("../document.js").PendingPod} PendingPod */
/** @typedef {import("../document.js").View} View */
/** @typedef {import("../main.js").Page} Page */
/** @typedef {import("../store.js").Store} Store */
/** @typedef {import("../vdom.js").VNode} VNode */

const CARD_WIDTH = 236;
const CARD_HEIGHT = 152;
const GAP = 12;
const HEADER_HEIGHT = 46;
const OVERSCAN = 400;
const CELLS_HEIGHT = 34;
const MAX_PENDING = 12;
const MAX_LEGEND = 12;
const NO_POOL = "No NodePool";

const GROUPS = [
  ["pool", "NodePool"],
  ["zone", "Zone"],
  ["type", "Instance type"],
  ["state", "State"],
];
const SORTS = [
  ["name", "Name"],
  ["price", "Price"],
  ["use", "Least used"],
  ["age", "Newest"],
];
/** States in the order of a node's life. */
const LIFE = ["launching", "joining", "ready", "notReady", "disrupted", "draining", "terminating"];

/** @param {Page} page */
export function clusterPage(page) {
  const view = page.store.view;
  if (!view) return [];
  return [
    h("h1", { class: "hidden" }, "Cluster"),
    figures(view),
    pendingPods(page, view),
    nodes(page, view),
  ];
}

/** @param {View} view */
function figures(view) {
  const totals = view.totals;
  const hourly = totals.pricePerHour || 0;
  const gap = totals.gapPerHour;
  /** @type {Record<string, number>} */
  const states = {};
  for (const key in view.nodes) states[view.nodes[key].state] = (states[view.nodes[key].state] || 0) + 1;
  const moving = LIFE.filter((state) => state !== "ready" && states[state]);
  // A bound above the bill is older than the bill: explanations take longer than a document.
  const bound = (totals.lowerBoundPerHour ?? Infinity) <= hourly ? totals.lowerBoundPerHour : undefined;
  return h("dl", { class: "figures" },
    hasPrices(totals)
      ? figure("Cost per hour", money(hourly), `${money(totals.pricePerMonth || 0)} a month`, "lead")
      : figure("Cost per hour", "–", "no price is known", "lead"),
    bound == null
      ? figure("Above the lower bound", "–", notComputed(view))
      : figure("Above the lower bound", gap != null && bound > 0 ? percent(Math.max(0, gap) / bound) : "–",
        `${perHour(bound)} at best`),
    figure("Nodes", number(totals.nodes || 0),
      moving.length ? moving.map((state) => `${states[state]} ${STATE_WORDS[state].toLowerCase()}`).join(", ") : "all ready"),
    figure("Pods", number(totals.pods || 0), totals.pendingPods ? `${number(totals.pendingPods)} pending` : "none pending",
      totals.pendingPods ? "waiting" : ""),
    figure("CPU requested", percent(share(totals.cpu)),
      [bar(share(totals.cpu)), `${cpu((totals.cpu?.requested || 0) / 1000)} of ${cpu((totals.cpu?.allocatable || 0) / 1000)}`]),
    figure("Memory requested", percent(share(totals.memory)),
      [bar(share(totals.memory), "memory"), `${memory(totals.memory?.requested || 0)} of ${memory(totals.memory?.allocatable || 0)}`]));
}

/** @param {Page} page @param {View} view */
function pendingPods(page, view) {
  const pods = Object.values(view.pendingPods);
  if (!pods.length) return null;
  /** @type {Map<string, PendingPod[]>} */
  const groups = new Map();
  for (const pod of pods) {
    const owner = pod.workload ? pod.workload.name : pod.key;
    const id = [pod.namespace, owner, pod.reason, pod.nearestFit, ...(pod.messages || [])].join("\n");
    const group = groups.get(id);
    if (group) group.push(pod);
    else groups.set(id, [pod]);
  }
  const all = page.query.get("pending") === "all";
  const listed = [...groups.entries()].sort((a, b) => severity(a[1][0]) - severity(b[1][0]) || b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  const shown = all ? listed : listed.slice(0, MAX_PENDING);
  return h("section", { class: "pending", "aria-label": "Pending pods" },
    h("h2", null, "Pending pods ", h("span", { class: "count" }, number(pods.length))),
    h("ul", { class: "rows" }, shown.map(([id, group]) => pendingRow(page, id, group))),
    listed.length > shown.length
      ? h("a", { class: "more", href: page.link({ pending: "all" }) }, `Show ${pluralize(listed.length - shown.length, "more group")}`)
      : null);
}

/** @param {PendingPod} pod */
function severity(pod) {
  return pod.reason === "cannotBeScheduled" ? 0 : pod.reason === "notProvisionable" ? 1 : 2;
}

/** @param {Page} page @param {string} id @param {PendingPod[]} group */
function pendingRow(page, id, group) {
  const pod = group[0];
  const several = pod.workload && group.length > 1;
  return h("li", { key: id, class: severity(pod) < 2 ? "blocked" : "" },
    h("span", { class: "what" },
      group.length > 1 ? h("span", { class: "times" }, `${number(group.length)} × `) : null,
      h("a", { href: podLink(pod.namespace, pod.name) }, several ? workloadName(pod) : pod.key)),
    h("span", { class: "needs" }, `${cpu((pod.cpu || 0) / 1000)} CPU, ${memory(pod.memory || 0)}`),
    h("span", { class: "why" }, pendingWhy(page.store, group)));
}

/** @param {PendingPod} pod */
function workloadName(pod) {
  const name = /** @type {{name: string}} */ (pod.workload).name;
  return name.includes("/") ? name : `${pod.namespace}/${name}`;
}

/**
 * Why pods are pending, in one line.
 * @param {Store} store
 * @param {PendingPod[]} group
 */
function pendingWhy(store, group) {
  const pod = group[0];
  const places = [...new Set(group.map((each) => each.nodeClaim || each.node || "").filter(Boolean))];
  const expected = Math.max(...group.map((each) => instant(each.expectedAt) || 0));
  const wait = expected > store.now ? `, expected in ${duration((expected - store.now) / 1000)}` : "";
  const several = places.length > 1;
  const words = several && pod.reason === "nodeOnItsWay" ? "Nodes are starting" : PENDING_WORDS[pod.reason || "unknown"] || pod.reason;
  const first = (pod.messages || [])[0];
  return [
    h("strong", null, words || ""),
    places.length ? `: ${several ? pluralize(places.length, "node") : shortName(places[0])}${wait}` : null,
    first ? `: ${first}` : null,
    pod.nearestFit && pod.nearestFit !== first ? h("span", { class: "fit" }, ` ${pod.nearestFit}`) : null,
  ];
}

/** @param {Page} page @param {View} view */
function nodes(page, view) {
  const { shown, total, height } = layout(page, view);
  return h("section", { class: "nodes", "aria-label": "Nodes" },
    h("div", { class: "toolbar" },
      h("h2", null, "Nodes ", h("span", { class: "count" }, shown === total ? number(total) : `${number(shown)} of ${number(total)}`)),
      select(page, "group", "Group by", GROUPS, page.query.get("group") || "pool"),
      select(page, "sort", "Sort by", SORTS, page.query.get("sort") || "name"),
      h("label", { class: "field grow" }, h("span", null, "Filter"),
        h("input", {
          type: "search", value: page.query.get("q") || "", placeholder: "name, type, zone, reason", spellcheck: "false",
          on: { input: (/** @type {Event} */ event) => page.replace({ q: /** @type {HTMLInputElement} */ (event.target).value }) },
        }))),
    legend(page, page.query.get("workload") || ""),
    shown ? h("div", { class: "cards", id: "cards", style: { height: `${height}px` } }, visibleCards(page, view))
      : empty(total ? "No node matches the filter." : "There are no nodes yet. They appear here as soon as one is launched."));
}

/**
 * @param {Page} page
 * @param {string} name
 * @param {string} label
 * @param {string[][]} options
 * @param {string} value
 */
function select(page, name, label, options, value) {
  return h("label", { class: "field" }, h("span", null, label),
    h("select", { value, on: { change: (/** @type {Event} */ event) => page.go({ [name]: /** @type {HTMLSelectElement} */ (event.target).value }) } },
      options.map(([id, text]) => h("option", { value: id, selected: id === value }, text))));
}

/** @param {ClusterNode} node @param {string} filter @param {string} workload */
function matches(node, filter, workload) {
  if (workload && !(node.workloads || []).some((entry) => workloadKey(entry) === workload)) return false;
  if (!filter) return true;
  const text = [node.name, node.nodeClaim, node.nodePool, node.instanceType, node.zone, node.capacityType, node.state,
    STATE_WORDS[node.state], node.keep?.code, node.keep?.message].join(" ").toLowerCase();
  return filter.split(/\s+/).every((word) => text.includes(word));
}

/** @param {Page} page @param {string} workload */
function legend(page, workload) {
  const counts = [...page.store.workloads.entries()].filter(([, pods]) => pods > 0).sort((a, b) => b[1] - a[1]);
  if (!counts.length) return null;
  const listed = counts.slice(0, MAX_LEGEND);
  if (workload && !listed.some(([id]) => id === workload) && page.store.workloads.has(workload)) {
    listed.push([workload, page.store.workloads.get(workload) || 0]);
  }
  return h("ul", { class: "legend", "aria-label": "Workloads" },
    listed.map(([id, pods]) => {
      const [namespace, , name] = id.split("/");
      return h("li", { key: id },
        h("a", {
          class: workload === id ? "on" : "", href: page.link({ workload: workload === id ? "" : id }),
          "aria-current": workload === id ? "true" : null, title: `${id.split("/")[1]} ${namespace}/${name}`,
        }, h("i", { class: `swatch w${page.store.colors.get(id)}` }), name, h("span", { class: "count" }, number(pods))));
    }),
    counts.length > listed.length ? h("li", { class: "rest" }, `and ${pluralize(counts.length - listed.length, "more workload")}`) : null,
    page.store.hasDaemonSets ? h("li", { class: "rest" }, h("i", { class: "swatch wd" }), "DaemonSets") : null,
    h("li", { class: "rest" }, h("i", { class: "swatch w0 pale" }), "pale: starting or terminating"));
}

/** @param {ClusterNode} node @param {string} group */
function groupOf(node, group) {
  if (group === "zone") return node.zone || "zone not known yet";
  if (group === "type") return node.instanceType || "type not known yet";
  if (group === "state") return STATE_WORDS[node.state] || node.state;
  return node.nodePool || NO_POOL;
}

/** @param {string} sort @returns {(a: ClusterNode, b: ClusterNode) => number} */
function order(sort) {
  const byName = (/** @type {ClusterNode} */ a, /** @type {ClusterNode} */ b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  if (sort === "price") return (a, b) => (b.pricePerHour || 0) - (a.pricePerHour || 0) || byName(a, b);
  if (sort === "use") return (a, b) => share(a.cpu) + share(a.memory) - share(b.cpu) - share(b.memory) || byName(a, b);
  if (sort === "age") return (a, b) => (instant(b.createdAt) || 0) - (instant(a.createdAt) || 0) || byName(a, b);
  return (a, b) => {
    const difference = LIFE.indexOf(a.state) - LIFE.indexOf(b.state);
    // Nodes that come first, then the others by name; those that go stay where they are.
    const settled = LIFE.indexOf(a.state) > 1 && LIFE.indexOf(b.state) > 1;
    return (settled ? 0 : difference) || byName(a, b);
  };
}

/**
 * @typedef {Object} Layout
 * @property {string} id what it was computed from
 * @property {number} shown
 * @property {number} total
 * @property {number} columns
 * @property {number} width of a card
 * @property {number} height of everything
 * @property {{name: string, nodes: ClusterNode[], top: number}[]} groups
 */
/** @type {Layout} */
let cached = { id: "", shown: 0, total: 0, columns: 1, width: 0, height: 0, groups: [] };

/**
 * Groups, order and positions of all cards; computed again only if something has changed.
 * @param {Page} page
 * @param {View} view
 * @returns {Layout}
 */
function layout(page, view) {
  const [group, sort] = [page.query.get("group") || "pool", page.query.get("sort") || "name"];
  const [filter, workload] = [(page.query.get("q") || "").toLowerCase(), page.query.get("workload") || ""];
  const id = [page.store.version, page.viewport.width, group, sort, filter, workload].join("\n");
  if (cached.id === id) return cached;
  const all = Object.values(view.nodes);
  const shown = all.filter((node) => matches(node, filter, workload));
  /** @type {Map<string, ClusterNode[]>} */
  const byGroup = new Map();
  for (const node of shown) {
    const name = groupOf(node, group);
    const list = byGroup.get(name);
    if (list) list.push(node);
    else byGroup.set(name, [node]);
  }
  const names = [...byGroup.keys()].sort((a, b) => (a === NO_POOL ? 1 : b === NO_POOL ? -1 : a < b ? -1 : 1));
  const columns = Math.max(1, Math.floor((page.viewport.width + GAP) / (CARD_WIDTH + GAP)));
  const width = Math.floor((page.viewport.width - GAP * (columns - 1)) / columns);
  let height = 0;
  const groups = names.map((name) => {
    const nodes = /** @type {ClusterNode[]} */ (byGroup.get(name)).sort(order(sort));
    const placed = { name, nodes, top: height };
    height += HEADER_HEIGHT + Math.ceil(nodes.length / columns) * (CARD_HEIGHT + GAP) + 6;
    return placed;
  });
  cached = { id, shown: shown.length, total: all.length, columns, width, height, groups };
  return cached;
}

/**
 * The cards near the visible part of the page, at their positions.
 * @param {Page} page
 * @param {View} view
 */
export function visibleCards(page, view) {
  const { columns, width, groups } = layout(page, view);
  const top = page.viewport.top - OVERSCAN;
  const bottom = page.viewport.bottom + OVERSCAN;
  const pools = (page.query.get("group") || "pool") === "pool" ? view.nodePools : {};
  const workload = page.query.get("workload") || "";
  /** @type {VNode[]} */
  const visible = [];
  for (const group of groups) {
    const start = group.top + HEADER_HEIGHT;
    if (start > top && group.top < bottom) visible.push(groupHeader(group.name, group.nodes, pools[group.name], group.top));
    const rows = Math.ceil(group.nodes.length / columns);
    const from = Math.max(0, Math.floor((top - start) / (CARD_HEIGHT + GAP)));
    const to = Math.min(rows, Math.ceil((bottom - start) / (CARD_HEIGHT + GAP)));
    for (let index = from * columns; index < Math.min(to * columns, group.nodes.length); index++) {
      const x = (index % columns) * (width + GAP);
      const y = start + Math.floor(index / columns) * (CARD_HEIGHT + GAP);
      const style = { transform: `translate(${x}px, ${y}px)`, width: `${width}px` };
      const node = group.nodes[index];
      visible.push(h("div", { key: node.key, class: `card state-${node.state}`, style }, card(page.store, node, width, workload)));
    }
  }
  return visible;
}

/** @param {string} name @param {ClusterNode[]} list @param {import("../document.js").NodePool | undefined} pool @param {number} y */
function groupHeader(name, list, pool, y) {
  const cost = list.some((node) => node.pricePerHour != null) ? perHour(list.reduce((sum, node) => sum + (node.pricePerHour || 0), 0)) : "no price";
  return h("h3", { key: `group ${name}`, class: "group", style: { transform: `translateY(${y}px)` } },
    name, h("span", { class: "facts" }, `${pluralize(list.length, "node")} · ${cost}`, pool ? poolFacts(pool) : ""));
}

/** @param {import("../document.js").NodePool} pool */
function poolFacts(pool) {
  const facts = [];
  if (pool.ready === false) facts.push(`not ready: ${pool.message || "unknown reason"}`);
  if (pool.limits?.cpu != null) facts.push(`CPU limit ${cpu((pool.usage?.cpu || 0) / 1000)} of ${cpu(pool.limits.cpu / 1000)}`);
  if (pool.disrupting) facts.push(`${pool.disrupting} disrupting`);
  return facts.map((fact) => ` · ${fact}`).join("");
}

/** The last description of each node's card. @type {WeakMap<ClusterNode, {id: string, content: VNode}>} */
const drawn = new WeakMap();

/**
 * @param {Store} store
 * @param {ClusterNode} node
 * @param {number} width
 * @param {string} workload
 */
function card(store, node, width, workload) {
  const since = instant(node.stateSince);
  const line = node.keep && node.state === "ready" ? node.keep.message
    : [inFlight(node), since === null || node.state === "ready" ? "" : duration((store.now - since) / 1000)].filter(Boolean).join(", ");
  const id = `${width}\n${workload}\n${line}`;
  const before = drawn.get(node);
  if (before && before.id === id) return before.content;
  const pods = node.pods?.requested || 0;
  const label = `${node.name}, ${STATE_WORDS[node.state] || node.state}, ${node.instanceType || "type not known yet"}, ${pluralize(pods, "pod")}, ${price(node)} per hour`;
  const content = h("a", { href: nodeLink(node), "aria-label": label, "data-node": node.key },
    h("span", { class: "line" }, h("b", { class: "name" }, shortName(node.name)),
      node.state === "ready" ? null : stateChip(node.state), h("span", { class: "price" }, price(node), node.pricePerHour == null ? null : h("small", null, "/h"))),
    h("span", { class: "line second" }, [node.instanceType || "type not known yet", node.zone, capacity(node)].filter(Boolean).join(" · ")),
    cells(store, node, width - 24, workload),
    h("span", { class: "meters" },
      h("span", { class: "meter" }, "cpu", bar(share(node.cpu)), h("em", null, node.cpu?.allocatable ? percent(share(node.cpu)) : "–")),
      h("span", { class: "meter" }, "mem", bar(share(node.memory), "memory"), h("em", null, node.memory?.allocatable ? percent(share(node.memory)) : "–"))),
    h("span", { class: `keep ${node.keep?.code === "goes" ? "goes" : ""}`, title: line }, line));
  drawn.set(node, { id, content });
  return content;
}

/** @param {ClusterNode} node */
function inFlight(node) {
  if (node.state === "launching") return "EC2 is launching the instance";
  if (node.state === "joining") return "the instance boots and joins the cluster";
  if (node.state === "draining") return "its pods are being evicted";
  if (node.state === "terminating") return "the instance is being terminated";
  if (node.state === "disrupted") return "waits for its replacement";
  if (node.state === "notReady") return "its kubelet does not report that it is ready";
  return "";
}

/**
 * Pods as cells: one path per colour, so that a card stays a handful of elements.
 * @param {Store} store
 * @param {ClusterNode} node
 * @param {number} width
 * @param {string} workload
 */
function cells(store, node, width, workload) {
  const count = (node.workloads || []).reduce((sum, entry) => sum + (entry.pods || []).length, 0);
  const { size, gap, columns } = cellGrid(count, width);
  /** @type {Map<string, string>} */
  const paths = new Map();
  let index = 0;
  for (const entry of ordered(node)) {
    const id = workloadKey(entry);
    const daemon = entry.kind === "DaemonSet";
    const dim = workload && id !== workload ? " dim" : "";
    for (const pod of entry.pods || []) {
      const x = (index % columns) * (size + gap);
      const y = Math.floor(index / columns) * (size + gap);
      index++;
      if (y + size > CELLS_HEIGHT) continue;
      const variant = pod.deleting ? " deleting" : pod.ready === false || (pod.phase && pod.phase !== "Running") ? " starting" : "";
      const name = `${daemon ? "wd" : "w" + store.colors.get(id)}${variant}${dim}`;
      paths.set(name, `${paths.get(name) || ""}M${x} ${y}h${size}v${size}h${-size}z`);
    }
  }
  return h("svg", { class: "cells", width, height: CELLS_HEIGHT, viewBox: `0 0 ${width} ${CELLS_HEIGHT}`, "aria-hidden": "true" },
    [...paths.entries()].map(([name, path]) => h("path", { key: name, class: name, d: path })));
}

/** Workloads first, DaemonSets last. @param {ClusterNode} node */
function ordered(node) {
  const all = node.workloads || [];
  return [...all.filter((entry) => entry.kind !== "DaemonSet"), ...all.filter((entry) => entry.kind === "DaemonSet")];
}

/** @param {number} count @param {number} width */
function cellGrid(count, width) {
  for (const [size, gap] of [[16, 2], [10, 2], [7, 2], [5, 1], [4, 1]]) {
    const columns = Math.floor((width + gap) / (size + gap));
    const rows = Math.floor((CELLS_HEIGHT + gap) / (size + gap));
    if (columns * rows >= count) return { size, gap, columns };
  }
  return { size: 3, gap: 1, columns: Math.floor((width + 1) / 4) };
}

/**
 * The pod under a point of a card's cells.
 * @param {Store} store
 * @param {ClusterNode} node
 * @param {number} x
 * @param {number} y
 * @param {number} width
 */
export function podAt(store, node, x, y, width) {
  const pods = ordered(node).flatMap((entry) => (entry.pods || []).map((pod) => ({ entry, pod })));
  const { size, gap, columns } = cellGrid(pods.length, width);
  const column = Math.floor(x / (size + gap));
  if (column >= columns) return null;
  return pods[Math.floor(y / (size + gap)) * columns + column] || null;
}
