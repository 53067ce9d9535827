/** Sliders for the sizes of a model, in steps that keep it whole. */

import { ask } from './api.js';
import { $, h, math, put } from './dom.js';
import { symbol } from './formula.js';
import { said } from './i18n.js';
import { exact } from './numbers.js';
import { setField, state, update } from './state.js';

/** Letter → the field it is, and what config.json files call it. @type {Record<string, [string, string[]]>} */
const FIELDS = {
  D: ['d_model', ['hidden_size', 'n_embd']],
  L: ['n_layers', ['num_hidden_layers', 'n_layer']],
  H: ['n_heads', ['num_attention_heads', 'n_head']],
  K: ['n_kv_heads', ['num_key_value_heads']],
  Dh: ['d_head', ['head_dim']],
  F: ['d_ff', ['intermediate_size', 'n_inner']],
  V: ['vocab_size', ['vocab_size']],
  C: ['n_ctx', ['max_position_embeddings', 'n_positions']],
  E: ['n_experts', ['num_local_experts', 'n_routed_experts', 'num_experts']],
  k: ['top_k', ['num_experts_per_tok']],
  Fe: ['d_ff_expert', ['moe_intermediate_size']],
  Es: ['n_shared_experts', ['n_shared_experts']],
};
/** What they mean where no formula says so. @type {Record<string, string>} */
const MEANINGS = {
  D: 'width of the residual stream', L: 'blocks', H: 'query heads', K: 'key/value heads', Dh: 'width of one head', F: 'hidden width of the MLP',
  V: 'rows of the embedding as stored', C: 'context; rows of learned positions', E: 'routed experts', k: 'experts a token visits',
  Fe: 'hidden width of one expert', Es: 'always-on experts',
};

/** What the model's own configuration says of its sizes. @type {Record<string, number>} */
let own = {};
let ownOf = '';

/** The sizes of a preset, or of the configuration that was pasted. */
async function configured() {
  const key = state.config || state.model;
  if (key === ownOf) return own;
  /** @type {Record<string, any>} */
  let config = {};
  if (state.config) config = JSON.parse(state.config);
  else config = (await ask(`presets/${encodeURIComponent(state.model)}`, {}, { model: false })).config;
  own = {};
  for (const [letter, [field, names]] of Object.entries(FIELDS)) {
    const value = [field, ...names].map((name) => config[name]).find((each) => Number.isInteger(each));
    if (value !== undefined) own[letter] = value;
  }
  ownOf = key;
  return own;
}

/**
 * The sizes to show: those of the formula, and those that only running the model needs.
 * @param {Record<string, number> | null} values  null where there is no formula, as the sizes do not go together
 * @param {Record<string, string>} legend
 */
export async function show(values, legend) {
  const also = await configured();
  const box = $('sliders');
  const letters = Object.keys(FIELDS).filter((letter) => (values && letter in values) || (letter in also && (!values || ['L', 'H', 'K', 'C', 'E', 'k'].includes(letter))));
  const now = letters.map((letter) => [letter, values?.[letter] ?? Number(state.set[FIELDS[letter][0]] ?? also[letter])]);
  const sizes = Object.fromEntries(now);
  const same = box.firstChild && box.dataset.of === `${ownOf} ${letters} ${document.documentElement.lang}`;
  if (!same) {
    box.dataset.of = `${ownOf} ${letters} ${document.documentElement.lang}`;
    put(box, letters.map((letter) => line(letter, legend[letter] ?? MEANINGS[letter] ?? '', sizes)));
  }
  for (const letter of letters) refresh(letter, sizes);
}

/** @param {string} letter @param {string} meaning @param {Record<string, number>} sizes */
function line(letter, meaning, sizes) {
  const field = FIELDS[letter][0];
  const from = own[letter] ?? sizes[letter];
  const label = `${letter}, ${said(meaning)}`;
  const number = h('input', { type: 'text', inputmode: 'numeric', class: 'number', id: `size-${field}`, 'aria-label': label, autocomplete: 'off', spellcheck: 'false', 'aria-describedby': `error-${field}` });
  const range = h('input', { type: 'range', min: 0, max: 1000, step: 1, 'aria-label': label, 'data-from': from, 'data-letter': letter });
  range.addEventListener('input', () => {
    const all = current();
    const value = snapped(letter, fromShare(letter, Number(range.value) / 1000, from), all);
    number.value = exact(value);
    range.setAttribute('aria-valuetext', String(value));
    last = field;
    setField(field, value === own[letter] ? '' : String(value));
  });
  range.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 8, PageDown: -8 }[event.key];
    if (!way) return;
    event.preventDefault();
    const value = stepped(letter, current()[letter] || from, way, current());
    number.value = exact(value);
    last = field;
    setField(field, value === own[letter] ? '' : String(value));
  });
  number.addEventListener('input', () => {
    const text = number.value.replaceAll(/[,_\s]/g, '');
    if (!text) return;
    last = field;
    setField(field, text === String(own[letter]) ? '' : text);
  });
  number.addEventListener('blur', () => {
    if (!number.value.trim()) setField(field, '');
  });
  return h('div', { class: 'size', 'data-field': field },
    h('span', { class: 'letter', 'aria-hidden': 'true' }, math('math', {}, symbol(letter))),
    h('span', { class: 'meaning', title: `${said(meaning)} · ${field}`, 'aria-hidden': 'true' }, said(meaning)),
    number, range, h('p', { class: 'error', id: `error-${field}`, hidden: true }));
}

