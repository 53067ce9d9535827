/** The options of a tab, as labelled inputs that write into the state. */

import { h, put } from './dom.js';
import { t } from './i18n.js';
import { setOption, state } from './state.js';

/**
 * @typedef {object} Field
 * @property {string} key       the option of the endpoint
 * @property {'text' | 'select' | 'hardware' | 'preset'} [kind]
 * @property {string} [def]     what it is unless given
 * @property {string[]} [choices]
 * @property {string} [store]   the key in the state, where tabs share it: `gpu`
 */

/** @typedef {{ name: string, vendor: string, usable_bytes: number, memory_gb: number }} Hardware */

/** @type {Hardware[]} */
let hardware = [];
/** @param {Hardware[]} list */
export const setHardware = (list) => void (hardware = list);
export const hardwareList = () => hardware;

/** @param {string} tab @param {Field} field */
const place = (tab, field) => field.store ?? `${tab}.${field.key}`;

/** The options of a tab: what the state says, or the defaults. @param {string} tab @param {Field[]} fields @returns {Record<string, string>} */
export function options(tab, fields) {
  return Object.fromEntries(fields.map((field) => [field.key, state.options[place(tab, field)] ?? field.def ?? '']));
}

/** @param {Element} root @param {string} tab @param {Field[]} fields */
export function draw(root, tab, fields) {
  put(root, fields.map((field) => {
    const id = `${tab}-${field.key}`;
    const input = control(tab, field, id);
    input.addEventListener(input.tagName === 'SELECT' ? 'change' : 'input', () => {
      const value = input.value.trim();
      setOption(place(tab, field), value === (field.def ?? '') ? null : value);
    });
    return h('div', { class: 'field', 'data-key': field.key },
      h('label', { for: id }, t(`f.${field.key}`)), input, h('p', { class: 'error', id: `${id}-error`, hidden: true }));
  }));
}

/** @param {string} tab @param {Field} field @param {string} id @returns {any} */
function control(tab, field, id) {
  const value = state.options[place(tab, field)] ?? field.def ?? '';
  const about = { id, 'aria-describedby': `${id}-error` };
  if (field.kind === 'select') {
    return h('select', { ...about }, (field.choices ?? []).map((choice) => h('option', { value: choice, selected: choice === value }, choice || t('f.none'))));
  }
  if (field.kind === 'hardware') {
    /** @type {Record<string, Hardware[]>} */
    const vendors = {};
    for (const each of hardware) (vendors[each.vendor] ??= []).push(each);
    return h('select', about, Object.entries(vendors).map(([vendor, list]) =>
      h('optgroup', { label: vendor }, list.map(({ name }) => h('option', { value: name, selected: name === value }, name)))));
  }
  return h('input', { ...about, type: 'text', value, placeholder: field.def || t(`p.${field.key}`).replace(/^p\..*/, ''), list: field.kind === 'preset' ? 'preset-names' : null, autocomplete: 'off', spellcheck: 'false' });
}

/** Bring the inputs to what the state says, without touching the one in use. @param {string} tab @param {Field[]} fields */
export function refresh(tab, fields) {
  for (const field of fields) {
    const input = /** @type {any} */ (document.getElementById(`${tab}-${field.key}`));
    if (input && input !== document.activeElement) input.value = state.options[place(tab, field)] ?? field.def ?? '';
  }
}

/** Show a sentence beside the input that it names; whether there is one. @param {string} tab @param {Field[]} fields @param {string} text */
export function fail(tab, fields, text) {
  let shown = false;
  for (const { key } of fields) {
    const input = document.getElementById(`${tab}-${key}`);
    const slot = document.getElementById(`${tab}-${key}-error`);
    if (!input || !slot) continue;
    const named = new RegExp(`(^|[^\\w-])(--)?${key.replaceAll('_', '[-_ ]')}([^\\w-]|$)`).test(text) || (key === 'on' && /accelerator|hardware/.test(text));
    const here = Boolean(text) && !shown && named;
    shown ||= here;
    slot.hidden = !here;
    put(slot, here ? text : '');
    if (here) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  }
  return shown;
}
