/** What the page shows. It is all in the address, so a link shares it. */

/**
 * @typedef {object} State
 * @property {string} model      a preset, where there is no configuration
 * @property {string} config     the text of a config.json
 * @property {Record<string, string>} set  fields that differ from the model's
 * @property {string} tab
 * @property {Record<string, string>} options  `memory.batch_size` → `8`
 * @property {string} lang
 * @property {string} theme      auto, light or dark
 */

export const TABS = ['params', 'memory', 'fit', 'serve', 'train', 'sweep', 'compare', 'design', 'reconcile'];
/** A longer configuration is not put into the address. */
const MOST_ADDRESS = 24_000;
/** What a configuration from an address may unfold to. */
const MOST_TEXT = 4_000_000;

/** @returns {State} */
const first = () => ({ model: 'llama-3-8b', config: '', set: {}, tab: 'params', options: {}, lang: '', theme: '' });

/** @type {State} */
export const state = first();

/** A file of weights: its header, which is in no address. @type {{ name: string, size: number, header: Blob } | null} */
let weights = null;
export const file = () => weights;

/** @type {((changed: Set<string>) => void)[]} */
const listeners = [];

/** @param {(changed: Set<string>) => void} listener */
export const onChange = (listener) => void listeners.push(listener);

/** Change some of it, and say so. @param {Partial<State> & { file?: typeof weights }} patch */
export function update(patch) {
  const changed = new Set(Object.keys(patch));
  if ('file' in patch) weights = patch.file ?? null;
  else if ('model' in patch || 'config' in patch) {
    weights = null;
    changed.add('file');
  }
  if (changed.has('file') && state.options['params.path']) {
    // A place in another model.
    const { 'params.path': __, ...options } = patch.options ?? state.options;
    patch = { ...patch, options };
  }
  const { file: _, ...rest } = patch;
  Object.assign(state, rest);
  for (const listener of listeners) listener(changed);
  clearTimeout(due);
  due = setTimeout(() => void write(), PAUSE);
}

/** Browsers bound how often an address may change, and ask for the icon again at each change. */
const PAUSE = 150;
let due = 0;

/** The address of what is shown now. */
export async function address() {
  clearTimeout(due);
  await write();
  return location.href;
}

/** @param {string} key `memory.batch_size` @param {string | null} value  null: as it is unless said */
export function setOption(key, value) {
  const options = { ...state.options };
  if (value === null) delete options[key];
  else options[key] = value;
  update({ options });
}

/** @param {string} field @param {string} value */
export function setField(field, value) {
  const set = { ...state.set };
  if (value === '') delete set[field];
  else set[field] = value;
  update({ set });
}

let own = '';
let turn = 0;

async function write() {
  const mine = ++turn;
  const pairs = new URLSearchParams();
  if (weights) pairs.set('file', weights.name);
  else if (state.config) {
    const packed = await pack(state.config);
    if (mine !== turn) return;
    if (packed.length <= MOST_ADDRESS) pairs.set('config', packed);
    else pairs.set('file', 'config.json');
  } else pairs.set('model', state.model);
  for (const [field, value] of Object.entries(state.set)) pairs.set(`set.${field}`, value);
  if (state.tab !== 'params') pairs.set('tab', state.tab);
  for (const [key, value] of Object.entries(state.options)) pairs.set(key, value);
  if (state.lang) pairs.set('lang', state.lang);
  if (state.theme) pairs.set('theme', state.theme);
  own = `#${pairs}`;
  history.replaceState(null, '', own);
}

/** The file of an address, which it cannot hold. */
let left = '';
export const leftOut = () => left;

/** Whether the address says all that is shown. */
export const isWhole = () => !weights && (!state.config || own.includes('config='));

/** Read the address; what it does not say is as at first. @returns {Promise<void>} */
export async function read() {
  const pairs = new URLSearchParams(location.hash.slice(1));
  const found = first();
  for (const [key, value] of pairs) {
    if (key === 'model') found.model = value;
    else if (key === 'tab' && TABS.includes(value)) found.tab = value;
    else if (key === 'lang' && ['en', 'zh'].includes(value)) found.lang = value;
    else if (key === 'theme' && ['light', 'dark'].includes(value)) found.theme = value;
    else if (key.startsWith('set.')) found.set[key.slice(4)] = value;
    else if (/^[a-z]+\.[a-z_]+$/.test(key)) found.options[key] = value;
  }
  left = pairs.get('file') ?? '';
  const packed = pairs.get('config');
  if (packed) found.config = await unpack(packed).catch(() => '{}');
  Object.assign(state, found);
}

/** Listen to addresses that somebody else writes: a link, the back button. */
export function follow() {
  addEventListener('hashchange', async () => {
    if (location.hash === own) return;
    await read();
    weights = null;
    for (const listener of listeners) listener(new Set(['model', 'config', 'file', 'set', 'tab', 'options', 'lang', 'theme']));
  });
}

/** @param {string} text */
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const data = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = '';
  for (const byte of data) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** @param {string} packed */
async function unpack(packed) {
  const data = Uint8Array.from(atob(packed.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0));
  const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += decoder.decode(part.value, { stream: true });
    if (text.length > MOST_TEXT) throw new Error('too long');
  }
  return text;
}
