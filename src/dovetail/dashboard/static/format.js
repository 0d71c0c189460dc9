// @ts-check
/** Numbers, money and times as text. */

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/**
 * Dollars; small amounts get more digits.
 * @param {number | null | undefined} value
 */
export function money(value) {
  if (value === null || value == null) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 1000 ? 0 : size >= 1 ? 2 : 4;
  return `${value < 0 ? "−" : ""}$${number(size, digits)}`;
}

/** @param {number | null | undefined} value */
export function perHour(value) {
  return value === null || value == null ? "–" : `${money(value)}/h`;
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(share * 100)}%`;
}

/** @param {number} cores */
export function cpu(cores) {
  return cores >= 100 ? number(cores) : cores >= 10 ? number(cores, 1) : number(cores, 2);
}

/** @param {number} bytes */
export function memory(bytes) {
  const gib = bytes / 2 ** 30;
  if (gib >= 1024) return `${number(gib / 1024, 1)} TiB`;
  if (gib >= 100) return `${number(gib)} GiB`;
  if (gib >= 1) return `${number(gib, 1)} GiB`;
  return `${number(bytes / 2 ** 20)} MiB`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  const minutes = Math.floor(total / 60);
  if (minutes < 10) return total % 60 ? `${minutes} min ${total % 60} s` : `${minutes} min`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return days < 10 && hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** @param {number} milliseconds */
export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}

/** @param {number} milliseconds */
export function dateAndTime(milliseconds) {
  const date = new Date(milliseconds);
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(milliseconds)}`;
}

/** @param {string} text */
export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** @param {number} count @param {string} noun @param {string} [plural] */
export function pluralize(count, noun, plural) {
  return `${number(count)} ${count === 1 ? noun : plural || noun + "s"}`;
}
