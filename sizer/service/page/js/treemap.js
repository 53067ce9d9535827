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
  const cells = entries.map(({ child, index }, i) => cell(child, boxes[i], tree, [...taken, index].join('.'), go));
  const focus = root.contains(document.activeElement);
  put(root, crumbs, svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'treemap', role: 'group', 'aria-label': t('breakdown.label', { name: title(part) }) }, cells));
  if (focus) /** @type {any} */ (root.querySelector('[tabindex="0"], button'))?.focus();
}

/** The strip of a cell that names it, above what it is made of. */
const STRIP = 40;

/** @param {Part} part @param {Box} box @param {Part} tree @param {string} path @param {(path: string) => void} go */
function cell(part, box, tree, path, go) {
  const share = ratio(part.params, tree.params);
  const name = title(part);
  const label = `${name}: ${exact(part.params)}, ${percent(share)}${part.shape ? `, [${part.shape.join(' × ')}]` : ''}`;
  const gap = box.w > 4 && box.h > 4 ? 1 : 0.25;
  const inside = { x: box.x + gap, y: box.y + gap, w: Math.max(0.5, box.w - 2 * gap), h: Math.max(0.5, box.h - 2 * gap) };
  const nested = part.children && inside.w > 150 && inside.h > 110 ? inner(part, { x: inside.x + 5, y: inside.y + STRIP, w: inside.w - 10, h: inside.h - STRIP - 5 }) : null;
  const rows = Math.floor((inside.h - 6) / 16);
  const lines = [fitted(name, inside.w - 14, true), fitted(`${short(part.params)} · ${percent(share)}`, inside.w - 14, false), part.shape?.length ? fitted(part.shape.map(exact).join(' × '), inside.w - 14, false) : ''];
  const texts = lines.slice(0, Math.max(0, Math.min(rows, nested ? 2 : 3))).map((line, i) => line && svg('text', { x: inside.x + 7, y: inside.y + 17 + 16 * i, class: i ? 'dim' : 'name' }, line));
  const enter = part.children ? () => go(path) : null;
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    enter?.();
  };
  return svg('g', { role: enter ? 'button' : 'img', 'aria-label': label, tabindex: enter ? 0 : null, class: enter ? 'cell into' : 'cell', ...(enter ? { click: enter, keydown: press } : {}) },
    svg('title', {}, label), rect(inside, nested ? 'frame' : `c-${part.component}`), nested, texts);
}

/** @param {Box} box @param {string} name */
const rect = (box, name) => svg('rect', { x: box.x, y: box.y, width: Math.max(0.5, box.w), height: Math.max(0.5, box.h), rx: 2, class: name });

/** What a part is made of, as a picture inside it. @param {Part} part @param {Box} box */
function inner(part, box) {
  const children = (part.children ?? []).filter(({ params }) => Number(params) > 0).sort((a, b) => Number(b.params) - Number(a.params));
  const boxes = squarify(children.map(({ params }) => Number(params)), box);
  return children.map((child, i) => {
    const inset = boxes[i].w > 3 && boxes[i].h > 3 ? 0.75 : 0.2;
    const at = { x: boxes[i].x + inset, y: boxes[i].y + inset, w: boxes[i].w - 2 * inset, h: boxes[i].h - 2 * inset };
    const name = at.h > 22 ? fitted(title(child), at.w - 12, false) : '';
    return [rect(at, `c-${child.component}`), name && svg('text', { x: at.x + 6, y: at.y + 16 }, name),
      name && at.h > 40 && svg('text', { x: at.x + 6, y: at.y + 32, class: 'dim' }, fitted(short(child.params), at.w - 12, false))];
  });
}

const pen = document.createElement('canvas').getContext('2d');
const letters = getComputedStyle(document.documentElement).fontFamily;

/** A text that is no wider than the room: its last segments, or its beginning, or nothing. @param {string} text @param {number} room @param {boolean} bold */
function fitted(text, room, bold) {
  if (!pen || room < 24) return '';
  pen.font = `${bold ? '600 ' : ''}12.5px ${letters}`;
  const fits = (/** @type {string} */ each) => pen.measureText(each).width <= room;
  let shown = text.replace(/\.weight$/, '');
  while (!fits(shown) && /^[^.\s]+\.(?=\w)/.test(shown)) shown = shown.slice(shown.indexOf('.') + 1);
  if (fits(shown)) return shown;
  while (shown.length > 3 && !fits(`${shown}…`)) shown = shown.slice(0, -1);
  return shown.length > 3 ? `${shown}…` : '';
}
