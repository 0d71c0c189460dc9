// @ts-check
/**
 * Access to the server: the token, and the stream of changes.
 *
 * The token is sent as a header. A cookie would go to every other server on this
 * host's loopback address, whatever its port.
 */

const STORAGE_KEY = "dovetail-token";
const CHANNEL = "dovetail-token";
const FIRST_DELAY = 500;
const MAX_DELAY = 10_000;
/** Milliseconds without a byte after which the stream counts as broken; heartbeats come every 5 s. */
const SILENCE = 12_000;

/** Raised when the server does not accept the token. */
export class Unauthorized extends Error {}

/**
 * Return the token of the URL's fragment, of this tab, or of another open tab.
 *
 * It leaves the address bar at once, so that a copied link or a screenshot does
 * not contain it.
 * @returns {Promise<string>}
 */
export async function findToken() {
  const parameters = new URLSearchParams(location.hash.replace(/^#\/?\??/, ""));
  const given = parameters.get("token");
  if (given) {
    sessionStorage.setItem(STORAGE_KEY, given);
    history.replaceState(null, "", "#/cluster");
  }
  const token = given || sessionStorage.getItem(STORAGE_KEY) || (await askOtherTabs());
  if (token) keepToken(token);
  return token;
}

/** @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(STORAGE_KEY, token);
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = (event) => {
    if (event.data === "ask") channel.postMessage({ token: sessionStorage.getItem(STORAGE_KEY) });
  };
}

/** @returns {Promise<string>} */
function askOtherTabs() {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(CHANNEL);
    const finish = (/** @type {string} */ token) => {
      channel.close();
      resolve(token);
    };
    channel.onmessage = (event) => {
      if (event.data && typeof event.data.token === "string") finish(event.data.token);
    };
    channel.postMessage("ask");
    setTimeout(() => finish(""), 200);
  });
}

/**
 * @typedef {Object} Listener
 * @property {(view: any) => void} snapshot
 * @property {(change: any) => void} change
 * @property {(status: Status) => void} status
 */
/**
 * @typedef {Object} Status
 * @property {"live" | "connecting" | "lost" | "refused"} state
 * @property {string} message
 */

/** The stream of changes; connects again by itself. */
export class Stream {
  /**
   * @param {string} token
   * @param {Listener} listener
   */
  constructor(token, listener) {
    this.token = token;
    this.listener = listener;
    this.revision = "";
    this.delay = FIRST_DELAY;
    /** Time of the last byte. */
    this.heardAt = 0;
    /** @type {(() => void) | null} */
    this.wake = null;
    // A laptop that wakes up or finds its network does not wait for the backoff.
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.retryNow());
  }

  retryNow() {
    this.delay = FIRST_DELAY;
    this.wake?.();
  }

  /** Run for ever. */
  async run() {
    for (;;) {
      try {
        await this.follow();
      } catch (error) {
        if (error instanceof Unauthorized) {
          this.listener.status({ state: "refused", message: String(error.message) });
          return;
        }
        console.debug("stream ended", error);
      }
      this.listener.status({ state: "lost", message: "The connection to the server is lost." });
      await this.pause();
    }
  }

  async pause() {
    const jitter = this.delay * (0.75 + Math.random() / 2);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, jitter);
      this.wake = () => {
        clearTimeout(timer);
        resolve(null);
      };
    });
    this.wake = null;
    this.delay = Math.min(MAX_DELAY, this.delay * 2);
  }

  async follow() {
    if (!this.revision) await this.load();
    const abort = new AbortController();
    const watchdog = setInterval(() => {
      if (performance.now() - this.heardAt > SILENCE) abort.abort();
    }, 1000);
    try {
      this.heardAt = performance.now();
      const response = await this.request("/api/events", { "Last-Event-ID": this.revision }, abort.signal);
      this.listener.status({ state: "live", message: "" });
      this.delay = FIRST_DELAY;
      await this.read(response);
    } finally {
      clearInterval(watchdog);
      abort.abort();
    }
  }

  async load() {
    const response = await this.request("/api/view", {});
    const view = await response.json();
    this.revision = view.revision;
    this.listener.snapshot(view);
  }

  /**
   * @param {string} path
   * @param {Record<string, string>} headers
   * @param {AbortSignal} [signal]
   */
  async request(path, headers, signal) {
    const response = await fetch(path, {
      headers: { Authorization: `Bearer ${this.token}`, ...headers },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal,
    });
    if (response.status === 401) throw new Unauthorized((await response.text()).trim());
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response;
  }

  /** @param {Response} response */
  async read(response) {
    const body = /** @type {ReadableStream<Uint8Array>} */ (response.body);
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heardAt = performance.now();
      buffer += decoder.decode(value, { stream: true });
      let end = buffer.indexOf("\n\n");
      while (end >= 0) {
        await this.dispatch(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
        end = buffer.indexOf("\n\n");
      }
    }
  }

  /** @param {string} block */
  async dispatch(block) {
    let type = "message";
    let id = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) type = line.slice(7);
      else if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (type === "reset") {
      await this.load();
    } else if (type === "change" && serial(id) > serial(this.revision)) {
      // After a reset, changes may arrive that the loaded view already has.
      this.revision = id;
      this.listener.change(JSON.parse(data));
    }
  }
}

/** @param {string} revision */
function serial(revision) {
  return Number(revision.slice(revision.lastIndexOf("-") + 1));
}
