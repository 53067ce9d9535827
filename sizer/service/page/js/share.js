/** Copy and save what is shown. */

import { ask } from './api.js';
import { $ } from './dom.js';
import { python, shell } from './commands.js';
import { latex } from './formula.js';
import { t } from './i18n.js';
import { address, isWhole } from './state.js';
import { csv, markdown, tablesIn } from './tables.js';

/**
 * @typedef {object} Shown
 * @property {import('./commands.js').Command} command
 * @property {any} document   the answer of the service
 * @property {string} formula
 * @property {string} name
 * @property {Element} panel
 */

/** @type {Record<string, (shown: Shown) => string | Promise<string>>} */
const TEXTS = {
  link: address,
  cli: ({ command }) => shell(command),
  python: ({ command }) => python(command),
  // The page asks for more than the count at once; what is copied is the command's own document.
  json: async ({ command, document: answer }) => (command.name === 'count' ? json(await ask('count')) : answer ? json(answer) : ''),
  markdown: ({ panel }) => markdown(tablesIn(panel)),
  latex: ({ formula }) => (formula ? latex(formula) : ''),
};

/** JSON with large integers as they are. @param {any} value */
function json(value) {
  const mark = '\u0000';
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${mark}${each}` : each), 2).replaceAll(/"\\u0000(-?\d+)"/g, '$1');
}

/** @param {() => Shown} shown */
export function start(shown) {
  for (const button of document.querySelectorAll('[data-copy]')) {
    button.addEventListener('click', async () => {
      const text = await TEXTS[button.getAttribute('data-copy') ?? ''](shown());
      try {
        await navigator.clipboard.writeText(text);
        say(t(!text ? 'copy.nothing' : button.getAttribute('data-copy') === 'link' && !isWhole() ? 'copy.without' : 'copied'));
      } catch {
        $('copy-text').value = text;
        $('copy-dialog').showModal();
        $('copy-text').select();
      }
      close();
    });
  }
  for (const button of document.querySelectorAll('[data-save]')) {
    button.addEventListener('click', async () => {
      const kind = button.getAttribute('data-save') ?? '';
      const { name, panel, command } = shown();
      const file = `${name.replaceAll(/[^\w.-]+/g, '_')}-${command.name}.${kind}`;
      if (kind === 'csv') save(file, new Blob(['\ufeff', csv(tablesIn(panel))], { type: 'text/csv' }));
      else {
        const drawing = /** @type {SVGSVGElement | null} */ (panel.querySelector('svg'));
        if (!drawing) say(t('save.nothing'));
        else if (kind === 'svg') save(file, new Blob([standalone(drawing)], { type: 'image/svg+xml' }));
        else save(file, await png(drawing));
      }
      close();
    });
  }
}

const close = () => $('share').removeAttribute('open');

/** @param {string} text */
export function say(text) {
  $('said').textContent = text;
  $('said').classList.add('shown');
  setTimeout(() => $('said').classList.remove('shown'), 1800);
}

/** @param {string} name @param {Blob} data */
function save(name, data) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const STYLES = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font-family', 'font-size', 'font-weight', 'text-anchor'];

/** A drawing that needs no style sheet. @param {SVGSVGElement} drawing */
function standalone(drawing) {
  const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
  const [from, to] = [[drawing, ...drawing.querySelectorAll('*')], [copy, ...copy.querySelectorAll('*')]];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ['class', 'tabindex', 'role']) to[i].removeAttribute(name);
  });
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  ground.setAttribute('width', '100%');
  ground.setAttribute('height', '100%');
  ground.setAttribute('fill', getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** @param {SVGSVGElement} drawing @returns {Promise<Blob>} */
async function png(drawing) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(drawing))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  const scale = 2;
  [canvas.width, canvas.height] = [image.naturalWidth * scale, image.naturalHeight * scale];
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no picture'))), 'image/png'));
}