/** The field that was changed last: an error is shown beside it. */
let last = '';

/** What the fields say now. @returns {Record<string, number>} */
function current() {
  /** @type {Record<string, number>} */
  const found = {};
  for (const [letter, [field]] of Object.entries(FIELDS)) {
    const input = $(`size-${field}`);
    if (input) found[letter] = Number(input.value.replaceAll(/[,_\s]/g, ''));
  }
  return found;
}

/** @param {string} letter @param {Record<string, number>} sizes */
function refresh(letter, sizes) {
  const number = $(`size-${FIELDS[letter][0]}`);
  const range = number.parentElement.querySelector('[type=range]');
  const value = sizes[letter];
  const [text, share] = [exact(value), String(Math.round(toShare(letter, value, Number(range.dataset.from)) * 1000))];
  // An input that is written to is laid out at once, so only one that says something else is.
  if (document.activeElement !== number && number.value !== text) number.value = text;
  if (document.activeElement !== range && range.value !== share) range.value = share;
  range.setAttribute('aria-valuetext', String(value));
  number.parentElement.classList.toggle('changed', FIELDS[letter][0] in state.set);
}

/** An eighth to eight times the model's own size, evenly in ratios. @param {number} from @param {string} letter @returns {[number, number]} */
const bounds = (letter, from) => [Math.max(1, from / 8), Math.max(8, from * (letter === 'k' ? 4 : 8))];

/** @param {string} letter @param {number} share @param {number} from */
function fromShare(letter, share, from) {
  const [least, most] = bounds(letter, from);
  return least * (most / least) ** share;
}

/** @param {string} letter @param {number} value @param {number} from */
function toShare(letter, value, from) {
  const [least, most] = bounds(letter, from);
  return Math.min(1, Math.max(0, Math.log(value / least) / Math.log(most / least)));
}

/** @param {number} n */
const divisors = (n) => Array.from({ length: Math.min(n, 4096) }, (_, i) => i + 1).filter((d) => n % d === 0);

/** The sizes that a letter may take beside the others: heads divide the width, KV heads the heads. @param {string} letter @param {Record<string, number>} sizes @returns {number[] | number} */
function allowed(letter, sizes) {
  if (letter === 'H' && sizes.D && !sizes.Dh) return divisors(sizes.D).filter((d) => !sizes.K || d % sizes.K === 0);
  if (letter === 'K' && sizes.H) return divisors(sizes.H);
  if (letter === 'H' && sizes.K) return sizes.K;
  if (letter === 'D') return sizes.H && !sizes.Dh ? 2 * sizes.H : 64;
  if (letter === 'F' || letter === 'Fe') return 64;
  if (letter === 'Dh') return 8;
  if (letter === 'C') return 128;
  return 1;
}

/** @param {string} letter @param {number} value @param {Record<string, number>} sizes */
function snapped(letter, value, sizes) {
  const may = allowed(letter, sizes);
  if (Array.isArray(may)) return may.reduce((best, each) => (Math.abs(Math.log(each / value)) < Math.abs(Math.log(best / value)) ? each : best), may[0] ?? 1);
  const most = letter === 'k' && sizes.E ? sizes.E : Infinity;
  return Math.min(most, Math.max(may, Math.round(value / may) * may));
}

/** @param {string} letter @param {number} value @param {number} way @param {Record<string, number>} sizes */
function stepped(letter, value, way, sizes) {
  const may = allowed(letter, sizes);
  if (!Array.isArray(may)) return snapped(letter, value + way * may, sizes);
  const at = may.findIndex((each) => each >= value);
  return may[Math.max(0, Math.min(may.length - 1, (at < 0 ? may.length : at) + Math.sign(way)))];
}

/** Back to the model's own sizes. */
export function reset() {
  last = '';
  update({ set: {} });
}

/** Show an error beside the size that was changed last; whether there is one. @param {string} text */
export function fail(text) {
  for (const element of document.querySelectorAll('#sliders .error')) /** @type {any} */ (element).hidden = true;
  for (const element of document.querySelectorAll('#sliders [aria-invalid]')) element.removeAttribute('aria-invalid');
  const field = last in state.set ? last : Object.keys(state.set)[0];
  const slot = text && field ? $(`error-${field}`) : null;
  if (!slot) return false;
  put(slot, text);
  slot.hidden = false;
  $(`size-${field}`).setAttribute('aria-invalid', 'true');
  return true;
}
