/** Serving: the least time of a prefill and of a step of decoding, and the users that a target leaves. */

import { h, put } from '../dom.js';
import { ask } from '../api.js';
import { t } from '../i18n.js';
import { bytes, exact, figures, scientific } from '../numbers.js';
import { rate, roofline } from '../plots.js';
import { table } from '../tables.js';
import { notes, tiles } from './notes.js';

export const id = 'serve';
/** @type {import('../form.js').Field[]} */
export const fields = [
  { key: 'on', kind: 'hardware', def: 'h100-sxm5-80gb', store: 'run.on' },
  { key: 'gpus', def: '1' },
  { key: 'batch_size', def: '1' },
  { key: 'seq_len', def: '4096', store: 'run.seq_len' },
  { key: 'dtype', kind: 'select', def: 'bf16', choices: ['bf16', 'fp16', 'fp8', 'int8', 'int4'] },
  { key: 'kv_dtype', kind: 'select', def: '', choices: ['', 'bf16', 'fp8', 'int8'] },
  { key: 'inter_token', def: '50' },
];

/** @param {Record<string, string>} options */
export async function load(options) {
  const found = await ask('roofline', options);
  return { found, document: found };
}

/** @param {any} pass */
const moved = (pass) => Number(pass.weight_bytes) + Number(pass.cache_bytes);

/** @param {Element} root @param {any} data */
export function draw(root, { found }) {
  const { prefill, decode } = found.passes;
  const points = Object.entries(found.passes).map(([name, pass]) => {
    const { flops, seconds } = /** @type {any} */ (pass);
    return { name: t(`serve.${name}`), intensity: Number(flops) / moved(pass), rate: Number(flops) / seconds };
  });
  const [peak, bandwidth] = [Number(decode.flops) / decode.compute_seconds, moved(decode) / decode.memory_seconds];
  const limit = (/** @type {string} */ what) => t(`serve.limit.${what}`);
  const rows = Object.entries(found.passes).map(([name, pass]) => [name, /** @type {any} */ (pass)]);
  put(root,
    tiles([
      [t('serve.rate'), figures(decode.tokens_per_second), t('serve.all')],
      [t('serve.token'), `${figures(decode.seconds * 1e3)} ms`, limit(decode.limit)],
      [t('serve.first'), spell(prefill.seconds), limit(prefill.limit)],
      ...(found.users === null || found.users === undefined ? [] : [/** @type {[string, any, string]} */ ([t('serve.users', { ms: found.inter_token_ms }), exact(found.users), found.users ? limit(found.users_limit) : t('serve.none')])]),
    ]),
    roofline(Math.max(280, root.clientWidth), { peak, bandwidth, points }, {
      x: t('serve.intensity'), y: 'FLOP/s', ridge: t('serve.ridge', { value: figures(peak / bandwidth) }),
      label: `${t('serve.picture', { name: found.accelerator, peak: rate(peak) })}; ${points.map((p) => `${p.name}: ${figures(p.intensity)}, ${rate(p.rate)}`).join('; ')}`,
    }),
    table({
      caption: t('serve.table'), hide: true, numbers: [1, 2, 3, 4, 5],
      headers: [t('serve.pass'), t('design.tokens'), 'FLOPs', t('serve.read'), t('serve.compute'), t('serve.memory'), t('serve.bound')],
      rows: rows.map(([name, pass]) => [t(`serve.${name}`), exact(pass.tokens), scientific(Number(pass.flops)), bytes(moved(pass)), spell(pass.compute_seconds), spell(pass.memory_seconds), limit(pass.limit)]),
      raw: rows.map(([name, pass]) => [name, pass.tokens, pass.flops, moved(pass), pass.compute_seconds, pass.memory_seconds, pass.limit]),
    }),
    h('p', { class: 'dim small' }, t('serve.label')), notes([found]));
}

/** @param {number} seconds */
const spell = (seconds) => (seconds < 1 ? `${figures(seconds * 1e3)} ms` : `${figures(seconds)} s`);

/** @param {Record<string, string>} options @returns {import('../commands.js').Command} */
export const command = (options) => ({ name: 'roofline', options });
