/** The model beside presets. */

import { h, put } from '../dom.js';
import { ask, assignments } from '../api.js';
import { t } from '../i18n.js';
import { bytes, exact, figures, short } from '../numbers.js';
import { state } from '../state.js';
import { table } from '../tables.js';
import { notes } from './notes.js';

export const id = 'compare';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'with', kind: 'preset', def: 'qwen3-8b' },
  { key: 'and', kind: 'preset', def: 'gpt2-xl' },
  { key: 'also', kind: 'preset', def: '' },
  { key: 'seq_len', def: '8192' },
  { key: 'dtype', kind: 'select', def: 'bf16', choices: ['bf16', 'fp8', 'fp16', 'fp32'] },
];

/** The model as it is on the page, its changes with it: `llama-3-8b:n_layers=24`. */
const own = () => [state.config ? 'config.json' : state.model, assignments().join(',')].filter(Boolean).join(':');
/** @param {Record<string, string>} o */
const targets = (o) => [own(), o.with, o.and, o.also].filter(Boolean);

/** @param {Record<string, string>} options */
export async function load(options) {
  const { seq_len, dtype } = options;
  const [, ...others] = targets(options);
  // A configuration goes as it is: whole numbers of any size stay what they are.
  const first = assignments().length ? `{"model": ${state.config}, "set": ${JSON.stringify(assignments())}}` : state.config;
  const body = state.config ? `{"models": [${[first, ...others.map((name) => JSON.stringify(name))].join(', ')}], ${JSON.stringify({ seq_len, dtype, all: true }).slice(1)}` : '';
  const found = await ask('compare', { models: targets(options), seq_len, dtype, all: true }, { model: false, body });
  return { found, document: found };
}

/** @param {Element} root @param {any} data */
export function draw(root, { found }) {
  const shown = (/** @type {string} */ unit, /** @type {any} */ value) => (value === null || value === undefined ? '–' : unit === 'bytes' ? bytes(value) : unit === 'FLOPs' ? short(value) : exact(value));
  const rows = found.quantities.map((/** @type {any} */ line) => [
    line.quantity, ...line.values.map((/** @type {any} */ value, /** @type {number} */ i) => h('span', {}, shown(line.unit, value), i ? h('span', { class: 'dim ratio' }, line.ratios[i] === null ? '' : ` ${figures(line.ratios[i])}×`) : null))]);
  const fields_ = found.fields.map((/** @type {any} */ { field, values }) => [field, ...values.map((/** @type {any} */ value) => (value === null ? '–' : typeof value === 'number' || typeof value === 'bigint' ? exact(value) : String(value)))]);
  const numbers = found.model.map((/** @type {any} */ _, /** @type {number} */ i) => i + 1);
  put(root,
    table({ caption: t('compare.sizes'), headers: ['', ...found.model], numbers, rows, raw: found.quantities.map((/** @type {any} */ line) => [line.quantity, ...line.values]) }),
    table({ caption: t('compare.fields'), headers: ['', ...found.model], numbers, rows: fields_, raw: found.fields.map((/** @type {any} */ line) => [line.field, ...line.values]) }),
    notes([found]));
}

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'compare', arguments: targets(options), options: { seq_len: options.seq_len, dtype: options.dtype } });
