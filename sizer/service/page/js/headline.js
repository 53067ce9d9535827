/** The answer: the total, the active parameters, the formula. */

import { $, h, put } from './dom.js';
import { pieces } from './formula.js';
import { t } from './i18n.js';
import { exact, short } from './numbers.js';

/** @param {any} count */
export function numbers(count) {
  const { total, active, embedding, non_embedding: rest } = count.params;
  put($('total'), exact(total));
  put($('total-short'), short(total));
  put($('model-name'), count.model, count.architecture && count.architecture !== count.model ? h('span', { class: 'dim' }, ` · ${count.architecture}`) : null);
  const figures = /** @type {[string, any][]} */ ([
    ['head.active', active], ['head.embedding', embedding], ['head.rest', rest],
    ['head.tied', count.tied?.total || null], ['head.buffers', count.buffers?.total || null],
  ]);
  put($('figures'), figures.filter(([, value]) => value !== null && value !== undefined).map(([key, value]) =>
    h('div', {}, h('dt', {}, t(key)), h('dd', { class: 'number' }, exact(value)))));
  document.title = `${count.model}: ${short(total)} · sizer`;
}

/** @param {string | null} text */
export function formula(text) {
  const root = $('formula');
  root.hidden = !text;
  if (!text || root.dataset.text === text) return;
  root.dataset.text = text;
  put(root, h('span', { class: 'dim lead' }, t('head.params'), ' ='), pieces(text));
  root.setAttribute('aria-label', `${t('head.params')} = ${text}`);
}
