// @ts-check
/**
 * Types of the view document (docs/reference/view.md). Fields with their default
 * value are absent from the JSON.
 */

/** @typedef {{requested?: number, allocatable?: number}} Usage */
/** @typedef {{kind: string, name: string}} ObjectRef */
/** @typedef {{type: string, status: string, reason?: string, message?: string, since?: string}} Condition */
/**
 * @typedef {Object} Pod
 * @property {string} name
 * @property {number} [cpu] millicores
 * @property {number} [memory] bytes
 * @property {string} [phase] absent: Running
 * @property {boolean} [ready] absent: true
 * @property {boolean} [deleting]
 * @property {boolean} [doNotDisrupt]
 * @property {string} [createdAt]
 */
/** @typedef {{namespace: string, kind: string, name: string, cpu?: number, memory?: number, pods?: Pod[]}} Workload */
/** @typedef {{code: string, message: string, blocker?: ObjectRef, savingPerHour?: number}} Keep */
/**
 * @typedef {Object} ClusterNode
 * @property {string} key
 * @property {string} name
 * @property {string} [nodeClaim]
 * @property {string} [nodePool]
 * @property {string} state
 * @property {string} [stateSince]
 * @property {string} [instanceType]
 * @property {string} [zone]
 * @property {string} [capacityType]
 * @property {string} [arch]
 * @property {string} [instanceId]
 * @property {number} [pricePerHour]
 * @property {string} [priceBasis]
 * @property {number} [nodeCostPerHour]
 * @property {string} [createdAt]
 * @property {Condition[]} [conditions]
 * @property {Record<string, string>} [annotations]
 * @property {boolean} [cordoned]
 * @property {Usage} [cpu]
 * @property {Usage} [memory]
 * @property {Usage} [pods]
 * @property {Workload[]} [workloads]
 * @property {Keep} [keep]
 */
/**
 * @typedef {Object} NodePool
 * @property {string} name
 * @property {boolean} [ready]
 * @property {string} [message]
 * @property {string} [nodeClass]
 * @property {number} [weight]
 * @property {number} [replicas]
 * @property {number} [nodes]
 * @property {Record<string, number>} [limits]
 * @property {Record<string, number>} [usage]
 * @property {number} [pricePerHour]
 * @property {string} [consolidationPolicy]
 * @property {number} [consolidateAfterSeconds]
 * @property {{nodes: string, reasons?: string[], schedule?: string, active?: boolean}[]} [budgets]
 * @property {Record<string, number>} [allowedDisruptions]
 * @property {number} [disrupting]
 */
/**
 * @typedef {Object} PendingPod
 * @property {string} key
 * @property {string} namespace
 * @property {string} name
 * @property {ObjectRef} [workload]
 * @property {number} [cpu]
 * @property {number} [memory]
 * @property {string} [createdAt]
 * @property {string} [reason]
 * @property {string[]} [messages]
 * @property {string} [nearestFit]
 * @property {string} [node]
 * @property {string} [nodeClaim]
 * @property {string} [expectedAt]
 */
/**
 * @typedef {Object} Claim
 * @property {string} name
 * @property {string} [nodePool]
 * @property {string} [node]
 * @property {string} [instanceType]
 * @property {string} [zone]
 * @property {string} [capacityType]
 * @property {string} phase
 * @property {{phase: string, startedAt: string, endedAt?: string}[]} [phases]
 * @property {string} [message]
 * @property {number} [pods]
 * @property {string[]} [replaces]
 * @property {string} [createdAt]
 * @property {string} [expectedAt]
 */
/**
 * @typedef {Object} Decision
 * @property {string} key
 * @property {string} kind
 * @property {string} at
 * @property {string} [state] absent: done
 * @property {string} [reason]
 * @property {string} [message]
 * @property {string[]} [nodePools]
 * @property {string[]} [nodes]
 * @property {string[]} [nodeClaims]
 * @property {string[]} [replacements]
 * @property {number} [pods]
 * @property {number} [expectedPerHour]
 * @property {number} [realizedPerHour]
 * @property {number} [realized]
 * @property {string} [until]
 */
/**
 * @typedef {Object} Blocker
 * @property {string} key
 * @property {string} kind
 * @property {string} name
 * @property {string} [message]
 * @property {string[]} [nodes]
 * @property {number} [pricePerHour]
 * @property {number} [savingPerHour]
 */
/** @typedef {{decisions?: number, nodes?: number, expected?: number, realized?: number}} ReasonSavings */
/**
 * @typedef {Object} Savings
 * @property {string} [since]
 * @property {number} [expected]
 * @property {number} [realized]
 * @property {number} [expectedPerHour]
 * @property {number} [realizedPerHour]
 * @property {Record<string, ReasonSavings>} [byReason]
 */
