/** Tables: names left, numbers right; each may be copied or saved. */

import { h } from './dom.js';

/** @typedef {{ caption?: string, headers: string[], rows: (string | number | bigint | Node | null)[][], numbers?: number[], raw?: any[][], hide?: boolean }} Data */

/** What the tables of a panel hold, for CSV and Markdown. @type {WeakMap<Element, Data>} */
const kept = new WeakMap();

/** @param {Data} data @returns {HTMLElement} */
export function table(data) {
  const numbers = new Set(data.numbers ?? []);
  const cell = (/** @type {string} */ tag, /** @type {any} */ value, /** @type {number} */ i) =>
    h(i === 0 && tag === 'td' ? 'th' : tag, { class: numbers.has(i) ? 'number' : null, scope: tag === 'th' ? 'col' : i === 0 ? 'row' : null }, value ?? '');
  const found = h('table', {},
    data.caption ? h('caption', { class: data.hide ? 'hidden' : null }, data.caption) : null,
    h('thead', {}, h('tr', {}, data.headers.map((header, i) => cell('th', header, i)))),
    h('tbody', {}, data.rows.map((row) => h('tr', {}, row.map((value, i) => cell('td', value, i))))));
  kept.set(found, data);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': data.caption ?? data.headers.join(', ') }, found);
}

/** The tables that are inside an element. @param {ParentNode} root @returns {Data[]} */
export const tablesIn = (root) => [...root.querySelectorAll('table')].map((each) => kept.get(each)).filter((each) => each !== undefined);

/** @param {any} value */
const plain = (value) => (value instanceof Node ? value.textContent ?? '' : value === null ? '' : String(value));

/** @param {Data} data */
const texts = (data) => (data.raw ?? data.rows).map((row) => row.map(plain));

/** As comma-separated values (RFC 4180); what a spreadsheet would run as a formula is quoted as text. @param {Data[]} all */
export function csv(all) {
  const quoted = (/** @type {string} */ text) => {
    const safe = /^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return all.map((data) => [data.headers, ...texts(data)].map((row) => row.map(quoted).join(',')).join('\r\n')).join('\r\n\r\n') + '\r\n';
}

/** @param {Data[]} all */
export function markdown(all) {
  const safe = (/** @type {string} */ text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
  return all.map((data) => {
    const numbers = new Set(data.numbers ?? []);
    const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |`;
    return [
      ...(data.caption && !data.hide ? [`**${safe(data.caption)}**`, ''] : []),
      line(data.headers.map((header) => safe(header) || ' ')),
      line(data.headers.map((_, i) => (numbers.has(i) ? '---:' : '---'))),
      ...data.rows.map((row) => line(row.map((value) => safe(plain(value))))),
    ].join('\n');
  }).join('\n\n') + '\n';
}
