/** Stacked bars of bytes, against a line: what the accelerator has. */

import { svg } from './dom.js';
import { bytes } from './numbers.js';
import { t } from './i18n.js';

/** @typedef {{ name: string, part: string, bytes: number | bigint }} Piece */
/** @typedef {{ label: string, pieces: Piece[], total: number | bigint }} Bar */

const BAR = 34;
const GAP = 34;
const TOP = 26;

/**
 * @param {number} width @param {Bar[]} bars
 * @param {{ label: string, bytes: number | bigint } | null} limit
 */
export function stacked(width, bars, limit) {
  const most = Math.max(...bars.map(({ total }) => Number(total)), limit ? Number(limit.bytes) : 0) * 1.04 || 1;
  const height = TOP + bars.length * (BAR + GAP) + 4;
  const x = (/** @type {number | bigint} */ value) => (Number(value) / most) * width;
  const label = bars.map((bar) => `${bar.label}: ${bytes(bar.total)} (${bar.pieces.map((piece) => `${piece.name} ${bytes(piece.bytes)}`).join(', ')})`).join('; ');
  const rows = bars.map((bar, i) => {
    const y = TOP + i * (BAR + GAP) + 20;
    let at = 0;
    const over = limit !== null && Number(bar.total) > Number(limit.bytes);
    const pieces = bar.pieces.filter((piece) => Number(piece.bytes) > 0).map((piece) => {
      const [from, w] = [at, x(piece.bytes)];
      at += w;
      const fits = piece.name.length * 6.6 + 12 < w;
      return svg('g', {}, svg('title', {}, `${piece.name}: ${bytes(piece.bytes)}`),
        svg('rect', { x: from, y, width: Math.max(0.5, w - 1), height: BAR, class: `m-${piece.part}` }),
        fits ? svg('text', { x: from + 6, y: y + BAR / 2 + 4, class: 'name' }, piece.name) : null);
    });
    return svg('g', {},
      svg('text', { x: 0, y: y - 7, class: 'name' }, bar.label,
        svg('tspan', { class: over ? 'over' : 'dim', dx: 10 }, `${bytes(bar.total)}${limit ? ` · ${t(over ? 'chart.over' : 'chart.fits')}` : ''}`)),
      pieces, limit ? svg('line', { class: 'limit', x1: x(limit.bytes), x2: x(limit.bytes), y1: y - 5, y2: y + BAR + 5 }) : null);
  });
  const line = limit
    ? svg('g', { class: 'limit' },
      svg('text', { x: Math.min(width, x(limit.bytes)), y: 13, 'text-anchor': x(limit.bytes) > width / 2 ? 'end' : 'start' }, `${limit.label} · ${bytes(limit.bytes)}`))
    : null;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'chart', role: 'img', 'aria-label': label + (limit ? `; ${limit.label}: ${bytes(limit.bytes)}` : '') }, rows, line);
}
