/** The page's words in the reader's language. */

import { en } from './strings/en.js';
import { zh } from './strings/zh.js';
import { state } from './state.js';

/** @type {Record<string, Record<string, string>>} */
const LANGUAGES = { en, zh };

/** The language of the address, or else the browser's. */
export function language() {
  if (state.lang in LANGUAGES) return state.lang;
  return navigator.languages.some((tag) => tag.toLowerCase().startsWith('zh')) && !navigator.language.startsWith('en') ? 'zh' : 'en';
}

/** A string by its key, with values in its `{places}`. @param {string} key @param {Record<string, any>} [values] */
export function t(key, values = {}) {
  const text = LANGUAGES[language()][key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

/** What the service says in English, in the reader's language where that is known. @param {string} text */
export function said(text) {
  const words = LANGUAGES[language()];
  const whole = words[`said.${text}`];
  if (whole) return whole;
  const title = /^Each (\S+?)(?: of the layers (.*))?$/.exec(text);
  if (title) return title[2] ? t('each.layers', { stem: title[1], layers: title[2] }) : t('each', { stem: title[1] });
  return text;
}

/** Put the words into the elements that name a key. @param {ParentNode} root */
export function translate(root) {
  document.documentElement.lang = language() === 'zh' ? 'zh-Hans' : 'en';
  for (const element of root.querySelectorAll('[data-t]')) element.textContent = t(element.getAttribute('data-t') ?? '');
  for (const attribute of ['aria-label', 'placeholder', 'title']) {
    for (const element of root.querySelectorAll(`[data-t-${attribute}]`)) {
      element.setAttribute(attribute, t(element.getAttribute(`data-t-${attribute}`) ?? ''));
    }
  }
}
