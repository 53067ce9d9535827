/** The page: what changed is asked for anew, and drawn. */

import { ask, onToken, Problem } from './api.js';
import { $, add, h, put } from './dom.js';
import { BadFile, open as openFile } from './files.js';
import * as form from './form.js';
import * as headline from './headline.js';
import { language, t, translate } from './i18n.js';
import * as picker from './picker.js';
import * as share from './share.js';
import * as sliders from './sliders.js';
import { file, follow, leftOut, onChange, read, state, TABS, update } from './state.js';
import * as params from './tabs/params.js';

/** The tabs that were opened; the others are not read before. @type {Record<string, any>} */
const panels = { params };

/** The last answers: of the model, and of the tab. @type {Record<string, any>} */
const answers = { model: null, tab: null };

/** Ask with one question under way and the newest next: what is typed meanwhile is not asked for. @param {() => Promise<void>} work */
function newest(work) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await work();
      }
    } finally {
      running = false;
    }
  };
}

/** Whether the page still shows what was asked for. @type {() => string} */
const asked = () => JSON.stringify([state.model, state.config, state.set, file()?.name]);

const model = newest(async () => {
  const question = asked();
  const begun = performance.now();
  try {
    if (state.config) checkJson(state.config);
    const data = await params.load();
    if (question !== asked()) return;
    answers.model = data;
    if (state.tab === 'params') params.draw($('panel-params'), data);
    headline.numbers(data.count);
    headline.formula(data.explained?.formula ?? null);
    fail('');
    if (data.formula) await sliders.show(data.formula.values, data.formula.legend);
    else put($('sliders'));
    performance.measure('update', { start: begun });
  } catch (error) {
    if (question !== asked()) return;
    const text = sentence(error);
    // A link to sizes that do not go together: show them, so that one can be changed.
    if (Object.keys(state.set).length && !$('sliders').firstChild) await sliders.show(null, {}).catch(() => {});
    fail(text);
  }
});

const tab = newest(async () => {
  const name = state.tab;
  const panel = (panels[name] ??= await import(`./tabs/${name}.js`));
  if (state.tab !== name) return;
  if (panel === params) {
    if (answers.model) params.draw($('panel-params'), answers.model);
    return;
  }
  const root = $(`panel-${state.tab}`);
  const [box, out, slot] = [root.querySelector('.form'), root.querySelector('.answer'), root.querySelector('.problem')];
  if (root.dataset.lang !== language()) {
    root.dataset.lang = language();
    form.draw(box, name, panel.fields);
  }
  form.refresh(name, panel.fields);
  const options = form.options(name, panel.fields);
  const question = asked() + name + JSON.stringify(options);
  const current = () => state.tab === name && asked() + name + JSON.stringify(form.options(name, panel.fields)) === question;
  try {
    if (file()) throw new Problem(t('file.only'), 0);
    const data = await panel.load(options);
    if (!current()) return;
    answers.tab = { name, document: data.document };
    form.fail(name, panel.fields, '');
    slot.hidden = true;
    out.classList.remove('stale');
    panel.draw(out, data, options);
  } catch (error) {
    if (!current()) return;
    const text = sentence(error);
    form.fail(name, panel.fields, text);
    put(slot, text);
    slot.hidden = false;
    out.classList.add('stale');
  }
});

/** @param {unknown} error */
function sentence(error) {
  if (error instanceof BadFile) return t(error.key, error.values);
  if (error instanceof Problem) return error.message === 'offline' ? t('offline') : error.message;
  if (error instanceof SyntaxError) return t('config.json', { why: error.message });
  throw error;
}

