// @ts-check
/** Entry point: connects, routes by the URL's fragment, and renders at most once per frame. */

import { h, render } from "./vdom.js";
import { link } from "./components.js";
import { VERSION } from "./document.js";
import { clock, cpu, memory, pluralize, sentence } from "./format.js";
import { findToken, keepToken, Stream } from "./session.js";
import { Store } from "./store.js";
import { clusterPage, podAt, visibleCards } from "./pages/cluster.js";
import { decisionsPage } from "./pages/decisions.js";
import { nodePage } from "./pages/node.js";
import { podPage } from "./pages/pod.js";
import { savingsPage } from "./pages/savings.js";
import { timelinePage } from "./pages/timeline.js";

/** @typedef {Record<string, string | number>} Query */
/**
 * @typedef {Object} Page
 * @property {Store} store
 * @property {URLSearchParams} query
 * @property {(changes: Query) => string} link this page with another query
 * @property {(changes: Query) => void} go follow that link
 * @property {(changes: Query) => void} replace the same, without an entry in the history
 * @property {() => void} update render again
 * @property {{width: number, top: number, bottom: number}} viewport visible part, relative to the cards
 */

const TABS = [
  ["cluster", "Cluster"],
  ["timeline", "Timeline"],
  ["decisions", "Decisions"],
  ["savings", "Savings"],
];
const MAX_NOTICES = 2;
const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "dovetail-theme";

const store = new Store();
/** @type {import("./session.js").Status} */
let status = { state: "connecting", message: "" };
let lostAt = 0;
let scheduled = false;
let cardsScheduled = false;
let routed = "";

const header = element("header");
const banner = element("banner");
const main = element("main");
const tooltip = element("tooltip");

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").map(decode), path: path || "cluster", query: new URLSearchParams(query || "") };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @returns {Page} */
function page() {
  const { path, query } = route();
  const address = (/** @type {Query} */ changes, base = query) => {
    /** @type {Record<string, string>} */
    const merged = { ...Object.fromEntries(base) };
    for (const name in changes) merged[name] = String(changes[name]);
    return link(path, merged);
  };
  // Since this page was drawn, less than a frame ago, a link may have changed the URL.
  const latest = () => {
    const now = route();
    return now.path === path ? now.query : query;
  };
  const cards = document.getElementById("cards");
  const top = cards ? -cards.getBoundingClientRect().top : 0;
  const style = getComputedStyle(main);
  return {
    store,
    query,
    link: (changes) => address(changes),
    go: (changes) => {
      location.hash = address(changes, latest());
    },
    replace: (changes) => {
      history.replaceState(null, "", address(changes, latest()));
      update();
    },
    update,
    viewport: {
      width: main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight),
      top,
      bottom: top + innerHeight,
    },
  };
}

/** Render in the next frame. */
function update() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

/** Render only the cards, as the page scrolls. */
function scheduleCards() {
  const cards = document.getElementById("cards");
  if (scheduled || cardsScheduled || !cards || !store.view) return;
  const view = store.view;
  cardsScheduled = true;
  requestAnimationFrame(() => {
    cardsScheduled = false;
    if (cards.isConnected) render(cards, visibleCards(page(), view));
  });
}

function draw() {
  drawHeader();
  drawBanner();
  if (!store.view || status.state === "refused") return;
  const { parts, path } = route();
  const current = page();
  main.className = `page-${parts[0] || "cluster"}`;
  render(main, content(current, parts));
  if (path !== routed) {
    // A new page begins at its top, and screen readers at its heading.
    if (routed) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    routed = path;
    document.title = `${title(parts)} – Dovetail`;
    update();
  }
  performance.mark("dovetail-drawn");
}

/** @param {Page} current @param {string[]} parts */
function content(current, parts) {
  switch (parts[0]) {
    case "":
    case "cluster":
      return clusterPage(current);
    case "timeline":
      return timelinePage(current);
    case "decisions":
      return decisionsPage(current);
    case "savings":
      return savingsPage(current);
    case "node":
      return nodePage(current, parts[1] || "");
    case "pod":
      return podPage(current, parts[1] || "", parts[2] || "");
    default:
      return [h("h1", null, "Not found"), h("p", { class: "empty" }, "There is no such view. ", h("a", { href: link("cluster") }, "Go to the cluster."))];
  }
}

/** @param {string[]} parts */
function title(parts) {
  if (parts[0] === "node") return parts[1] || "Node";
  if (parts[0] === "pod") return parts[2] || "Pod";
  return (TABS.find(([id]) => id === parts[0]) || TABS[0])[1];
}

