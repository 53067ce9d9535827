/** A training run: all but one of tokens, days, accelerators and utilisation. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { t } from '../i18n.js';
import { bytes, exact, figures, percent, scientific, short } from '../numbers.js';
import { table } from '../tables.js';
import { notes, tiles } from './notes.js';

export const id = 'train';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'on', kind: 'hardware', def: 'h100-sxm5-80gb', store: 'run.on' },
  { key: 'tokens', def: '' },
  { key: 'gpus', def: '' },
  { key: 'days', def: '' },
  { key: 'mfu', def: '' },
  { key: 'dtype', kind: 'select', def: 'bf16', choices: ['bf16', 'fp16', 'fp8', 'fp32'] },
  { key: 'rule', kind: 'select', def: '6n', choices: ['6n', '8n', 'palm', 'megatron', 'chinchilla', 'exact'] },
  { key: 'seq_len', def: '4096', store: 'run.seq_len' },
  { key: 'price', def: '' },
  { key: 'pue', def: '1.0' },
];
const FIRST = { tokens: '1T', gpus: '256', mfu: '0.4' };

/** With nothing said, a run to look at. @param {Record<string, string>} options */
const asked = (options) => (options.tokens || options.gpus || options.days || options.mfu ? options : { ...options, ...FIRST });

/** @param {Record<string, string>} options */
export async function load(options) {
  const run = await ask('train', asked(options));
  return { run, document: run };
}

/** @param {Element} root @param {any} data @param {Record<string, string>} options */
export function draw(root, { run }, options) {
  const example = asked(options) !== options;
  const solved = (/** @type {string} */ key) => (run.solved === key ? t('train.solved') : '');
  put(root,
    example ? h('p', { class: 'dim' }, t('train.example')) : null,
    tiles([
      [t('f.days'), figures(run.days), solved('days')],
      [t('f.tokens'), short(run.tokens), solved('tokens') || exact(run.tokens)],
      [t('f.gpus'), exact(run.gpus), solved('gpus') || run.accelerator],
      [t('f.mfu'), percent(run.mfu), solved('mfu')],
    ]),
    table({ caption: t('train.table'), hide: true, headers: [t('quantity'), t('value'), t('exactly')], numbers: [1, 2], rows: lines(run).map(([name, value, raw]) => [name, value, raw]), raw: lines(run).map(([name, , raw]) => [name, raw, raw]) }),
    h('p', { class: 'dim small' }, t('train.rule', { rule: run.rule, formula: run.formula })), notes([run]));
}

/** With separators, to the hundredth. @param {number} value */
const cut = (value) => exact(/** @type {any} */ (value.toFixed(2)));

/** @param {any} run @returns {[string, string, string][]} */
const lines = (run) => [
  [t('train.flops'), scientific(Number(run.flops)), exact(run.flops)],
  [t('train.hours'), short(run.gpu_hours), cut(run.gpu_hours)],
  [t('train.rate'), `${short(run.tokens_per_s)}/s`, cut(run.tokens_per_s)],
  [t('train.ratio'), figures(run.tokens_per_param), cut(run.tokens_per_param)],
  [t('train.energy'), `${short(run.energy_kwh * 1000)}Wh`, `${cut(run.energy_kwh)} kWh`],
  ...(run.cost !== null && run.cost !== undefined ? [/** @type {[string, string, string]} */ ([t('train.cost'), short(run.cost), cut(run.cost)])] : []),
  ...Object.entries(run.checkpoint_bytes ?? {}).map(([name, value]) => /** @type {[string, string, string]} */ ([t(`train.${name}`), bytes(/** @type {number} */ (value)), exact(/** @type {number} */ (value))])),
];

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'train', options: asked(options) });
