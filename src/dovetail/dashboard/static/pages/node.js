// @ts-check
/** One node: why it is kept, what would change that, and its pods. */

import { h } from "../vdom.js";
import { instant, KEEP_REMEDIES, STATE_WORDS, workloadKey } from "../document.js";
import { age, capacity, empty, link, objectName, podLink, price, stateChip, usageBar } from "../components.js";
import { cpu, dateAndTime, duration, memory, money, number, perHour, pluralize } from "../format.js";
import { describe } from "./timeline.js";

/** @typedef {import("../document.js").ClusterNode} ClusterNode */
/** @typedef {import("../document.js").Claim} Claim */
/** @typedef {import("../document.js").View} View */
/** @typedef {import("../main.js").Page} Page */

const MAX_PODS = 300;
/** @type {Record<string, string>} */
const PHASE_WORDS = {
  launch: "Launch", registration: "Registration", initialization: "Initialization",
  drain: "Drain", volumeDetachment: "Volume detachment", termination: "Termination",
};

/** @param {Page} page @param {string} key */
export function nodePage(page, key) {
  const view = page.store.view;
  if (!view) return [];
  const node = view.nodes[key] || page.store.byName.get(key);
  if (!node) {
    const last = decisionsOf(view, [key]);
    return [h("h1", null, key), empty("This node is not in the cluster (any more)."), decisionList(last)];
  }
  const claim = node.nodeClaim ? view.nodeClaims[node.nodeClaim] : undefined;
  return [
    h("p", { class: "crumbs" }, h("a", { href: link("cluster") }, "Cluster"), " / ", node.nodePool ? `NodePool ${node.nodePool}` : "no NodePool"),
    h("div", { class: "title" }, h("h1", null, node.name), stateChip(node.state)),
    h("p", { class: "subtitle" }, [
      node.instanceType, node.zone, capacity(node), node.arch,
      node.pricePerHour == null ? "price unknown" : `${price(node)} per hour (${money(node.pricePerHour * 730)} a month)`,
      `age ${age(node, page.store.now)}`].filter(Boolean).join(" · ")),
    why(page, node),
    claim ? phases(page, claim) : null,
    h("div", { class: "usages" }, usageBar("CPU requested", node.cpu, "cpu"), usageBar("Memory requested", node.memory, "memory"), usageBar("Pods", node.pods, "pods")),
    conditions(node),
    pods(page, node),
    facts(node),
    decisionList(decisionsOf(view, [node.name, node.nodeClaim || ""])),
  ];
}

/** @param {Page} page @param {ClusterNode} node */
function why(page, node) {
  const keep = node.keep;
  if (node.state === "launching" || node.state === "joining") {
    return h("section", { class: "answer" }, h("h2", null, "Why it is not ready yet"),
      h("p", { class: "reason" }, node.state === "launching" ? "EC2 is launching its instance." : "Its instance runs and is joining the cluster."));
  }
  if (!keep) {
    return h("section", { class: "answer" }, h("h2", null, "Why it stays"), h("p", { class: "reason" }, "Not evaluated yet."));
  }
  const goes = keep.code === "goes" || keep.code === "leaving";
  return h("section", { class: `answer ${goes ? "goes" : ""}` },
    h("h2", null, goes ? "Why it goes" : "Why it stays"),
    h("p", { class: "reason" }, keep.message || STATE_WORDS[node.state], " ", h("code", null, keep.code)),
    keep.blocker ? h("p", null, "Blocked by ", h("strong", null, objectName(page.store, keep.blocker)), ".") : null,
    keep.savingPerHour ? h("p", null, "Its removal saves ", h("strong", null, perHour(keep.savingPerHour)), ` (${money(keep.savingPerHour * 730)} a month).`) : null,
    KEEP_REMEDIES[keep.code] ? h("div", { class: "remedy" }, h("h3", null, "What would change that"), h("p", null, KEEP_REMEDIES[keep.code])) : null);
}

/** @param {Page} page @param {Claim} claim */
function phases(page, claim) {
  const expected = instant(claim.expectedAt);
  return h("section", null, h("h2", null, "Progress"),
    h("ol", { class: "phases" }, (claim.phases || []).map((phase) => {
      const start = instant(phase.startedAt) || 0;
      const end = instant(phase.endedAt);
      return h("li", { key: phase.phase, class: end === null ? "current" : "done" },
        h("strong", null, PHASE_WORDS[phase.phase] || phase.phase),
        h("span", null, end === null ? `${duration((page.store.now - start) / 1000)} so far` : duration((end - start) / 1000)));
    })),
    claim.message ? h("p", null, claim.message) : null,
    expected !== null && expected > page.store.now ? h("p", null, `Expected to be ready in ${duration((expected - page.store.now) / 1000)}.`) : null,
    claim.pods ? h("p", null, `Launched for ${pluralize(claim.pods, "pod")}.`) : null,
    (claim.replaces || []).length ? h("p", null, `Replaces ${(claim.replaces || []).join(", ")}.`) : null);
}

