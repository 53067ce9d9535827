/** The breakdown as a tree: model → layer → module → tensor. */

import { said, t } from './i18n.js';

/**
 * @typedef {object} Part
 * @property {string} label
 * @property {number | bigint} params   of all copies
 * @property {string} component
 * @property {number[]} [times]         copies, where this is a block
 * @property {number[]} [shape]         of a tensor
 * @property {string} [tied]
 * @property {Part[]} [children]
 */

/** Of a model: the sections of its derivation. @param {any} document the answer of `explain` @returns {Part} */
export function ofSections(document) {
  const children = document.sections.map((/** @type {any} */ section) => {
    const names = section.tensors.map((/** @type {any} */ tensor) => tensor.name);
    const cut = section.times.length ? names[0].lastIndexOf('.*.') + 3 : 0;
    const plain = section.title.startsWith('Each') ? cut : 0;
    const copies = section.times.reduce((/** @type {number} */ product, /** @type {number} */ n) => product * n, 1);
    const leaves = section.tensors.map((/** @type {any} */ tensor) => ({ ...leaf(tensor, copies), label: tensor.name.slice(common(names, plain)) }));
    return group(section.title, leaves, { times: section.times, nested: section.times.length > 0 });
  });
  return { label: document.model, params: document.total, component: 'other', children: merged(children) };
}

/** How far names agree from the start, in whole segments, at least `least`. @param {string[]} names @param {number} least */
function common(names, least) {
  return names.every((name) => name.slice(0, least) === names[0].slice(0, least)) ? least : 0;
}

/** Of a file of weights: the segments of its tensors' names. @param {string} model @param {any[]} tensors @returns {Part} */
export function ofTensors(model, tensors) {
  const leaves = tensors.map((tensor) => ({ ...leaf(tensor, tensor.copies ?? 1), label: tensor.name }));
  return { ...branch(model, leaves), label: model };
}

/** @param {any} tensor @param {number} copies @returns {Part} */
const leaf = (tensor, copies) => ({
  label: tensor.name,
  params: times(tensor.tied_to ? 0 : tensor.params, copies),
  component: tensor.component ?? 'other',
  shape: tensor.shape,
  tied: tensor.tied_to ?? undefined,
});

/** @param {number | bigint} value @param {number} copies */
function times(value, copies) {
  const product = BigInt(value) * BigInt(copies);
  return product <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(product) : product;
}

/** @param {Part[]} parts */
const sum = (parts) => {
  const total = parts.reduce((all, { params }) => all + BigInt(params), 0n);
  return total <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(total) : total;
};

/** The component with most of it. @param {Part[]} parts */
function dominant(parts) {
  /** @type {Record<string, number>} */
  const sizes = {};
  for (const { component, params } of parts) sizes[component] = (sizes[component] ?? 0) + Number(params);
  return Object.entries(sizes).sort((a, b) => b[1] - a[1])[0]?.[0] ?? 'other';
}

/** @param {string} title @param {Part[]} leaves @param {{ times: number[], nested: boolean }} about @returns {Part} */
function group(title, leaves, { times: copies, nested }) {
  const children = nested ? byFirst(leaves) : leaves;
  return { label: title, params: sum(leaves), component: dominant(leaves), times: copies, children };
}

/** Tensors of one module under its name. @param {Part[]} leaves @returns {Part[]} */
function byFirst(leaves) {
  /** @type {Map<string, Part[]>} */
  const groups = new Map();
  for (const one of leaves) {
    const [first, ...rest] = one.label.split('.');
    const key = rest.length > 1 ? first : one.label;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups].map(([name, members]) =>
    members.length === 1 ? members[0] : { label: name, params: sum(members), component: dominant(members), children: members.map((one) => ({ ...one, label: one.label.slice(name.length + 1) })) });
}

/** @param {string} name @param {Part[]} leaves @returns {Part} */
function branch(name, leaves) {
  /** @type {Map<string, Part[]>} */
  const groups = new Map();
  for (const one of leaves) {
    const first = one.label.split('.', 1)[0];
    groups.set(first, [...(groups.get(first) ?? []), one]);
  }
  const children = [...groups].map(([first, members]) => {
    if (members.length === 1) return members[0];
    const inner = members.map((one) => ({ ...one, label: one.label.slice(first.length + 1) || one.label }));
    return branch(first, inner);
  });
  if (children.length === 1 && children[0].children) return { ...children[0], label: `${name}.${children[0].label}` };
  return { label: name, params: sum(leaves), component: dominant(leaves), children };
}

/** A section of one tensor is that tensor. @param {Part[]} parts @returns {Part[]} */
const merged = (parts) => parts.filter(({ params }) => Number(params) > 0).flatMap((part) => (part.times?.length ? [part] : part.children ?? []));

/** The part at a path of indices such as `1.0`, and those above it. @param {Part} root @param {string} path @returns {Part[]} */
export function at(root, path) {
  const found = [root];
  for (const index of path ? path.split('.') : []) {
    const next = found[found.length - 1].children?.[Number(index)];
    if (!next?.children) break;
    found.push(next);
  }
  return found;
}

/** The name of a part for people: a block with its copies. @param {Part} part */
export function title(part) {
  if (!part.times?.length) return part.label;
  const stem = /^Each (\S+)/.exec(part.label)?.[1] ?? said(part.label);
  const last = stem.split('.').filter((word) => word !== '*').at(-1) ?? stem;
  return `${last} ${t('times')} ${part.times.join(` ${t('times')} `)}`;
}
