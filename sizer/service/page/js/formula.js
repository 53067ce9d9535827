/** Formulas: the text of the service (`2*V*D + L*(2*D**2 + …)`) read into a tree, and set as MathML or LaTeX. */

import { math } from './dom.js';

/**
 * @typedef {{ kind: 'number' | 'name', text: string }} Leaf
 * @typedef {{ kind: 'sum', terms: { minus: boolean, of: Node_ }[] }} Sum
 * @typedef {{ kind: 'product', over: Node_[], under: Node_[] }} Product
 * @typedef {{ kind: 'power', base: Node_, exponent: Node_ }} Power
 * @typedef {Leaf | Sum | Product | Power} Node_
 */

/** @param {string} text @returns {Node_} */
export function parse(text) {
  const tokens = text.match(/\*\*|[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|[-+*/()]/g) ?? [];
  // What is no token is no part of a formula that can be read, such as a sum over matrices.
  if (tokens.join('') !== text.replaceAll(/\s/g, '')) throw new SyntaxError(`cannot read ${text.slice(0, 80)}`);
  let at = 0;

  /** @returns {Node_} */
  function sum() {
    /** @type {Sum['terms']} */
    const terms = [];
    let minus = tokens[at] === '-';
    if (minus) at++;
    terms.push({ minus, of: product() });
    while (tokens[at] === '+' || tokens[at] === '-') {
      minus = tokens[at++] === '-';
      terms.push({ minus, of: product() });
    }
    return terms.length === 1 && !terms[0].minus ? terms[0].of : { kind: 'sum', terms };
  }

  /** @returns {Node_} */
  function product() {
    const over = [power()];
    /** @type {Node_[]} */
    const under = [];
    while (tokens[at] === '*' || tokens[at] === '/') (tokens[at++] === '*' ? over : under).push(power());
    return over.length === 1 && !under.length ? over[0] : { kind: 'product', over, under };
  }

  /** @returns {Node_} */
  function power() {
    const base = leaf();
    if (tokens[at] !== '**') return base;
    at++;
    return { kind: 'power', base, exponent: leaf() };
  }

  /** @returns {Node_} */
  function leaf() {
    const token = tokens[at++];
    if (token === '(') {
      const inside = sum();
      if (tokens[at++] !== ')') throw new SyntaxError(`no end of a bracket in ${text.slice(0, 80)}`);
      return inside;
    }
    if (token === undefined || /^[-+*/)]/.test(token)) throw new SyntaxError(`cannot read ${text.slice(0, 80)}`);
    return { kind: /^\d/.test(token) ? 'number' : 'name', text: token };
  }

  const found = sum();
  if (at < tokens.length) throw new SyntaxError(`cannot read ${text.slice(0, 80)}`);
  return found;
}

/** A letter and what stands below it: `Dh_txt` is D with h, txt. @param {string} name @returns {[string, string]} */
function parts(name) {
  const [first, ...rest] = name.split('_');
  return [first[0], [first.slice(1), ...rest].filter(Boolean).join(',')];
}

/** A symbol as MathML. @param {string} name @returns {Element} */
export function symbol(name) {
  const [letter, below] = parts(name);
  const main = math('mi', {}, letter);
  if (!below) return main;
  return math('msub', {}, main, math('mtext', {}, below));
}

/** @param {Node_} node @returns {Element[]} */
function row(node) {
  switch (node.kind) {
    case 'number':
      return [math('mn', {}, node.text.replace(/\B(?=(\d{3})+(?!\d))/g, ','))];
    case 'name':
      return [symbol(node.text)];
    case 'power':
      return [math('msup', {}, grouped(node.base), math('mrow', {}, row(node.exponent)))];
    case 'product': {
      const [number, over] = node.over[0].kind === 'number' && node.under.length && node.over.length > 1 ? [node.over[0], node.over.slice(1)] : [null, node.over];
      if (!node.under.length) return juxtaposed(over);
      const fraction = math('mfrac', {}, math('mrow', {}, juxtaposed(over)), math('mrow', {}, juxtaposed(node.under)));
      return number ? [...row(number), thin(), fraction] : [fraction];
    }
    case 'sum':
      return node.terms.flatMap(({ minus, of }, i) => [...(i || minus ? [math('mo', {}, minus ? '−' : '+')] : []), ...row(of)]);
  }
}