function drawHeader() {
  const { parts } = route();
  const active = parts[0] === "node" || parts[0] === "pod" || !parts[0] ? "cluster" : parts[0];
  const cluster = store.view?.cluster || {};
  const words = { live: "Live", connecting: "Connecting", lost: "Disconnected", refused: "No access" }[status.state];
  const fixed = status.state === "live" && store.status.final;
  const state = fixed ? "fixed" : status.state === "live" && store.status.stale ? "lost" : status.state;
  const theme = localStorage.getItem(THEME_KEY) || "auto";
  render(header,
    h("a", { class: "brand", href: link("cluster") }, h("i", { class: "logo", "aria-hidden": "true" }), "Dovetail",
      h("span", { class: "cluster-name" }, [cluster.name, cluster.region].filter(Boolean).join(" · "))),
    h("nav", { "aria-label": "Views" }, TABS.map(([id, label]) => h("a", { key: id, href: link(id), class: active === id ? "on" : "", "aria-current": active === id ? "page" : null }, label))),
    h("span", { class: "status" },
      h("span", { class: `connection ${state}` }, h("i", { "aria-hidden": "true" }), fixed ? (cluster.source === "dump" ? "Dump" : "Ended") : state === "lost" ? "Stale" : words),
      store.view ? h("time", { class: "clock", datetime: store.view.at }, clock(store.now)) : null,
      h("button", { type: "button", class: "theme", "aria-label": `Theme: ${theme}. Change it`, title: `Theme: ${theme}`, on: { click: nextTheme } }, h("i", { class: theme, "aria-hidden": "true" }))));
}

function nextTheme() {
  const theme = localStorage.getItem(THEME_KEY) || "auto";
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem(THEME_KEY, next);
  applyTheme();
  update();
}

function applyTheme() {
  const theme = localStorage.getItem(THEME_KEY) || "auto";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function drawBanner() {
  /** @type {import("./vdom.js").Children} */
  const lines = [];
  if (status.state === "lost" && store.view) {
    lines.push(h("p", { key: "lost", class: "stale" }, h("strong", null, "Stale: "),
      `no connection to the server since ${clock(lostAt)}; this is the cluster at ${clock(store.now)}. Reconnecting …`));
  } else if (status.state === "lost") {
    lines.push(h("p", { key: "lost", class: "stale" }, "The server cannot be reached. Trying again …"));
  } else if (store.status.stale) {
    lines.push(h("p", { key: "stale", class: "stale" }, h("strong", null, "Stale: "), `the server has no connection to the cluster${store.status.reason ? `: ${store.status.reason}` : ""}. This is the cluster at ${clock(store.now)}.`));
  }
  const notices = Object.values(store.view?.notices || {}).map((notice) => h("p", { key: notice.code, class: "notice" },
    sentence(notice.message), notice.remedy ? h("span", { class: "remedy" }, notice.remedy) : null));
  lines.push(...notices.slice(0, MAX_NOTICES));
  if (notices.length > MAX_NOTICES) {
    lines.push(h("details", { key: "more" }, h("summary", null, pluralize(notices.length - MAX_NOTICES, "more notice")), notices.slice(MAX_NOTICES)));
  }
  render(banner, lines);
}

/** @param {string} message */
function askForToken(message) {
  status = { state: "refused", message };
  drawHeader();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (document.getElementById("token"));
    keepToken(input.value.trim());
    location.reload();
  };
  main.className = "page-token";
  render(main, h("section", { class: "token" }, h("h1", null, "Token needed"),
    h("p", null, message || "Open the link that the command printed, or paste its token."),
    h("form", { on: { submit } },
      h("label", { class: "field" }, h("span", null, "Token"), h("input", { id: "token", type: "password", autocomplete: "off" })),
      h("button", { type: "submit" }, "Open"))));
}

/** Show the pod under the pointer. @param {PointerEvent} event */
function showTooltip(event) {
  const target = /** @type {Element} */ (event.target);
  const cells = target.closest?.(".cells");
  const card = target.closest?.("[data-node]");
  const node = card && store.view ? store.view.nodes[card.getAttribute("data-node") || ""] : null;
  const box = cells?.getBoundingClientRect();
  const found = node && box ? podAt(store, node, event.clientX - box.left, event.clientY - box.top, box.width) : null;
  tooltip.hidden = !found;
  if (!found) return;
  const { entry, pod } = found;
  render(tooltip, h("strong", null, pod.name), h("span", null, `${entry.kind} ${entry.namespace}/${entry.name}`),
    h("span", null, `${cpu((pod.cpu || 0) / 1000)} CPU, ${memory(pod.memory || 0)}${pod.deleting ? ", terminating" : pod.ready === false ? ", not ready" : ""}`));
  const left = Math.min(event.clientX + 14, innerWidth - tooltip.offsetWidth - 8);
  tooltip.style.setProperty("transform", `translate(${Math.max(4, left)}px, ${Math.min(event.clientY + 16, innerHeight - tooltip.offsetHeight - 8)}px)`);
}

async function start() {
  applyTheme();
  drawHeader();
  element("skip").addEventListener("click", () => main.focus());
  addEventListener("hashchange", update);
  addEventListener("resize", update);
  addEventListener("scroll", scheduleCards, { passive: true });
  main.addEventListener("pointermove", showTooltip, { passive: true });
  main.addEventListener("pointerleave", () => {
    tooltip.hidden = true;
  });
  const token = await findToken();
  if (!token) return askForToken("");
  const stream = new Stream(token, {
    snapshot: (snapshot) => {
      if (snapshot.view.version !== VERSION) throw new Error("the server has another version; reload the page");
      store.load(snapshot);
      update();
    },
    change: (change) => {
      store.apply(change);
      update();
    },
    status: (next) => {
      if (next.state === "refused") return askForToken("The server does not accept the token. It changes with every start of the command.");
      if (next.state === "lost" && status.state !== "lost") lostAt = Date.now();
      status = next;
      update();
    },
  });
  await stream.run();
}

await start();
