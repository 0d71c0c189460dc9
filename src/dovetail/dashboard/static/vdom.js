// @ts-check
/**
 * Elements as values: `h` describes a tree, `render` changes the page to match it.
 *
 * Text always becomes a text node and attributes never hold code, so no name in
 * the cluster can become markup.
 */

/** @typedef {VNode | string | number | null | undefined | false} Child */
/** @typedef {Child | Children[]} Children */
/** @typedef {Record<string, any>} Props */
/**
 * @typedef {Object} VNode
 * @property {string} tag
 * @property {Props} props
 * @property {(VNode | string)[]} children
 * @property {string | undefined} key
 */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "a", "g", "path", "line", "rect", "circle", "text", "title", "polyline"]);

/**
 * Describe an element. Props: `key`, `class`, `on` (event handlers), `style` (CSS
 * properties), `value` and `checked` as properties, everything else as attributes.
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...Children} children
 * @returns {VNode}
 */
export function h(tag, props, ...children) {
  /** @type {(VNode | string)[]} */
  const flat = [];
  flatten(children, flat);
  return { tag, props: props || {}, children: flat, key: props ? props.key : undefined };
}

/**
 * @param {Children} children
 * @param {(VNode | string)[]} into
 */
function flatten(children, into) {
  if (Array.isArray(children)) {
    for (const child of children) flatten(child, into);
  } else if (typeof children === "string") {
    into.push(children);
  } else if (typeof children === "number") {
    into.push(String(children));
  } else if (children) {
    into.push(children);
  }
}

/** @type {WeakMap<Node, VNode>} */
const rendered = new WeakMap();

/**
 * Make the children of an element match a description.
 * @param {Element} parent
 * @param {...Children} children
 */
export function render(parent, ...children) {
  /** @type {(VNode | string)[]} */
  const flat = [];
  flatten(children, flat);
  patchChildren(parent, flat, parent.namespaceURI === SVG);
}

/**
 * @param {VNode} vnode
 * @param {boolean} inSvg
 * @returns {Element}
 */
function create(vnode, inSvg) {
  const svg = vnode.tag === "svg" || (inSvg && SVG_TAGS.has(vnode.tag));
  const element = svg ? document.createElementNS(SVG, vnode.tag) : document.createElement(vnode.tag);
  patchProps(element, {}, vnode.props);
  patchChildren(element, vnode.children, svg);
  patchValue(element, vnode.props);
  rendered.set(element, vnode);
  return element;
}

/**
 * @param {Element} parent
 * @param {(VNode | string)[]} children
 * @param {boolean} svg
 */
function patchChildren(parent, children, svg) {
  /** @type {Map<string, Element> | null} */
  let keyed = null;
  for (const child of children) {
    if (typeof child !== "string" && child.key !== undefined) {
      keyed = new Map();
      for (const element of parent.children) {
        const key = rendered.get(element)?.key;
        if (key !== undefined) keyed.set(key, element);
      }
      break;
    }
  }
  let at = parent.firstChild;
  for (const child of children) {
    if (typeof child === "string") {
      if (at && at.nodeType === Node.TEXT_NODE) {
        if (at.nodeValue !== child) at.nodeValue = child;
        at = at.nextSibling;
      } else {
        parent.insertBefore(document.createTextNode(child), at);
      }
      continue;
    }
    const match = child.key === undefined ? at : keyed?.get(child.key) || null;
    const before = match ? rendered.get(match) : undefined;
    if (match && before && before.tag === child.tag && before.key === child.key) {
      if (match === at) at = at.nextSibling;
      else parent.insertBefore(match, at);
      patch(/** @type {Element} */ (match), before, child, svg);
    } else {
      parent.insertBefore(create(child, svg), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

/**
 * @param {Element} element
 * @param {VNode} before
 * @param {VNode} after
 * @param {boolean} inSvg
 */
function patch(element, before, after, inSvg) {
  if (before === after) return; // A cached description.
  patchProps(element, before.props, after.props);
  patchChildren(element, after.children, inSvg || after.tag === "svg");
  patchValue(element, after.props);
  rendered.set(element, after);
}

/**
 * @param {Element} element
 * @param {Props} before
 * @param {Props} after
 */
function patchProps(element, before, after) {
  for (const name in before) {
    if (!(name in after)) patchProp(element, name, before[name], undefined);
  }
  for (const name in after) {
    if (before[name] !== after[name]) patchProp(element, name, before[name], after[name]);
  }
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {any} before
 * @param {any} after
 */
function patchProp(element, name, before, after) {
  if (name === "key" || name === "value" || name === "checked") return;
  if (name === "on") {
    for (const type in before || {}) {
      if (before[type] !== after?.[type]) element.removeEventListener(type, before[type]);
    }
    for (const type in after || {}) {
      if (before?.[type] !== after[type]) element.addEventListener(type, after[type]);
    }
  } else if (name === "style") {
    const style = /** @type {HTMLElement} */ (element).style;
    for (const property in before || {}) {
      if (!after || !(property in after)) style.removeProperty(property);
    }
    for (const property in after || {}) {
      if (before?.[property] !== after[property]) style.setProperty(property, after[property]);
    }
  } else if (name.startsWith("on") || name === "srcdoc") {
    throw new Error(`attribute ${name} is not allowed`);
  } else if (name === "href" && after !== undefined && !String(after).startsWith("#")) {
    throw new Error("links lead to views of this page only");
  } else if (after === undefined || after === null || after === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, after === true ? "" : String(after));
  }
}

/**
 * Set what users change, too: a render must not undo what is being typed.
 * @param {Element} element
 * @param {Props} props
 */
function patchValue(element, props) {
  if ("value" in props) {
    const input = /** @type {HTMLInputElement} */ (element);
    if (input.value !== props.value && document.activeElement !== input) input.value = props.value;
  }
  if ("checked" in props) /** @type {HTMLInputElement} */ (element).checked = props.checked;
}