/**
 * @typedef {Object} Totals
 * @property {number} [nodes]
 * @property {number} [readyNodes]
 * @property {number} [pods]
 * @property {number} [pendingPods]
 * @property {number} [evictions] since the source began to watch
 * @property {string} [evaluatedAt] when keep reasons, blockers and the lower bound were computed
 * @property {number} [nodeClaims]
 * @property {number} [pricePerHour]
 * @property {number} [pricePerMonth]
 * @property {number} [unpricedNodes]
 * @property {number} [nodeCostPerHour]
 * @property {Usage} [cpu]
 * @property {Usage} [memory]
 * @property {number} [targetPerHour]
 * @property {number} [lowerBoundPerHour]
 * @property {number} [gapPerHour]
 * @property {number} [availableSavingPerHour]
 * @property {number} [blockedSavingPerHour]
 * @property {number} [blockedPricePerHour]
 */
/**
 * @typedef {Object} View
 * @property {number} version
 * @property {string} at
 * @property {{name?: string, source?: string, autoscaler?: string, region?: string, prices?: string, currency?: string}} cluster
 * @property {Totals} totals
 * @property {Savings} savings
 * @property {Record<string, NodePool>} nodePools
 * @property {Record<string, ClusterNode>} nodes
 * @property {Record<string, PendingPod>} pendingPods
 * @property {Record<string, Claim>} nodeClaims
 * @property {Record<string, Decision>} decisions
 * @property {Record<string, Blocker>} blockers
 * @property {Record<string, {code: string, message: string, remedy?: string}>} notices
 */
/**
 * A point of the history: the cluster at one instant.
 * @typedef {Object} Sample
 * @property {number} at milliseconds since 1970
 * @property {number} price per hour
 * @property {number} nodes
 * @property {number} pending
 * @property {number} evictions since the sample before
 */

/** The major version of the document that this page can show. */
export const VERSION = 2;

/** False if there are nodes and the price of none is known. @param {Totals} totals */
export function hasPrices(totals) {
  return !totals.nodes || (totals.unpricedNodes || 0) < totals.nodes;
}

/** @param {string | undefined} time @returns {number | null} milliseconds */
export function instant(time) {
  return time ? Date.parse(time) : null;
}

/** @param {Usage | undefined} usage */
export function share(usage) {
  return usage && usage.allocatable ? (usage.requested || 0) / usage.allocatable : 0;
}

/** @param {Workload} workload */
export function workloadKey(workload) {
  return `${workload.namespace}/${workload.kind}/${workload.name}`;
}

/** Words for the states of a node. @type {Record<string, string>} */
export const STATE_WORDS = {
  launching: "Launching",
  joining: "Joining",
  ready: "Ready",
  notReady: "Not ready",
  disrupted: "Replacing",
  draining: "Draining",
  terminating: "Terminating",
};

/** Words for why a pod is pending. @type {Record<string, string>} */
export const PENDING_WORDS = {
  nodeOnItsWay: "A node is starting",
  fitsExistingNode: "Fits an existing node",
  nodeWillBeLaunched: "A node will be launched",
  cannotBeScheduled: "Cannot be scheduled",
  notProvisionable: "Not for the autoscaler",
  unknown: "Not evaluated yet",
};

/** Words for decisions. @type {Record<string, string>} */
export const DECISION_WORDS = {
  launched: "Launched",
  consolidated: "Consolidated",
  drifted: "Drifted",
  expired: "Expired",
  interrupted: "Interrupted",
  repaired: "Repaired",
  deleted: "Deleted",
  refused: "Refused",
};

/** What would change the reason why a node is kept. @type {Record<string, string>} */
export const KEEP_REMEDIES = {
  goes: "Nothing to do: it is terminated or replaced next.",
  leaving: "Nothing to do: it is being deleted or replaced.",
  unmanaged: "It belongs to no NodePool, so the autoscaler never disrupts it.",
  spared: "Change the object that blocks the disruption: relax the PodDisruptionBudget, or remove the annotation karpenter.sh/do-not-disrupt.",
  setting: "Change consolidationPolicy or consolidateAfter of its NodePool.",
  budget: "Raise the NodePool's disruption budget, or wait until other disruptions are done.",
  young: "Wait until consolidateAfter has passed without pods being added or removed, or shorten it.",
  unfit: "Its instance type, zone or price is unknown; check the NodePool's requirements.",
  "no-place": "Relax the constraint of the pod that fits nowhere else, or let a NodePool launch a type that it fits.",
  "not-ready": "Wait until the node that would take its pods is ready.",
  "not-cheaper": "Nothing cheaper exists for its pods. More instance types, zones or spot in the NodePool may change that.",
  "more-nodes": "The saving is too small for so many more nodes; see --fewer-nodes-tolerance.",
  "spot-to-spot": "Allow more instance types in the NodePool, or enable spot-to-spot consolidation.",
  "min-values": "Lower minValues in the NodePool, or allow more values.",
  "below-threshold": "The saving is too small for the pods that would be evicted; see --consolidation-min-saving.",
  balanced: "The saving is too small for the pods that would be evicted; see --balanced-threshold.",
  receives: "Nothing to do: it receives the pods of a node that is removed.",
  later: "Nothing to do: replacing other nodes first saves more.",
  "no-price": "Its price is unknown; add it to the price book.",
};
