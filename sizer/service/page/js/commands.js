/** The same question for the command line and for Python. */

import { file, state } from './state.js';

/** `arguments` stand in the place of the model, `more` behind it. @typedef {{ name: string, options: Record<string, string>, arguments?: string[], more?: string[], python?: string }} Command */

/** A word for a shell. @param {string} text */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** What stands for the model: a preset, or the file it came from. */
const target = () => file()?.name ?? (state.config ? 'config.json' : state.model);

/** @param {Command} command */
export function shell(command) {
  const words = ['sizer', command.name, ...(command.arguments ?? [target()]), ...(command.more ?? [])];
  if (!command.arguments && !file()) for (const [field, value] of Object.entries(state.set)) words.push('--set', `${field}=${value}`);
  for (const [key, value] of Object.entries(command.options)) {
    if (value !== '' && value !== undefined) words.push(`--${key.replaceAll('_', '-')}`, value);
  }
  return words.map(quoted).join(' ');
}

/** A number, a truth value or a text as Python writes it. @param {string} text */
const literal = (text) => (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? text : text === 'true' ? 'True' : text === 'false' ? 'False' : JSON.stringify(text));

/** @param {Command} command */
export function python(command) {
  if (file()) return `import sizer\n\nfound = sizer.load_checkpoint(${JSON.stringify(target())})\n`;
  const fields = Object.entries(state.set).map(([field, value]) => `, ${field}=${literal(value)}`).join('');
  const lines = ['import sizer', '', `model = sizer.load(${JSON.stringify(target())}${fields})`, 'print(model.count().total)'];
  if (command.python) {
    const given = Object.entries(command.options).filter(([, value]) => value !== '' && value !== undefined).map(([key, value]) => `${key}=${literal(value)}`);
    lines.push(`print(model.${command.python}(${given.join(', ')}))`);
  }
  return `${lines.join('\n')}\n`;
}
