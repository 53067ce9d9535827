/** Elements made by hand: text is always text, never markup. */

const SVG = 'http://www.w3.org/2000/svg';
const MATH = 'http://www.w3.org/1998/Math/MathML';

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes  functions are listeners; `null` and `false` leave one out
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (name === 'value' || name === 'checked') /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  add(element, children);
  return element;
}

/** @param {Element} element @param {Child} child */
export function add(element, child) {
  if (Array.isArray(child)) child.forEach((each) => add(element, each));
  else if (child instanceof Node) element.append(child);
  else if (child !== null && child !== undefined && child !== false) element.append(String(child));
}

/** An HTML element. @param {string} tag @param {Record<string, any>} [attributes] @param {...Child} children @returns {any} */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. @param {string} tag @param {Record<string, any>} [attributes] @param {...Child} children @returns {any} */
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A MathML element. @param {string} tag @param {Record<string, any>} [attributes] @param {...Child} children @returns {any} */
export const math = (tag, attributes = {}, ...children) => fill(document.createElementNS(MATH, tag), attributes, children);

/** Put other children in. @param {Element} element @param {...Child} children */
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/** Say something in an element, which is left alone where it says so already. @param {Element} element @param {string} text */
export const say = (element, text) => void (element.textContent === text || (element.textContent = text));

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);
