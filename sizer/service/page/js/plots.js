/** Pictures with two axes: lines over a grid, and the roofline. */

import { svg } from './dom.js';
import { figures } from './numbers.js';

/** @typedef {{ least: number, most: number, log: boolean, at: (value: number) => number, ticks: number[] }} Scale */
/** @typedef {{ name: string, points: [number, number][] }} Series */

const ROOM = { left: 66, right: 18, top: 30, bottom: 46 };
const HEIGHT = 320;
const MARKS = /** @type {const} */ (['circle', 'square', 'diamond', 'triangle', 'cross', 'ring']);

/** A scale from least to most over a length; logarithmic where it spans much. @param {number[]} values @param {number} from @param {number} to @param {boolean} [log] @returns {Scale} */
export function scale(values, from, to, log = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 40) {
  let [least, most] = [Math.min(...values), Math.max(...values)];
  if (!log) least = Math.min(0, least);
  if (least === most) most = log ? least * 2 : least + 1;
  const place = (/** @type {number} */ value) => (log ? Math.log(value) : value);
  const at = (/** @type {number} */ value) => from + ((place(value) - place(least)) / (place(most) - place(least))) * (to - from);
  return { least, most, log, at, ticks: log ? powers(least, most, values.every((value) => Number.isInteger(Math.log2(value / least)))) : steps(least, most) };
}

/** Round values, about five of them. @param {number} least @param {number} most */
function steps(least, most) {
  const rough = (most - least) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  return Array.from({ length: Math.floor(most / step + 1e-9) - Math.ceil(least / step - 1e-9) + 1 }, (_, i) => (Math.ceil(least / step - 1e-9) + i) * step);
}

/** Powers of ten with what stands between them, or doublings where the values are. @param {number} least @param {number} most @param {boolean} doubled */
function powers(least, most, doubled) {
  if (doubled) return Array.from({ length: Math.round(Math.log2(most / least)) + 1 }, (_, i) => least * 2 ** i).filter((_, i, all) => i % Math.ceil(all.length / 8) === 0);
  if (most / least < 2000) {
    const first = Math.floor(Math.log10(least));
    const all = Array.from({ length: Math.ceil(Math.log10(most)) - first + 1 }, (_, i) => [1, 2, 5].map((each) => each * 10 ** (first + i))).flat();
    return all.filter((each) => each >= least && each <= most);
  }
  const base = 10;
  const [first, last] = [Math.ceil(Math.log(least) / Math.log(base) - 1e-9), Math.floor(Math.log(most) / Math.log(base) + 1e-9)];
  const every = Math.ceil((last - first + 1) / 8);
  return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, i) => base ** (first + i * every));
}

/** The frame: rules, numbers at them, and what the axes are. @param {number} width @param {Scale} x @param {Scale} y @param {{ x: string, y: string, xText: (n: number) => string, yText: (n: number) => string }} said */
function frame(width, x, y, said) {
  const [right, bottom] = [width - ROOM.right, HEIGHT - ROOM.bottom];
  return [
    y.ticks.map((tick) => [
      svg('line', { class: 'grid', x1: ROOM.left, x2: right, y1: y.at(tick), y2: y.at(tick) }),
      svg('text', { class: 'dim', x: ROOM.left - 8, y: y.at(tick) + 4, 'text-anchor': 'end' }, said.yText(tick))]),
    x.ticks.map((tick) => [
      svg('line', { class: 'grid', x1: x.at(tick), x2: x.at(tick), y1: bottom, y2: bottom + 5 }),
      svg('text', { class: 'dim', x: x.at(tick), y: bottom + 19, 'text-anchor': 'middle' }, said.xText(tick))]),
    svg('text', { x: 0, y: 15 }, said.y),
    svg('text', { x: right, y: HEIGHT - 6, 'text-anchor': 'end' }, said.x),
  ];
}

