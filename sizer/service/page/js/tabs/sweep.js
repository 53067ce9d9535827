/** A measure over a grid of sizes and settings: a picture and its rows. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { t } from '../i18n.js';
import { bytes, exact, short } from '../numbers.js';
import { lines } from '../plots.js';
import { table } from '../tables.js';

export const id = 'sweep';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'vary', def: 'n_layers=8:64:8' },
  { key: 'and', def: '' },
  { key: 'what', kind: 'select', def: 'params', choices: ['params', 'active', 'non_embedding', 'flops', 'flops_training', 'kv_cache', 'weights', 'memory_train', 'memory_infer'] },
];
/** Rows of one picture; the command line has no such bound. */
const MOST = 1000;
const SHOWN = 200;
const BYTES = /cache|weights|memory/;

/** @param {Record<string, string>} o */
const asked = (o) => ({ axes: [o.vary, o.and].filter(Boolean), what: o.what, max_points: String(MOST) });

/** @param {Record<string, string>} options */
export async function load(options) {
  const rows = await ask('sweep', asked(options), { lines: true });
  return { rows, document: rows };
}

/** @param {Element} root @param {any} data @param {Record<string, string>} options */
export function draw(root, { rows }, options) {
  const names = Object.keys(rows[0] ?? {}).filter((name) => name !== options.what && name !== 'error');
  const shown = (/** @type {any} */ value) => (value === null ? '–' : BYTES.test(options.what) ? bytes(value) : exact(value));
  const cell = (/** @type {any} */ value) => (typeof value === 'number' || typeof value === 'bigint' ? exact(value) : String(value ?? ''));
  const known = rows.filter((/** @type {any} */ row) => !row.error);
  const failed = rows.filter((/** @type {any} */ row) => row.error);
  put(root, picture(root, rows, names, options.what),
    failed.length ? h('p', { class: 'dim' }, t('sweep.failed', { failed: failed.length, all: rows.length }), ' ', h('span', { lang: 'en' }, failed[0].error)) : null,
    table({
      caption: t('sweep.table'), hide: true, headers: [...names, t(`sweep.${options.what}`)], numbers: [...names.map((_, i) => i), names.length],
      rows: known.slice(0, SHOWN).map((/** @type {any} */ row) => [...names.map((name) => cell(row[name])), shown(row[options.what])]),
      raw: rows.map((/** @type {any} */ row) => [...names.map((name) => row[name]), row[options.what]]),
    }),
    known.length > SHOWN ? h('p', { class: 'dim small' }, t('sweep.more', { shown: SHOWN, all: exact(known.length) })) : null);
}

/** A line for each value of the second axis. @param {Element} root @param {any[]} rows @param {string[]} names @param {string} what */
function picture(root, rows, names, what) {
  const [first, ...others] = names;
  const known = rows.filter((row) => row[what] !== null && row[what] !== undefined);
  if (!known.length) return null;
  // Words have no place on an axis but one after another.
  const words = known.every((row) => typeof row[first] === 'number') ? null : [...new Set(known.map((row) => String(row[first])))];
  /** @type {Map<string, [number, number][]>} */
  const series = new Map();
  for (const row of known) {
    const name = others.map((other) => `${other} ${row[other]}`).join(', ');
    series.set(name, [...(series.get(name) ?? []), [words ? words.indexOf(String(row[first])) : row[first], Number(row[what])]]);
  }
  const say = BYTES.test(what) ? bytes : short;
  return lines(Math.max(280, root.clientWidth), [...series].map(([name, points]) => ({ name, points })), {
    x: first, y: t(`sweep.${what}`), xText: (n) => (words ? words[n] ?? '' : short(n).replace(' ', '')), yText: (n) => say(n),
    label: t('sweep.picture', { what: t(`sweep.${what}`), first }),
  });
}

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'sweep', more: asked(options).axes, options: { what: options.what } });
