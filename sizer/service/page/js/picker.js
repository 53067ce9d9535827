/** The list of presets with a search: an ARIA combobox. */

import { ask } from './api.js';
import { $, h, put } from './dom.js';
import { t } from './i18n.js';
import { short } from './numbers.js';
import { state, update } from './state.js';

const MOST_SHOWN = 80;

/** @typedef {{ name: string, family: string, architecture: string, kinds: string[], params: number, aliases: string[] }} Preset */

/** @type {Preset[]} */
let presets = [];
/** @type {Preset[]} */
let shown = [];
let active = -1;

export const all = () => presets;

/** Presets whose name, family or kind has every word; those that begin with the first word come first. @param {string} words */
export function search(words) {
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = presets.filter((preset) => {
    const text = [preset.name, preset.family, preset.architecture, ...preset.kinds, ...preset.aliases].join(' ').toLowerCase();
    return parts.every((part) => text.includes(part));
  });
  const rank = (/** @type {Preset} */ preset) => (parts.length && preset.name.startsWith(parts[0]) ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b));
}

export async function start() {
  const input = $('model');
  const list = $('model-list');
  const open = (/** @type {boolean} */ yes) => {
    list.hidden = !yes;
    input.setAttribute('aria-expanded', String(yes));
    if (!yes) input.removeAttribute('aria-activedescendant');
  };
  const show = (/** @type {string} */ words) => {
    shown = search(words).slice(0, MOST_SHOWN);
    active = -1;
    put(list, shown.length ? shown.map(option) : h('li', { class: 'none', role: 'option', 'aria-disabled': 'true', 'aria-selected': 'false' }, t('model.none')));
    open(true);
  };
  const choose = (/** @type {string} */ name) => {
    open(false);
    input.value = name;
    update({ model: name, config: '', set: {} });
  };
  const mark = (/** @type {number} */ index) => {
    active = Math.max(0, Math.min(shown.length - 1, index));
    [...list.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === active)));
    const item = list.children[active];
    if (!item) return;
    item.scrollIntoView({ block: 'nearest' });
    input.setAttribute('aria-activedescendant', item.id);
  };

  input.addEventListener('focus', () => input.select());
  input.addEventListener('click', () => show(''));
  input.addEventListener('input', () => {
    show(input.value);
    const exact = presets.find(({ name, aliases }) => name === input.value.trim() || aliases.includes(input.value.trim()));
    if (exact) update({ model: input.value.trim(), config: '', set: {} });
  });
  input.addEventListener('blur', () => {
    open(false);
    refresh();
  });
  input.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      if (list.hidden) show('');
      else mark(active + (event.key === 'ArrowDown' ? 1 : -1));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const name = (active >= 0 ? shown[active]?.name : '') || input.value.trim();
      if (name) choose(name);
    } else if (event.key === 'Escape') {
      open(false);
      refresh();
    }
  });
  list.addEventListener('mousedown', (/** @type {MouseEvent} */ event) => {
    event.preventDefault();
    const item = /** @type {Element} */ (event.target).closest('[data-name]');
    if (item) choose(item.getAttribute('data-name') ?? '');
  });

  presets = (await ask('presets', {}, { model: false })).presets;
  const names = presets.map(({ name }) => h('option', { value: name }));
  put($('preset-names'), names);
}

/** @param {Preset} preset @param {number} index */
const option = (preset, index) =>
  h('li', { role: 'option', id: `preset-${index}`, 'data-name': preset.name, 'aria-selected': 'false' },
    h('span', {}, preset.name), h('span', { class: 'dim number' }, short(preset.params)));

/** Say what the model is. */
export function refresh() {
  const input = $('model');
  if (document.activeElement === input && !input.hasAttribute('data-chosen')) return;
  input.value = state.config ? t('model.own') : state.model;
}
