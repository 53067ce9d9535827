/** Sizes for a number of parameters, and the best size for a budget of compute. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { t } from '../i18n.js';
import { exact, figures, percent, scientific, short } from '../numbers.js';
import { state, update } from '../state.js';
import { table } from '../tables.js';
import { notes } from './notes.js';

export const id = 'design';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'params', def: '7B' },
  { key: 'for', def: 'd_model,n_layers' },
  { key: 'd_head', def: '128' },
  { key: 'ff_ratio', def: '' },
  { key: 'kv_ratio', def: '' },
  { key: 'tolerance', def: '1%' },
  { key: 'flops', def: '' },
  { key: 'tokens', def: '' },
];

/** @param {Record<string, string>} o */
const solving = ({ params, for: free, d_head, ff_ratio, kv_ratio, tolerance }) => ({ params, for: free, d_head, ff_ratio, kv_ratio, tolerance, top: '8' });

/** A budget, or a size with the tokens it is trained on. @param {Record<string, string>} o */
const budget = ({ flops, params, tokens }) => (flops ? { flops } : { params, tokens });

/** @param {Record<string, string>} options */
export async function load(options) {
  const [solved, scaling] = await Promise.all([ask('solve', solving(options)), ask('scaling', budget(options), { model: false })]);
  return { solved, scaling, document: { solve: solved, scaling } };
}

/** @param {Element} root @param {any} data @param {Record<string, string>} options */
export function draw(root, { solved, scaling }, options) {
  const names = Object.keys(solved.answers[0]?.sizes ?? {});
  const use = (/** @type {any} */ sizes) => h('button', { type: 'button', class: 'small', click: () => update({ set: { ...state.set, ...Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, String(size)])) } }) }, t('design.use'));
  put(root,
    h('h3', {}, t('design.solve', { params: options.params })),
    solved.answers.length
      ? table({ caption: t('design.answers'), hide: true, headers: [...names, t('params'), t('design.off'), ''], numbers: names.map((_, i) => i).concat(names.length, names.length + 1),
        rows: solved.answers.map((/** @type {any} */ answer) => [...names.map((name) => exact(answer.sizes[name])), exact(answer.params), answer.exact ? t('design.exact') : percent(Math.abs(answer.deviation)), use(answer.sizes)]),
        raw: solved.answers.map((/** @type {any} */ answer) => [...names.map((name) => answer.sizes[name]), answer.params, answer.deviation, '']) })
      : h('p', { class: 'verdict no' }, t('design.none', { tolerance: options.tolerance })),
    h('h3', {}, t('design.scaling')),
    h('p', { class: 'dim' }, options.flops ? t('design.budget', { flops: options.flops }) : t('design.size', { params: options.params })),
    laws(scaling), notes([solved, scaling]));
}

/** @param {any} scaling */
function laws(scaling) {
  const compared = scaling.laws.some((/** @type {any} */ law) => law.best_tokens !== undefined);
  const headers = [t('design.law'), t('params'), t('design.tokens'), t('design.ratio'), t('train.flops'), ...(compared ? [t('design.best'), t('design.times')] : []), t('design.loss'), t('formula')];
  const row = (/** @type {any} */ law) => [law.law, short(law.params), short(law.tokens), figures(law.tokens_per_param ?? Number(law.tokens) / Number(law.params)), scientific(Number(law.flops)),
    ...(compared ? [short(law.best_tokens), `${figures(law.times)}×`] : []), law.loss === null ? '–' : law.loss.toFixed(3), h('span', { lang: 'en', class: 'dim' }, law.formula)];
  const raw = (/** @type {any} */ law) => [law.law, law.params, law.tokens, law.tokens_per_param ?? '', law.flops, ...(compared ? [law.best_tokens, law.times] : []), law.loss ?? '', law.formula];
  return table({ caption: t('design.scaling'), hide: true, headers, numbers: Array.from({ length: headers.length - 2 }, (_, i) => i + 1), rows: scaling.laws.map(row), raw: scaling.laws.map(raw) });
}

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'solve', options: solving(options) });