const thin = () => math('mspace', { width: '0.05em' });

/** @param {Node_} node */
const grouped = (node) => math('mrow', {}, node.kind === 'sum' || node.kind === 'product' ? bracketed(node) : row(node));

/** @param {Node_} node */
const bracketed = (node) => [math('mo', { stretchy: 'false' }, '('), ...row(node), math('mo', { stretchy: 'false' }, ')')];

/** @param {Node_[]} factors */
const juxtaposed = (factors) =>
  factors.flatMap((factor, i) => {
    const times = i && factor.kind === 'number' ? math('mo', {}, '·') : thin();
    return [...(i ? [times] : []), ...(factor.kind === 'sum' || (i && factor.kind === 'product') ? bracketed(factor) : row(factor))];
  });

/** A formula as one `<math>`. @param {string} text @returns {Element} */
export function set(text) {
  return math('math', {}, math('mrow', {}, row(parse(text))));
}

/** A formula as pieces that a line may break between. @param {string} text @returns {Element[]} */
export function pieces(text) {
  const tree = parse(text);
  const terms = tree.kind === 'sum' ? tree.terms : [{ minus: false, of: tree }];
  /** @type {Element[]} */
  const found = [];
  terms.forEach(({ minus, of }, i) => {
    const sign = i || minus ? [operator(minus)] : [];
    const last = of.kind === 'product' && !of.under.length ? of.over.at(-1) : null;
    if (of.kind === 'product' && last?.kind === 'sum' && last.terms.length > 2) {
      const before = [...sign, ...juxtaposed(of.over.slice(0, -1)), math('mo', { stretchy: 'false' }, '(')];
      last.terms.forEach((inner, j) => {
        const begin = j ? [operator(inner.minus)] : inner.minus ? [...before, operator(true)] : before;
        const end = j === last.terms.length - 1 ? [math('mo', { stretchy: 'false' }, ')')] : [];
        found.push(math('math', { displaystyle: 'true' }, math('mrow', {}, begin, row(inner.of), end)));
      });
    } else found.push(math('math', { displaystyle: 'true' }, math('mrow', {}, sign, row(of))));
  });
  return found;
}

/** @param {boolean} minus */
const operator = (minus) => math('mo', { form: 'infix' }, minus ? '−' : '+');

/** A formula as LaTeX. @param {string} text */
export const latex = (text) => written(parse(text));

/** @param {Node_} node @returns {string} */
function written(node) {
  switch (node.kind) {
    case 'number':
      return node.text;
    case 'name': {
      const [letter, below] = parts(node.text);
      return below ? `${letter}_{\\mathrm{${below}}}` : letter;
    }
    case 'power':
      return `${node.base.kind === 'sum' || node.base.kind === 'product' ? `\\left(${written(node.base)}\\right)` : written(node.base)}^{${written(node.exponent)}}`;
    case 'product':
      return node.under.length ? `\\frac{${factors(node.over)}}{${factors(node.under)}}` : factors(node.over);
    case 'sum':
      return node.terms.map(({ minus, of }, i) => `${minus ? '- ' : i ? '+ ' : ''}${written(of)}`).join(' ');
  }
}

/** @param {Node_[]} nodes */
const factors = (nodes) =>
  nodes.map((node, i) => (node.kind === 'sum' || (i && node.kind === 'product') ? `\\left(${written(node)}\\right)` : `${i && node.kind === 'number' ? '\\cdot ' : ''}${written(node)}`)).join(' ');