/** @param {string} text */
function checkJson(text) {
  const value = JSON.parse(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new SyntaxError(t('config.object'));
}

/** Say what is wrong, beside the size that was changed or below the model. @param {string} text */
function fail(text) {
  const beside = sliders.fail(text);
  const slot = $('problem');
  put(slot, beside ? '' : text);
  slot.hidden = beside || !text;
  $('answer').classList.toggle('stale', Boolean(text));
}

function show() {
  for (const name of TABS) {
    const chosen = name === state.tab;
    const button = $(`tab-${name}`);
    button.setAttribute('aria-selected', String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    $(`panel-${name}`).hidden = !chosen;
    // On a phone the row of tabs is wider than the screen.
    if (chosen) button.parentElement.scrollLeft = button.offsetLeft - (button.parentElement.clientWidth - button.offsetWidth) / 2;
  }
}

function look() {
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
  const dark = state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  $('theme').setAttribute('aria-pressed', String(dark));
  $('lang').value = language();
}

/** @param {File} dropped */
async function take(dropped) {
  try {
    const found = await openFile(dropped);
    if ('config' in found) {
      $('config').value = found.config;
      update({ config: found.config, set: {}, file: null });
    } else update({ file: found, config: '', set: {}, tab: 'params' });
  } catch (error) {
    fail(sentence(error));
  }
}

function listen() {
  for (const name of TABS) {
    const button = $(`tab-${name}`);
    button.addEventListener('click', () => update({ tab: name }));
    button.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1, Home: -TABS.indexOf(name), End: TABS.length - 1 - TABS.indexOf(name) }[event.key];
      if (way === undefined) return;
      event.preventDefault();
      const next = TABS[(TABS.indexOf(name) + way + TABS.length) % TABS.length];
      update({ tab: next });
      $(`tab-${next}`).focus();
    });
  }
  $('config').addEventListener('input', () => update({ config: $('config').value.trim(), set: {}, file: null }));
  $('file').addEventListener('change', () => $('file').files[0] && take($('file').files[0]));
  $('reset').addEventListener('click', () => sliders.reset());
  $('lang').addEventListener('change', () => update({ lang: $('lang').value }));
  $('theme').addEventListener('click', () => update({ theme: $('theme').getAttribute('aria-pressed') === 'true' ? 'light' : 'dark' }));
  addEventListener('dragover', (event) => {
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  addEventListener('dragleave', (event) => event.relatedTarget === null && document.body.classList.remove('dropping'));
  addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    const dropped = event.dataTransfer?.files[0];
    if (dropped) void take(dropped);
  });
  addEventListener('click', (event) => !$('share').contains(event.target) && $('share').removeAttribute('open'));
  addEventListener('keydown', (event) => event.key === 'Escape' && $('share').removeAttribute('open'));
  let width = innerWidth;
  addEventListener('resize', () => {
    if (width !== innerWidth) void tab();
    width = innerWidth;
  });
  onToken(() => new Promise((resolve) => {
    const dialog = $('token-dialog');
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'ok' ? $('token').value : null), { once: true });
    dialog.showModal();
  }));
}

/** Whether the lists that forms are made of are here. */
let ready = false;

/** @param {Set<string>} changed */
function changed(changed) {
  if (changed.has('lang')) {
    translate(document);
    for (const name of TABS) delete $(`panel-${name}`).dataset.lang;
    $('formula').dataset.text = '';
  }
  if (changed.has('lang') || changed.has('theme')) look();
  if (changed.has('tab')) show();
  if (changed.has('model') || changed.has('config') || changed.has('file')) {
    picker.refresh();
    if (document.activeElement !== $('config')) $('config').value = state.config;
    $('file-name').textContent = file()?.name ?? '';
  }
  $('reset').hidden = !Object.keys(state.set).length;
  const sizes = ['model', 'config', 'file', 'set', 'lang'].some((key) => changed.has(key));
  if (sizes) void model();
  if (sizes ? ready && state.tab !== 'params' : changed.has('tab') || changed.has('options')) void (state.tab === 'params' || ready ? tab() : null);
}

async function start() {
  await read();
  if (innerWidth < 860) $('sizes').open = false;
  for (const name of TABS.slice(1)) {
    add($(`panel-${name}`), [h('div', { class: 'form' }), h('p', { class: 'error problem', role: 'alert', hidden: true }), h('div', { class: 'answer' })]);
  }
  listen();
  onChange(changed);
  follow();
  translate(document);
  show();
  look();
  picker.refresh();
  $('config').value = state.config;
  $('reset').hidden = !Object.keys(state.set).length;
  // The answer first; the lists after it.
  await model();
  if (leftOut()) fail(t('file.again', { name: leftOut() }));
  share.start(() => ({
    command: panels[state.tab].command(form.options(state.tab, panels[state.tab].fields)),
    document: (state.tab === 'params' ? answers.model : answers.tab?.name === state.tab ? answers.tab : null)?.document,
    formula: answers.model?.explained?.formula ?? '',
    name: answers.model?.count.model ?? state.model,
    panel: $(`panel-${state.tab}`),
  }));
  const cards = ask('hardware', {}, { model: false }).then((found) => form.setHardware(found.hardware));
  await Promise.all([picker.start(), cards]).catch((error) => fail(sentence(error)));
  if (state.tab !== 'params') await tab();
  ready = true;
  document.documentElement.dataset.ready = 'yes';
}

void start();
