/** What an answer assumes, and where its figures come from. */

import { h } from '../dom.js';
import { t } from '../i18n.js';

/** @param {any[]} documents */
export function notes(documents) {
  const gather = (/** @type {string} */ key) => [...new Set(documents.flatMap((each) => each?.[key] ?? []))];
  const [assumptions, sources] = [gather('assumptions'), gather('sources')];
  if (!assumptions.length && !sources.length) return null;
  return h('details', { class: 'notes' }, h('summary', {}, t('notes')),
    assumptions.length ? h('ul', { lang: 'en' }, assumptions.map((text) => h('li', {}, text))) : null,
    sources.length ? h('ul', { class: 'dim', lang: 'en' }, sources.map((text) => h('li', {}, text))) : null);
}

/** Warnings of an answer. @param {string[]} texts */
export const warnings = (texts) => (texts.length ? h('ul', { class: 'warnings', lang: 'en' }, texts.map((text) => h('li', {}, text))) : null);

/** A few figures in a row: label, value, unit. @param {[string, any, string?][]} entries */
export const tiles = (entries) => h('dl', { class: 'tiles' }, entries.map(([label, value, more]) =>
  h('div', {}, h('dt', {}, label), h('dd', {}, h('span', { class: 'number' }, value)), more ? h('dd', { class: 'dim small' }, more) : null)));
