// @ts-check
/** One pod: where it runs or why it waits, and what would change that. */

import { h } from "../vdom.js";
import { instant, PENDING_WORDS } from "../document.js";
import { empty, link, nodeLink, nodeName, stateChip } from "../components.js";
import { cpu, duration, memory } from "../format.js";
import { podState } from "./node.js";

/** @typedef {import("../document.js").PendingPod} PendingPod */
/** @typedef {import("../main.js").Page} Page */

/** @type {Record<string, string>} */
const REMEDIES = {
  nodeOnItsWay: "Nothing to do: kube-scheduler binds the pod as soon as the node is ready.",
  fitsExistingNode: "Nothing to do: kube-scheduler is expected to bind it. If it does not, compare the pod's Events.",
  nodeWillBeLaunched: "Nothing to do: the autoscaler collects pending pods for a few seconds, then launches nodes for all of them.",
  cannotBeScheduled: "Change one of the rules above: the pod's constraints, the NodePool's requirements, taints or limits.",
  notProvisionable: "kube-scheduler has not marked it unschedulable, or a scheduling gate holds it.",
};

/** @param {Page} page @param {string} namespace @param {string} name */
export function podPage(page, namespace, name) {
  const view = page.store.view;
  if (!view) return [];
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: link("cluster") }, "Cluster"), ` / ${namespace}`);
  const pending = view.pendingPods[`${namespace}/${name}`];
  if (pending) {
    return [crumbs, h("div", { class: "title" }, h("h1", null, name), h("span", { class: "chip state-launching" }, "Pending")),
      subtitle(page, pending.cpu, pending.memory, pending.createdAt), waiting(page, pending)];
  }
  const placement = page.store.findPod(namespace, name);
  if (!placement) return [crumbs, h("h1", null, name), empty("This pod is not in the cluster (any more).")];
  const { node, workload, pod } = placement;
  return [crumbs, h("div", { class: "title" }, h("h1", null, name), h("span", { class: "chip" }, podState(pod))),
    subtitle(page, pod.cpu, pod.memory, pod.createdAt),
    h("section", { class: "answer" }, h("h2", null, "Where it runs"),
      h("p", { class: "reason" }, "On ", h("a", { href: nodeLink(node) }, node.name), " ", stateChip(node.state)),
      pod.doNotDisrupt ? h("p", null, "Its annotation karpenter.sh/do-not-disrupt keeps the node from being disrupted.") : null,
      node.keep ? h("p", null, "The node: ", node.keep.message, " ", h("code", null, node.keep.code)) : null,
      h("div", { class: "remedy" }, h("h3", null, "What would change that"), h("p", null, moves(node, pod)))),
    h("section", null, h("h2", null, "Facts"), h("dl", { class: "facts" },
      h("dt", null, "Workload"), h("dd", null, `${workload.kind} ${workload.namespace}/${workload.name}`),
      h("dt", null, "CPU requested"), h("dd", null, cpu((pod.cpu || 0) / 1000)),
      h("dt", null, "Memory requested"), h("dd", null, memory(pod.memory || 0)),
      h("dt", null, "NodePool"), h("dd", null, node.nodePool || "none"))),
  ];
}

/**
 * @param {import("../document.js").ClusterNode} node
 * @param {import("../document.js").Pod} pod
 */
function moves(node, pod) {
  if (node.state === "draining" || node.state === "disrupted") return "Its node is being removed: the pod is evicted, and its workload creates another one.";
  if (pod.doNotDisrupt) return "Remove the annotation to let consolidation and drift move it.";
  if (node.keep?.code === "goes") return "Its node is removed next; the pod moves with it.";
  return "It stays while its node stays.";
}

/** @param {Page} page @param {number | undefined} cores @param {number | undefined} bytes @param {string | undefined} created */
function subtitle(page, cores, bytes, created) {
  const since = instant(created);
  return h("p", { class: "subtitle" }, `requests ${cpu((cores || 0) / 1000)} CPU and ${memory(bytes || 0)}`,
    since === null ? "" : ` · age ${duration((page.store.now - since) / 1000)}`);
}

/** @param {Page} page @param {PendingPod} pod */
function waiting(page, pod) {
  const reason = pod.reason || "unknown";
  const expected = instant(pod.expectedAt);
  return h("section", { class: `answer ${reason === "cannotBeScheduled" ? "blocked" : ""}` }, h("h2", null, "Why it waits"),
    h("p", { class: "reason" }, PENDING_WORDS[reason] || reason),
    (pod.messages || []).length ? h("ul", { class: "messages" }, (pod.messages || []).map((message) => h("li", { key: message }, message))) : null,
    pod.nodeClaim ? h("p", null, "NodeClaim ", nodeName(page.store, pod.nodeClaim),
      expected !== null && expected > page.store.now ? `, expected to be ready in ${duration((expected - page.store.now) / 1000)}` : "") : null,
    pod.node ? h("p", null, "Node ", nodeName(page.store, pod.node)) : null,
    h("div", { class: "remedy" }, h("h3", null, "What would change that"),
      pod.nearestFit && !(pod.messages || []).includes(pod.nearestFit) ? h("p", null, pod.nearestFit) : null,
      REMEDIES[reason] ? h("p", null, REMEDIES[reason]) : null),
    pod.workload ? h("p", { class: "fine" }, `Workload: ${pod.workload.kind} ${pod.workload.name}`) : null);
}
