/** Memory of a training step and of inference, against one accelerator. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { stacked } from '../chart.js';
import { hardwareList } from '../form.js';
import { t } from '../i18n.js';
import { bytes, exact } from '../numbers.js';
import { table } from '../tables.js';
import { notes } from './notes.js';

export const id = 'memory';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'on', kind: 'hardware', def: 'h100-sxm5-80gb', store: 'run.on' },
  { key: 'batch_size', def: '1' },
  { key: 'seq_len', def: '4096', store: 'run.seq_len' },
  { key: 'precision', kind: 'select', def: 'bf16', choices: ['bf16', 'autocast', 'fp32'] },
  { key: 'optimizer', kind: 'select', def: 'adamw', choices: ['adamw', 'adam', 'adamw-8bit', 'adafactor', 'lion', 'muon', 'shampoo', 'momentum', 'sgd'] },
  { key: 'attention', kind: 'select', def: 'sdpa', choices: ['sdpa', 'flash', 'eager'] },
  { key: 'checkpointing', kind: 'select', def: 'none', choices: ['none', 'full'] },
  { key: 'dtype', kind: 'select', def: 'bf16', choices: ['bf16', 'fp16', 'fp32', 'fp8', 'int8', 'int4'] },
  { key: 'kv_dtype', kind: 'select', def: '', choices: ['', 'bf16', 'fp8', 'int8', 'q8_0', 'q4_0'] },
];

/** @param {Record<string, string>} o */
const training = ({ batch_size, seq_len, precision, optimizer, attention, checkpointing }) => ({ mode: 'train', batch_size, seq_len, precision, optimizer, attention, checkpointing });
/** @param {Record<string, string>} o */
const inferring = ({ batch_size, seq_len, attention, dtype, kv_dtype }) => ({ mode: 'infer', batch_size, seq_len, attention, dtype, kv_dtype });

/** @param {Record<string, string>} options */
export async function load(options) {
  const [train, infer] = await Promise.all([ask('memory', training(options)), ask('memory', inferring(options))]);
  return { train, infer, document: { train, infer } };
}

const PARTS = ['weights', 'buffers', 'gradients', 'optimizer', 'kv_cache', 'activations', 'logits'];

/** @param {any} document @param {number | bigint} total @returns {import('../chart.js').Piece[]} */
function pieces(document, total) {
  const found = PARTS.filter((part) => Number(document[`${part}_bytes`] ?? 0) > 0)
    .map((part) => ({ name: t(`part.${part}`), part, bytes: document[`${part}_bytes`] }));
  const sum = found.reduce((all, piece) => all + BigInt(piece.bytes), 0n);
  // At its peak a step holds other things than the sum of the parts: the step of the optimizer, or less of the activations.
  const rest = BigInt(total) - sum;
  if (rest > 0n) found.push({ name: t('part.other'), part: 'other', bytes: Number(rest) });
  return found;
}

/** At the peak, parts that are not all there at once are shown as far as they are. @param {any} document */
function atPeak(document) {
  const steady = ['weights', 'buffers', 'gradients', 'optimizer'].reduce((all, part) => all + Number(document[`${part}_bytes`] ?? 0), 0);
  const left = Number(document.peak_bytes) - steady;
  return pieces({ ...document, activations_bytes: Math.max(0, Math.min(Number(document.activations_bytes), left)) }, document.peak_bytes);
}

/** @param {Element} root @param {any} data @param {Record<string, string>} options */
export function draw(root, { train, infer }, options) {
  const card = hardwareList().find(({ name }) => name === options.on);
  const limit = card ? { label: t('memory.usable', { name: card.name }), bytes: card.usable_bytes } : null;
  const bars = [
    { label: t('memory.train'), pieces: atPeak(train), total: train.peak_bytes },
    { label: t('memory.infer'), pieces: pieces(infer, infer.total_bytes), total: infer.total_bytes },
  ];
  const used = PARTS.filter((part) => Number(train[`${part}_bytes`] ?? infer[`${part}_bytes`] ?? 0) > 0);
  const value = (/** @type {any} */ document, /** @type {string} */ key) => (document[key] === undefined ? '–' : bytes(document[key]));
  const rows = used.map((part) => [h('span', {}, h('i', { class: `dot m-${part}`, 'aria-hidden': 'true' }), t(`part.${part}`)), value(train, `${part}_bytes`), value(infer, `${part}_bytes`)]);
  put(root, stacked(Math.max(280, root.clientWidth), bars, limit),
    table({
      caption: t('memory.table'), hide: true, headers: [t('part'), t('memory.train'), t('memory.infer')], numbers: [1, 2],
      rows: [...rows, [t('memory.peak'), h('strong', { title: exact(train.peak_bytes) }, bytes(train.peak_bytes)), h('strong', { title: exact(infer.total_bytes) }, bytes(infer.total_bytes))]],
      raw: [...used.map((part) => [part, train[`${part}_bytes`] ?? '', infer[`${part}_bytes`] ?? '']), ['peak', train.peak_bytes, infer.total_bytes]],
    }),
    h('p', { class: 'dim small' }, t('memory.moment', { moment: train.moment, label: `${train.label} / ${infer.label}` })), notes([train, infer]));
}

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'memory', options: training(options), python: 'memory' });