/** A mark whose form tells the series apart without its colour. @param {number} i @param {number} x @param {number} y */
function mark(i, x, y) {
  const about = { class: `s-${i % MARKS.length}` };
  switch (MARKS[i % MARKS.length]) {
    case 'circle': return svg('circle', { ...about, cx: x, cy: y, r: 4 });
    case 'square': return svg('rect', { ...about, x: x - 3.5, y: y - 3.5, width: 7, height: 7 });
    case 'diamond': return svg('path', { ...about, d: `M${x} ${y - 5}l5 5-5 5-5-5z` });
    case 'triangle': return svg('path', { ...about, d: `M${x} ${y - 5}l5 9h-10z` });
    case 'cross': return svg('path', { ...about, d: `M${x - 4} ${y - 4}l8 8m0-8l-8 8`, fill: 'none' });
    default: return svg('circle', { ...about, cx: x, cy: y, r: 4, 'fill-opacity': 0 });
  }
}

/**
 * Lines through points, one a series.
 * @param {number} width @param {Series[]} series
 * @param {{ x: string, y: string, xText: (n: number) => string, yText: (n: number) => string, label: string }} said
 */
export function lines(width, series, said) {
  const all = series.flatMap(({ points }) => points);
  const x = scale(all.map(([value]) => value), ROOM.left + 6, width - ROOM.right, undefined);
  const y = scale(all.map(([, value]) => value), HEIGHT - ROOM.bottom, ROOM.top);
  let at = ROOM.left + 90;
  const key = series.length < 2 ? [] : series.slice(0, 8).map(({ name }, i) => {
    const here = at;
    at += 30 + name.length * 7;
    return at < width ? [mark(i, here, 11), svg('text', { x: here + 9, y: 15 }, name)] : null;
  });
  return svg('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: 'plot', role: 'img', 'aria-label': said.label },
    frame(width, x, y, said),
    series.map(({ name, points }, i) => svg('g', {},
      svg('path', { class: `line s-${i % MARKS.length}`, fill: 'none', d: points.map(([a, b], j) => `${j ? 'L' : 'M'}${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join('') }),
      points.map(([a, b]) => svg('g', {}, svg('title', {}, `${name ? `${name}: ` : ''}${said.xText(a)} → ${said.yText(b)}`), mark(i, x.at(a), y.at(b)))))),
    key);
}

/**
 * The roofline (Williams, Waterman and Patterson 2009): FLOP/s against FLOPs a byte.
 * @param {number} width @param {{ peak: number, bandwidth: number, points: { name: string, intensity: number, rate: number }[] }} of
 * @param {{ x: string, y: string, ridge: string, label: string }} said
 */
export function roofline(width, { peak, bandwidth, points }, said) {
  const ridge = peak / bandwidth;
  const across = [...points.map(({ intensity }) => intensity), ridge];
  const x = scale([Math.min(...across) / 4, Math.max(...across) * 6], ROOM.left + 6, width - ROOM.right, true);
  const y = scale([bandwidth * x.least, peak * 3], HEIGHT - ROOM.bottom, ROOM.top, true);
  const [corner, top] = [x.at(ridge), y.at(peak)];
  return svg('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: 'plot', role: 'img', 'aria-label': said.label },
    frame(width, x, y, { ...said, xText: figures, yText: rate }),
    svg('line', { class: 'grid', x1: corner, x2: corner, y1: top, y2: HEIGHT - ROOM.bottom }),
    svg('path', { class: 'line roof', fill: 'none', d: `M${x.at(x.least)} ${y.at(bandwidth * x.least)}L${corner} ${top}L${x.at(x.most)} ${top}` }),
    svg('text', { class: 'dim', x: corner + 6, y: HEIGHT - ROOM.bottom - 8 }, said.ridge),
    points.map((point, i) => {
      const [px, py] = [x.at(point.intensity), y.at(point.rate)];
      const end = px > width * 0.7;
      return svg('g', {}, svg('title', {}, `${point.name}: ${figures(point.intensity)} → ${rate(point.rate)}`), mark(i, px, py),
        svg('text', { class: 'name', x: px + (end ? -9 : 9), y: py + 16, 'text-anchor': end ? 'end' : 'start' }, point.name));
    }));
}

const RATES = /** @type {[number, string][]} */ ([[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M']]);

/** FLOP/s in steps of a thousand: 989 T. @param {number} value */
export function rate(value) {
  const [size, unit] = RATES.find(([each]) => value >= each) ?? [1, ''];
  return `${figures(value / size)} ${unit}`.trim();
}