/** @param {ClusterNode} node */
function conditions(node) {
  const list = node.conditions || [];
  if (!list.length) return null;
  return h("section", null, h("h2", null, "Conditions"),
    h("ul", { class: "rows" }, list.map((condition) => h("li", { key: condition.type },
      h("span", { class: "what" }, `${condition.type} = ${condition.status}`),
      h("span", { class: "needs" }, condition.since ? dateAndTime(instant(condition.since) || 0) : ""),
      h("span", { class: "why" }, [condition.reason, condition.message].filter(Boolean).join(": "))))));
}

/** @param {Page} page @param {ClusterNode} node */
function pods(page, node) {
  const workloads = node.workloads || [];
  const total = workloads.reduce((sum, workload) => sum + (workload.pods || []).length, 0);
  let left = MAX_PODS;
  return h("section", null, h("h2", null, "Pods ", h("span", { class: "count" }, number(total))),
    total ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Pods" }, h("table", { class: "pods" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Pod"), h("th", { scope: "col" }, "Workload"),
        h("th", { scope: "col", class: "number" }, "CPU"), h("th", { scope: "col", class: "number" }, "Memory"), h("th", { scope: "col" }, "State"))),
      h("tbody", null, workloads.flatMap((workload) => (workload.pods || []).map((pod) => {
        if (left-- <= 0) return null;
        const color = workload.kind === "DaemonSet" ? "wd" : `w${page.store.colors.get(workloadKey(workload))}`;
        return h("tr", { key: `${workload.namespace}/${pod.name}` },
          h("td", null, h("a", { href: podLink(workload.namespace, pod.name) }, pod.name)),
          h("td", null, h("i", { class: `swatch ${color}` }), `${workload.namespace}/${workload.name}`, h("span", { class: "soft" }, ` ${workload.kind}`)),
          h("td", { class: "number" }, cpu((pod.cpu || 0) / 1000)),
          h("td", { class: "number" }, memory(pod.memory || 0)),
          h("td", null, podState(pod)));
      })))))
      : empty("No pods yet."),
    total > MAX_PODS ? h("p", { class: "fine" }, `${number(total - MAX_PODS)} more pods are not listed.`) : null);
}

/** @param {import("../document.js").Pod} pod */
export function podState(pod) {
  const words = pod.deleting ? "terminating" : pod.phase && pod.phase !== "Running" ? pod.phase.toLowerCase() : pod.ready === false ? "not ready" : "running";
  return [words, pod.doNotDisrupt ? h("span", { class: "chip" }, "do-not-disrupt") : null];
}

/** @param {ClusterNode} node */
function facts(node) {
  const rows = [
    ["NodeClaim", node.nodeClaim], ["NodePool", node.nodePool], ["Instance", node.instanceId],
    ["Price from", node.priceBasis === "priceBook" ? "price book" : node.priceBasis],
    ["Beyond the instance", node.nodeCostPerHour ? `${perHour(node.nodeCostPerHour)} (volumes, public address)` : ""],
    ["Cordoned", node.cordoned ? "yes" : ""],
    ...Object.entries(node.annotations || {}),
  ].filter(([, value]) => value);
  return h("section", null, h("h2", null, "Facts"), h("dl", { class: "facts" }, rows.map(([label, value]) => [h("dt", null, label), h("dd", null, value)])));
}

/** @param {View} view @param {string[]} names */
function decisionsOf(view, names) {
  const wanted = new Set(names.filter(Boolean));
  return Object.values(view.decisions).filter((decision) =>
    [...(decision.nodes || []), ...(decision.nodeClaims || []), ...(decision.replacements || [])].some((name) => wanted.has(name)))
    .sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** @param {import("../document.js").Decision[]} list */
function decisionList(list) {
  if (!list.length) return null;
  return h("section", null, h("h2", null, "Decisions"),
    h("ul", { class: "rows" }, list.slice(0, 20).map((decision) => h("li", { key: decision.key },
      h("span", { class: "what" }, h("i", { class: `dot kind-${decision.kind}` }), dateAndTime(instant(decision.at) || 0)),
      h("span", { class: "needs" }, h("a", { href: link("decisions", { open: decision.key }) }, "Details")),
      h("span", { class: "why" }, describe(decision))))));
}
