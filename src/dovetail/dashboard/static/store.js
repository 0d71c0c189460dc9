// @ts-check
/** The current view and history; applies changes. */

import { instant, workloadKey } from "./document.js";

/** @typedef {import("./document.js").View} View */
/** @typedef {import("./document.js").Sample} Sample */
/** @typedef {import("./document.js").ClusterNode} ClusterNode */
/** @typedef {import("./document.js").Workload} Workload */
/** @typedef {import("./document.js").Pod} Pod */

const MAX_SAMPLES = 4096;
const COLORS = 12;

/**
 * State of the server's own connection to the cluster.
 * @typedef {{stale?: boolean, reason?: string, since?: string, final?: boolean}} SourceStatus
 */
/** @typedef {{node: ClusterNode, workload: Workload, pod: Pod}} Placement */

export class Store {
  constructor() {
    /** @type {View | null} */
    this.view = null;
    /** @type {Sample[]} */
    this.history = [];
    /** @type {SourceStatus} */
    this.status = {};
    this.hasDaemonSets = false;
    /** Changes with the nodes and pods. */
    this.version = 0;
    /** Colour of each workload; kept while the page is open. @type {Map<string, number>} */
    this.colors = new Map();
    /** Pods per workload. @type {Map<string, number>} */
    this.workloads = new Map();
    /** Nodes by the name of the node and of the NodeClaim. @type {Map<string, ClusterNode>} */
    this.byName = new Map();
  }

  /** @param {{view: View, history: Sample[], status: SourceStatus}} snapshot */
  load(snapshot) {
    this.view = snapshot.view;
    this.history = snapshot.history;
    this.status = snapshot.status;
    this.index();
  }

  /** @param {{patch?: Patch, sample?: Sample, replacesLast?: boolean, status?: SourceStatus}} change */
  apply(change) {
    if (!this.view) return;
    if (change.patch) applyPatch(this.view, change.patch);
    if (change.status) this.status = change.status;
    if (change.sample) {
      if (change.replacesLast) this.history.pop();
      this.history.push(change.sample);
    }
    if (this.history.length > MAX_SAMPLES) this.history.splice(0, this.history.length - MAX_SAMPLES);
    const collections = change.patch?.collections || {};
    if (collections.nodes || collections.pendingPods) this.index();
  }

  /** The instant of the view, in milliseconds. */
  get now() {
    return (this.view && instant(this.view.at)) || Date.now();
  }

  index() {
    this.version++;
    this.hasDaemonSets = false;
    const view = /** @type {View} */ (this.view);
    this.byName.clear();
    this.workloads.clear();
    for (const key in view.nodes) {
      const node = view.nodes[key];
      this.byName.set(node.name, node);
      if (node.nodeClaim) this.byName.set(node.nodeClaim, node);
      for (const workload of node.workloads || []) {
        if (workload.kind === "DaemonSet") {
          this.hasDaemonSets = true;
          continue;
        }
        const id = workloadKey(workload);
        this.workloads.set(id, (this.workloads.get(id) || 0) + (workload.pods || []).length);
      }
    }
    for (const key in view.pendingPods) {
      const pod = view.pendingPods[key];
      if (!pod.workload) continue;
      const id = `${pod.namespace}/${pod.workload.kind}/${pod.workload.name.split("/").pop()}`;
      this.workloads.set(id, this.workloads.get(id) || 0);
    }
    this.assignColors();
  }

  /** Large workloads get the first colours, so that neighbours differ. */
  assignColors() {
    const fresh = [...this.workloads.keys()].filter((id) => !this.colors.has(id));
    fresh.sort((a, b) => (this.workloads.get(b) || 0) - (this.workloads.get(a) || 0) || (a < b ? -1 : 1));
    for (const id of fresh) this.colors.set(id, this.colors.size % COLORS);
  }

  /**
   * @param {string} namespace
   * @param {string} name
   * @returns {Placement | null}
   */
  findPod(namespace, name) {
    const view = /** @type {View} */ (this.view);
    for (const key in view.nodes) {
      for (const workload of view.nodes[key].workloads || []) {
        if (workload.namespace !== namespace) continue;
        for (const pod of workload.pods || []) {
          if (pod.name === name) return { node: view.nodes[key], workload, pod };
        }
      }
    }
    return null;
  }
}

/** @typedef {{set?: Record<string, any>, remove?: string[]}} CollectionPatch */
/** @typedef {{at: string, set?: Record<string, any>, collections?: Record<string, CollectionPatch>}} Patch */

/**
 * Apply a patch in place; a changed entry becomes a new object.
 * @param {any} view
 * @param {Patch} patch
 */
export function applyPatch(view, patch) {
  view.at = patch.at;
  for (const [part, fields] of Object.entries(patch.set || {})) view[part] = withFields(view[part], fields);
  for (const [name, changes] of Object.entries(patch.collections || {})) {
    const collection = view[name];
    for (const [key, fields] of Object.entries(changes.set || {})) {
      const before = Object.hasOwn(collection, key) ? collection[key] : undefined;
      define(collection, key, withFields(before, fields));
    }
    for (const key of changes.remove || []) delete collection[key];
  }
}

/**
 * Null is the default of a field, which documents leave out.
 * @param {any} before
 * @param {any} fields
 */
function withFields(before, fields) {
  const after = { ...before, ...fields };
  for (const name of Object.keys(fields)) if (fields[name] === null) delete after[name];
  return after;
}

/**
 * Set an own property, also one with the name `__proto__`.
 * @param {any} target
 * @param {string} key
 * @param {any} value
 */
function define(target, key, value) {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}
