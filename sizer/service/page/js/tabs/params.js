/** Parameters: the breakdown, the components, the derivation. */

import { $, h, put, say } from '../dom.js';
import { ask } from '../api.js';
import { draw as derive } from '../derivation.js';
import { set } from '../formula.js';
import { said, t } from '../i18n.js';
import { exact, percent } from '../numbers.js';
import { setOption, state, file } from '../state.js';
import { table } from '../tables.js';
import { draw as treemap } from '../treemap.js';
import { ofSections, ofTensors } from '../tree.js';

export const id = 'params';
/** @type {import('../form.js').Field[]} */
export const fields = [];

/** The answers that the whole page is about: they are asked for once a change. */
export async function load() {
  if (file()) {
    const [count, tensors] = await Promise.all([ask('count'), ask('tensors')]);
    return { count, tensors: tensors.tensors, document: count };
  }
  // The derivation holds the totals, the formula and its letters too: one question an update.
  const explained = await ask('explain');
  return { count: explained, formula: explained, explained, document: explained };
}

/** @param {Element} root @param {Awaited<ReturnType<typeof load>>} data */
export function draw(root, data) {
  if (!root.querySelector('#breakdown')) {
    put(root, h('h2', {}), h('p', { class: 'dim small hint' }), h('div', { id: 'breakdown' }), h('div', { class: 'columns' },
      h('section', { 'aria-labelledby': 'h-components' }, h('h2', { id: 'h-components' }), h('div', { id: 'components' })),
      h('section', { 'aria-labelledby': 'h-derive', id: 'derive-box' }, h('h2', { id: 'h-derive' }), h('div', { id: 'derivation' }))));
  }
  // First what asks for its width: nothing is laid out twice.
  const tree = data.explained ? ofSections(data.explained) : ofTensors(data.count.model, data.tensors ?? []);
  treemap($('breakdown'), tree, state.options['params.path'] ?? '', (path) => setOption('params.path', path || null));
  say(/** @type {Element} */ (root.querySelector('h2')), t('breakdown'));
  say(/** @type {Element} */ (root.querySelector('.hint')), t('breakdown.hint'));
  say($('h-components'), t('components'));
  say($('h-derive'), t('derive'));
  const rows = data.count.components ?? [];
  put($('components'), table({
    caption: t('components'), hide: true,
    headers: [t('component'), t('params'), t('portion'), ...(data.formula ? [t('formula')] : [])], numbers: [1, 2],
    rows: rows.map((/** @type {any} */ { component, params, share, formula }) => [
      h('span', {}, h('i', { class: `dot c-${component}`, 'aria-hidden': 'true' }), said(component)), exact(params), percent(share), ...(data.formula ? [formula ? set(formula) : ''] : [])]),
    raw: rows.map((/** @type {any} */ { component, params, share, formula }) => [component, params, share, formula ?? '']),
  }));
  $('derive-box').hidden = !data.explained;
  if (data.explained) derive($('derivation'), data.explained, data.formula);
}

/** @returns {import('../commands.js').Command} */
export const command = () => ({ name: 'count', options: {} });
