/** A number that somebody else has: what turns ours into it. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { spelled } from '../derivation.js';
import { pieces } from '../formula.js';
import { t } from '../i18n.js';
import { exact, short } from '../numbers.js';
import { table } from '../tables.js';
import { notes } from './notes.js';

export const id = 'reconcile';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'number', def: '' },
  { key: 'dtype', kind: 'select', def: '', choices: ['', 'bf16', 'fp16', 'fp32', 'fp8', 'int8', 'int4'] },
];

/** @param {Record<string, string>} options */
export async function load(options) {
  // With nothing said, a number to look at: ours as it is mostly printed.
  const number = options.number || short((await ask('count')).params.total).replace(' ', '');
  const found = await ask('reconcile', { ...options, number });
  return { found, document: found };
}

/** @param {any} value */
const signed = (value) => (Number(value) < 0 ? `− ${exact(-value)}` : `+ ${exact(value)}`);

/** A formula that lines may break, or its text where it cannot be read. @param {string} text */
function set(text) {
  try {
    return h('span', { class: 'wide' }, pieces(spelled(text)));
  } catch {
    return text;
  }
}

/** @param {Element} root @param {any} data @param {Record<string, string>} options */
export function draw(root, { found }, options) {
  /** @type {[any, any, any, any][]} */
  const rows = [
    [t('reconcile.ours'), exact(found.total), '', ''],
    ...found.terms.map((/** @type {any} */ term) => [h('span', { lang: 'en' }, term.name), signed(term.amount), set(term.formula), h('span', { lang: 'en', class: 'dim' }, term.why)]),
    [h('strong', {}, t('reconcile.sum')), h('strong', {}, exact(found.value)), '', ''],
  ];
  if (found.residual) rows.push([t('reconcile.left'), signed(found.residual), '', t(found.ok ? 'reconcile.rounding' : 'reconcile.unknown')]);
  put(root,
    options.number ? null : h('p', { class: 'dim' }, t('reconcile.example', { number: found.figure })),
    h('p', { class: found.ok ? 'verdict yes' : 'verdict no' }, t(found.ok ? (found.terms.length ? 'reconcile.yes' : 'reconcile.same') : 'reconcile.no', { number: found.figure }), ' ',
      found.reading ? h('span', { class: 'dim', lang: 'en' }, found.reading) : null),
    table({
      caption: t('reconcile.table'), hide: true, headers: [t('reconcile.term'), t('params'), t('formula'), t('reconcile.why')], numbers: [1], rows,
      raw: [['ours', found.total, '', ''], ...found.terms.map((/** @type {any} */ term) => [term.name, term.amount, term.formula, term.why]), ['sum', found.value, '', ''], ['left', found.residual, '', '']],
    }),
    found.alternatives.length ? [h('h3', {}, t('reconcile.others')), h('ul', { lang: 'en' }, found.alternatives.map((/** @type {any} */ each) => h('li', {}, alternative(each))))] : null,
    notes([found]));
}

/** @param {any} each terms that give the number too */
const alternative = (each) => (Array.isArray(each.terms) ? each.terms.map((/** @type {any} */ term) => `${term.name} (${signed(term.amount)})`).join('; ') : String(each.name ?? each));

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = ({ number, dtype }) => ({ name: 'reconcile', more: number ? [number] : [], options: { dtype } });
