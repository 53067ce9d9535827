/** The count derived step by step, as the command `explain` does. */

import { h, math, put } from './dom.js';
import { parse, set, symbol } from './formula.js';
import { said, t } from './i18n.js';
import { exact } from './numbers.js';

/** @param {Element} root @param {any} explained @param {any} formula */
export function draw(root, explained, formula) {
  const open = new Set([...root.querySelectorAll('details[open]')].map((each) => each.getAttribute('data-title')));
  const largest = explained.sections.reduce((/** @type {any} */ a, /** @type {any} */ b) => (Number(b.total) > Number(a.total) ? b : a));
  if (!root.firstChild) open.add(largest.title);
  const steps = explained.sections.map((/** @type {any} */ section) => step(section, open.has(section.title)));
  const parts = explained.sections.map((/** @type {any} */ { total }) => total).filter((/** @type {any} */ total) => Number(total) > 0);
  put(root, steps, h('div', { class: 'sum' },
    h('table', {}, h('caption', { class: 'hidden' }, t('derive.sum')), h('tbody', {},
      parts.map((/** @type {any} */ part, /** @type {number} */ i) => h('tr', {}, h('th', { scope: 'row' }, i ? '+' : h('span', { class: 'hidden' }, t('derive.first'))), h('td', { class: 'number' }, exact(part)))),
      h('tr', { class: 'total' }, h('th', { scope: 'row' }, '='), h('td', { class: 'number' }, exact(explained.total)))))),
  legend(formula));
}

/** @param {any} section @param {boolean} open */
function step(section, open) {
  const stem = section.times.length ? section.tensors[0].name.lastIndexOf('.*.') + 3 : 0;
  const names = section.tensors.map((/** @type {any} */ { name }) => (section.tensors.every((/** @type {any} */ each) => each.name.slice(0, stem) === section.tensors[0].name.slice(0, stem)) ? name.slice(stem) : name));
  const product = section.times.map((/** @type {number} */ times, /** @type {number} */ i) => {
    const letter = section.times_letters[i];
    return [h('span', { class: 'dim' }, ' × '), exact(times), letter === String(times) ? null : [' ', h('span', { class: 'dim' }, typeset(letter))]];
  });
  // A section that is closed is drawn when it is opened: what is typed waits for what is seen alone.
  const inside = h('div', {});
  const fill = () => inside.firstChild || put(inside, tensors(section, names));
  if (open) fill();
  return h('details', { open, 'data-title': section.title, toggle: fill },
    h('summary', {}, h('span', { class: 'name' }, said(section.title)),
      h('span', { class: 'working' }, h('span', { class: 'number' }, section.times.length ? [exact(section.each), product, h('span', { class: 'dim' }, ' = ')] : null, exact(section.total)))),
    inside);
}

/** @param {any} section @param {string[]} names */
const tensors = (section, names) => [
  h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': said(section.title) },
    h('table', { class: 'tensors' }, h('caption', { class: 'hidden' }, said(section.title)),
      h('thead', { class: 'hidden' }, h('tr', {}, [t('derive.tensor'), t('derive.shape'), t('derive.params')].map((text) => h('th', { scope: 'col' }, text)))),
      h('tbody', {}, section.tensors.map((/** @type {any} */ tensor, /** @type {number} */ i) =>
        h('tr', {}, h('th', { scope: 'row' }, h('i', { class: `dot c-${tensor.component}`, 'aria-hidden': 'true' }), names[i]),
          h('td', {}, shape(tensor)), h('td', { class: 'number' }, tensor.tied_to ? t('derive.tied', { name: tensor.tied_to }) : exact(tensor.params))))))),
  h('p', { class: 'each' }, h('span', { class: 'dim' }, t('derive.each'), ' '), typeset(section.formula), ' = ', h('span', { class: 'number' }, exact(section.each))),
];

/** `[V, D] = 128,256 × 4,096` @param {any} tensor */
function shape(tensor) {
  const numbers = tensor.shape.map(exact).join(' × ');
  const lettered = tensor.letters.some((/** @type {string} */ letter, /** @type {number} */ i) => letter !== String(tensor.shape[i]));
  return lettered ? [h('span', { class: 'letters' }, tensor.letters.map((/** @type {string} */ letter, /** @type {number} */ i) => [i ? h('span', { class: 'dim' }, ' × ') : null, typeset(spelled(letter))])), h('span', { class: 'dim' }, `  ${numbers}`)] : h('span', { class: 'dim' }, numbers);
}

/** The texts of shapes are set close (`DK/H`, `2D²`); read them as products. @param {string} text */
export function spelled(text) {
  const squares = /** @type {Record<string, string>} */ ({ '²': '**2', '³': '**3', '⁴': '**4' });
  return text.replaceAll('·', '*').replaceAll('−', '-').replace(/[²³⁴]/g, (sign) => squares[sign])
    .replace(/([A-Z0-9)])(?=[A-Z(])/g, '$1*').replace(/(\d)(?=[a-z])/g, '$1*');
}

/** A formula, or its text where it cannot be read. @param {string} text */
function typeset(text) {
  try {
    parse(text);
    return set(text);
  } catch {
    return text;
  }
}

/** What the letters mean. @param {any} formula */
export function legend(formula) {
  return h('dl', { class: 'legend' }, Object.entries(formula.legend).map(([letter, meaning]) =>
    h('div', {}, h('dt', {}, math('math', {}, symbol(letter))), h('dd', { class: 'number' }, exact(formula.values[letter] ?? '')), h('dd', { class: 'dim' }, said(/** @type {string} */ (meaning))))));
}
