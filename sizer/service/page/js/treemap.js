/** The breakdown drawn as areas: a squarified treemap (Bruls, Huizing, van Wijk 2000). */

import { h, put, svg } from './dom.js';
import { t } from './i18n.js';
import { exact, percent, ratio, short } from './numbers.js';
import { at, title } from './tree.js';

/** @typedef {import('./tree.js').Part} Part */
/** @typedef {{ x: number, y: number, w: number, h: number }} Box */

/** Boxes in proportion to sizes, as square as they come. @param {number[]} sizes largest first @param {Box} box @returns {Box[]} */
export function squarify(sizes, box) {
  const total = sizes.reduce((a, b) => a + b, 0);
  const scale = total ? (box.w * box.h) / total : 0;
  /** @type {Box[]} */
  const found = [];
  let { x, y, w, h: height } = box;
  let i = 0;
  while (i < sizes.length) {
    const side = Math.min(w, height);
    let row = [sizes[i] * scale];
    while (i + row.length < sizes.length) {
      const longer = [...row, sizes[i + row.length] * scale];
      if (worst(longer, side) > worst(row, side)) break;
      row = longer;
    }
    const area = row.reduce((a, b) => a + b, 0);
    const depth = side ? area / side : 0;
    let along = 0;
    for (const each of row) {
      const length = depth ? each / depth : 0;
      found.push(w >= height ? { x, y: y + along, w: depth, h: length } : { x: x + along, y, w: length, h: depth });
      along += length;
    }
    if (w >= height) [x, w] = [x + depth, w - depth];
    else [y, height] = [y + depth, height - depth];
    i += row.length;
  }
  return found;
}

/** @param {number[]} row @param {number} side */
function worst(row, side) {
  const area = row.reduce((a, b) => a + b, 0);
  return Math.max((side ** 2 * Math.max(...row)) / area ** 2, area ** 2 / (side ** 2 * Math.min(...row)));
}

/**
 * Draw the part at a path; a click goes into another.
 * @param {Element} root @param {Part} tree @param {string} path @param {(path: string) => void} go
 */
export function draw(root, tree, path, go) {
  const above = at(tree, path);
  const part = above[above.length - 1];
  const taken = path ? path.split('.').slice(0, above.length - 1) : [];
  const crumbs = h('nav', { class: 'crumbs', 'aria-label': t('breakdown.path') },
    above.map((each, i) => {
      const label = i ? title(each) : t('breakdown.model');
      const last = i === above.length - 1;
      return [i ? h('span', { 'aria-hidden': 'true' }, '›') : null,
        last ? h('span', { 'aria-current': 'true' }, label) : h('button', { type: 'button', class: 'plain', click: () => go(taken.slice(0, i).join('.')) }, label)];
    }),
    h('span', { class: 'dim number' }, `${exact(part.params)}${part === tree ? '' : ` · ${percent(ratio(part.params, tree.params))}`}`));
  const width = Math.max(280, root.clientWidth);
  const height = Math.round(Math.min(340, Math.max(240, width * 0.36)));
  const entries = (part.children ?? []).map((child, index) => ({ child, index })).filter(({ child }) => Number(child.params) > 0)
    .sort((a, b) => Number(b.child.params) - Number(a.child.params));
  const boxes = squarify(entries.map(({ child }) => Number(child.params)), { x: 0, y: 0, w: width, h: height });
  const cells = entries.map(({ child, index }, i) => cell(child, boxes[i], ratio(child.params, tree.params), child.children ? () => go([...taken, index].join('.')) : null));
  const focus = root.contains(document.activeElement);
  put(root, crumbs, svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'treemap', role: 'group', 'aria-label': t('breakdown.label', { name: title(part) }) }, cells));
  if (focus) /** @type {any} */ (root.querySelector('[tabindex="0"], button'))?.focus();
}

/** @param {Part} part @param {Box} box @param {number} share @param {(() => void) | null} enter */
function cell(part, box, share, enter) {
  const name = title(part);
  const label = `${name}: ${exact(part.params)}, ${percent(share)}${part.shape ? `, [${part.shape.join(' × ')}]` : ''}`;
  const lines = [name, `${short(part.params)} · ${percent(share)}`];
  if (part.shape && part.shape.length) lines.push(part.shape.map(exact).join(' × '));
  const room = Math.floor((box.w - 14) / 6.7);
  const rows = Math.floor((box.h - 8) / 16);
  const texts = room >= 5 ? lines.slice(0, Math.max(0, rows)).map((line, i) =>
    svg('text', { x: box.x + 8, y: box.y + 18 + 16 * i, class: i ? 'dim' : 'name' }, line.length > room ? `${line.slice(0, room - 1)}…` : line)) : [];
  const gap = box.w > 4 && box.h > 4 ? 1 : 0.25;
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    enter?.();
  };
  return svg('g', { role: enter ? 'button' : 'img', 'aria-label': label, tabindex: enter ? 0 : null, class: enter ? 'cell into' : 'cell', ...(enter ? { click: enter, keydown: press } : {}) },
    svg('title', {}, label),
    svg('rect', { x: box.x + gap, y: box.y + gap, width: Math.max(0.5, box.w - 2 * gap), height: Math.max(0.5, box.h - 2 * gap), rx: 2, class: `c-${part.component}` }),
    texts);
}
