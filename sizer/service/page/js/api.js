/** Questions to the service, and its answers with whole numbers kept exact. */

import { file, state } from './state.js';

/** An error with the sentence of the service. */
export class Problem extends Error {
  /** @param {string} detail @param {number} status @param {string[]} nearest */
  constructor(detail, status, nearest = []) {
    super(detail);
    this.status = status;
    this.nearest = nearest;
  }
}

/** Asked where the service wants a token. @type {() => Promise<string | null>} */
let askToken = async () => null;
/** One dialog for all that is refused at once. @param {typeof askToken} ask */
export function onToken(ask) {
  /** @type {Promise<string | null> | null} */
  let asking = null;
  askToken = () => (asking ??= ask().finally(() => (asking = null)));
}

const kept = () => sessionStorage.getItem('token');

/**
 * The document of an endpoint.
 * @param {string} path  below /v1/
 * @param {Record<string, any>} options
 * @param {{ model?: boolean, body?: string, lines?: boolean }} [about]  model: whether it is about the model of the page; body: JSON to send instead; lines: the answer is a line an entry
 * @returns {Promise<any>}
 */
export async function ask(path, options = {}, { model = true, body = '', lines = false } = {}) {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== '' && value !== undefined && value !== null));
  const address = new URL(`v1/${path}`, document.baseURI);
  if (body) return send(address, posted(body), lines);
  if (!model) return send(query(address, given), {}, lines);
  const weights = file();
  if (weights) return send(address, form(weights, given), lines);
  if (state.config) {
    return send(address, posted(`{"model": ${state.config}, ${JSON.stringify({ ...given, set: assignments() }).slice(1)}`), lines);
  }
  return send(query(address, { model: state.model, set: assignments(), ...given }), {}, lines);
}

/** @param {string} body */
const posted = (body) => ({ method: 'POST', body, headers: { 'content-type': 'application/json' } });

/** `n_layers=24`, as on the command line. */
export const assignments = () => Object.entries(state.set).map(([field, value]) => `${field}=${value}`);

/** @param {URL} address @param {Record<string, any>} values */
function query(address, values) {
  for (const [key, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) address.searchParams.append(key, String(each));
  }
  return address;
}

/** @param {{ name: string, size: number, header: Blob }} weights @param {Record<string, any>} options */
function form(weights, options) {
  const body = new FormData();
  body.set('file', weights.header, weights.name);
  body.set('size', String(weights.size));
  for (const [key, value] of Object.entries(options)) body.set(key, String(value));
  return { method: 'POST', body };
}

/** @param {URL} address @param {RequestInit} [init] @param {boolean} [lines] @returns {Promise<any>} */
async function send(address, init = {}, lines = false) {
  const headers = new Headers(init.headers);
  headers.set('accept', 'application/json; integers=both');
  const token = kept();
  if (token) headers.set('authorization', `Bearer ${token}`);
  let response;
  try {
    response = await fetch(address, { ...init, headers });
  } catch {
    throw new Problem('offline', 0);
  }
  if (response.status === 401) {
    if (token !== kept()) return send(address, init, lines);
    const given = await askToken();
    if (given) {
      sessionStorage.setItem('token', given);
      return send(address, init, lines);
    }
  }
  /** @type {any} */
  let document_;
  try {
    document_ = exact(lines && response.ok ? (await response.text()).trim().split('\n').map((line) => JSON.parse(line)) : await response.json());
  } catch {
    throw new Problem(`${response.status} ${response.statusText}`, response.status);
  }
  if (!response.ok) throw new Problem(document_.detail ?? response.statusText, response.status, document_.nearest ?? []);
  return document_;
}

/** Put BigInts where the service sent a large integer as a text beside it. @param {any} value @returns {any} */
function exact(value) {
  if (Array.isArray(value)) return value.map(exact);
  if (value === null || typeof value !== 'object') return value;
  /** @type {Record<string, any>} */
  const found = {};
  for (const [key, item] of Object.entries(value)) {
    if (key.endsWith('_str') && key.slice(0, -4) in value) continue;
    const text = value[`${key}_str`];
    if (typeof text === 'string' && typeof item === 'number') found[key] = BigInt(text);
    else if (Array.isArray(text)) found[key] = text.map((each) => (typeof each === 'string' && /^-?\d+$/.test(each) ? small(each) : each));
    else found[key] = exact(item);
  }
  return found;
}

/** @param {string} text */
const small = (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));
