/** Whether it fits, and the best layout over accelerators. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { stacked } from '../chart.js';
import { t } from '../i18n.js';
import { bytes, exact, figures } from '../numbers.js';
import { table } from '../tables.js';
import { notes, tiles, warnings } from './notes.js';

export const id = 'fit';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'on', kind: 'hardware', def: 'h100-sxm5-80gb', store: 'run.on' },
  { key: 'gpus', def: '1' },
  { key: 'mode', kind: 'select', def: 'infer', choices: ['infer', 'train'] },
  { key: 'engine', kind: 'select', def: '', choices: ['', 'transformers', 'vllm', 'llama.cpp'] },
  { key: 'batch_size', def: '1' },
  { key: 'seq_len', def: '4096', store: 'run.seq_len' },
  { key: 'dtype', def: '' },
  { key: 'tp', def: '' },
  { key: 'pp', def: '' },
  { key: 'zero', kind: 'select', def: '', choices: ['', '0', '1', '2', '3'] },
  { key: 'checkpointing', kind: 'select', def: '', choices: ['', 'none', 'full'] },
  { key: 'max_gpus', def: '8' },
];

/** @param {Record<string, string>} o */
const fitting = ({ max_gpus: _, ...o }) => trained(o);
/** The options of training are errors for inference, and the other way about. @param {Record<string, any>} o */
const trained = (o) => (o.mode === 'train' ? { ...o, engine: '' } : { ...o, checkpointing: '', zero: '' });
/** @param {Record<string, string>} o */
const planning = ({ on, max_gpus, mode, engine, batch_size, seq_len, dtype, checkpointing }) => trained({ on, max_gpus, mode, engine, batch_size, seq_len, dtype, checkpointing });

/** @param {Record<string, string>} options */
export async function load(options) {
  const [fit, plan] = await Promise.all([ask('fit', fitting(options)), options.max_gpus ? ask('plan', planning(options)).catch((error) => ({ error })) : null]);
  return { fit, plan, document: { fit, plan: plan?.error ? null : plan } };
}

const KINDS = /** @type {Record<string, string>} */ ({ 'KV cache': 'kv_cache', weights: 'weights', buffers: 'buffers', gradients: 'gradients', activations: 'activations', runtime: 'other' });

/** @param {any} rank @returns {import('../chart.js').Piece[]} */
const parts = (rank) => rank.parts.map((/** @type {any} */ part) => ({
  name: KINDS[part.name] && part.name !== 'runtime' ? t(`part.${KINDS[part.name]}`) : part.name,
  part: KINDS[part.name] ?? (/optim/.test(part.name) ? 'optimizer' : 'other'), bytes: part.bytes,
}));

/** @param {any} layout */
const spelled = (layout) => Object.entries(layout).filter(([key, value]) => !['gpus', 'checkpointing'].includes(key) && value !== 1 && value !== 0)
  .map(([key, value]) => `${key} ${value}`).join(' · ') || t('fit.single');

/** @param {Element} root @param {any} data */
export function draw(root, { fit, plan }) {
  const width = Math.max(280, root.clientWidth);
  const rank = fit.rank;
  put(root,
    h('p', { class: fit.fits ? 'verdict yes' : 'verdict no' }, t(fit.fits ? 'fit.yes' : 'fit.no', { gpus: fit.layout.gpus, name: fit.accelerator }), ' ',
      h('span', { class: 'dim' }, t(Number(rank.left_bytes) >= 0 ? 'fit.left' : 'fit.over', { bytes: bytes(Number(rank.left_bytes) < 0 ? -rank.left_bytes : rank.left_bytes) }))),
    stacked(width, [{ label: `${rank.place} · ${spelled(fit.layout)}`, pieces: parts(rank), total: rank.total_bytes }], { label: t('fit.budget', { name: fit.accelerator }), bytes: rank.budget_bytes }),
    fit.capacity ? tiles([[t('fit.tokens'), exact(fit.capacity.tokens)], [t('fit.sequences'), exact(fit.capacity.sequences)], [t('fit.cache'), bytes(fit.capacity.cache_bytes)]]) : null,
    warnings(fit.warnings ?? []),
    (fit.changes ?? []).length ? [h('h3', {}, t('fit.changes')), h('ul', { lang: 'en' }, fit.changes.map((/** @type {any} */ change) => h('li', {}, `${change.text} · `, h('span', { class: 'dim' }, t('fit.left', { bytes: bytes(change.left_bytes) })))))] : null,
    table({ caption: t('fit.table'), hide: true, headers: [t('part'), t('bytes'), t('fit.what'), t('fit.label')], numbers: [1],
      rows: rank.parts.map((/** @type {any} */ part, /** @type {number} */ i) => [parts(rank)[i].name, bytes(part.bytes), h('span', { lang: 'en' }, part.what), part.label]),
      raw: rank.parts.map((/** @type {any} */ part) => [part.name, part.bytes, part.what, part.label]) }),
    plan ? h('h3', {}, t('plan')) : null, plan ? planned(plan) : null, notes([fit, plan]));
}

/** @param {any} plan */
function planned(plan) {
  if (plan.error) return h('p', { class: 'error', role: 'status' }, plan.error.message);
  if (!plan.best) return h('p', { class: 'verdict no' }, t('plan.none', { looked: plan.looked }));
  const row = (/** @type {any} */ each) => [exact(each.layout.gpus), h('span', { class: 'number' }, spelled(each.layout)), each.dtype ?? '', bytes(each.rank.total_bytes), bytes(each.rank.left_bytes),
    each.cost?.tokens_per_s ? figures(each.cost.tokens_per_s) : '–', h('span', { lang: 'en' }, each.why ?? '')];
  const all = [plan.best, ...(plan.others ?? [])];
  return [h('p', { class: 'dim' }, t('plan.looked', { looked: exact(plan.looked), fitted: exact(plan.fitted) })),
    table({ caption: t('plan'), hide: true, headers: [t('plan.gpus'), t('plan.layout'), t('f.dtype'), t('plan.each'), t('plan.left'), t('plan.speed'), t('plan.why')], numbers: [0, 3, 4, 5],
      rows: all.map(row), raw: all.map((each) => [each.layout.gpus, spelled(each.layout), each.dtype, each.rank.total_bytes, each.rank.left_bytes, each.cost?.tokens_per_s ?? '', each.why]) }), warnings(plan.warnings ?? [])];
}

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'fit', options: fitting(options) });
