/** Numbers for people. Whole ones stay exact: above 2⁵³ they are BigInt. */

/** @typedef {number | bigint} Int */

const SHORT = /** @type {[number, string][]} */ ([[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']]);
const BYTES = /** @type {[number, string][]} */ ([[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]);

/** With separators, exact: 8,030,261,248. @param {Int} value */
export function exact(value) {
  const [whole, rest] = String(value).split('.');
  if (/[en]/i.test(whole)) return String(value);
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
  return rest ? `${grouped}.${rest}` : grouped;
}

/** Three figures: 8.03 B. @param {Int} value */
export function short(value) {
  const number = Number(value);
  for (const [size, unit] of SHORT) {
    if (Math.abs(number) < size * 0.9995) continue;
    return number >= 1e15 * 0.9995 ? scientific(number) : `${figures(number / size)} ${unit}`;
  }
  return figures(number);
}

/** @param {number} number */
export function scientific(number) {
  const power = Math.floor(Math.log10(Math.abs(number)));
  return `${(number / 10 ** power).toFixed(2)} × 10${superscript(power)}`;
}

/** @param {number} power */
const superscript = (power) => [...String(power)].map((digit) => (digit === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)])).join('');

/** Three significant figures, without an exponent. @param {number} number */
export function figures(number) {
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1000) return String(number);
  if (size !== 0 && size < 0.001) return number.toPrecision(2);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const [whole, rest] = number.toFixed(size < 1 ? 3 : digits).split('.');
  return rest && Number(rest) ? `${exact(Number(whole) || 0)}.${rest}`.replace(/^0/, number < 0 ? '-0' : '0') : exact(Number(whole));
}

/** Bytes in binary units, said: 14.96 GiB. @param {Int} value */
export function bytes(value) {
  const number = Number(value);
  for (const [size, unit] of BYTES) {
    if (Math.abs(number) >= size) return `${(number / size).toFixed(number / size >= 100 ? 1 : 2)} ${unit}`;
  }
  return `${exact(value)} B`;
}

/** @param {number} share */
export const percent = (share) => (share > 0 && share < 0.001 ? '< 0.1 %' : `${(share * 100).toFixed(1)} %`);

/** @param {Int} a @param {Int} b */
export const ratio = (a, b) => (Number(b) ? Number(a) / Number(b) : 0);
