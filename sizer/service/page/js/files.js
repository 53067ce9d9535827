/** Files that are dropped: of weights, only the header is read and sent. */

/** What the service takes as a body, less what a form adds. */
const MOST = 15_900_000;
const FIELDS = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const [STRING, ARRAY] = [8, 9];

/**
 * @typedef {{ config: string } | { name: string, size: number, header: Blob }} Opened
 */

/** A file that cannot be what it says; `key` names the sentence. */
export class BadFile extends Error {
  /** @param {string} key @param {Record<string, any>} values */
  constructor(key, values) {
    super(key);
    this.key = key;
    this.values = values;
  }
}

/** A configuration's text, or the header of a file of weights. @param {File} file @returns {Promise<Opened>} */
export async function open(file) {
  const begin = new DataView(await file.slice(0, 9).arrayBuffer());
  if (begin.byteLength >= 4 && begin.getUint32(0) === 0x47475546) return { name: file.name, size: file.size, header: await gguf(file) };
  if (begin.byteLength === 9 && begin.getUint8(8) === 0x7b && begin.getUint8(0) !== 0x7b) {
    const length = begin.getBigUint64(0, true);
    if (length > BigInt(MOST)) throw new BadFile('file.header', { name: file.name, bytes: length });
    return { name: file.name, size: file.size, header: file.slice(0, 8 + Number(length)) };
  }
  if (file.size > 4_000_000) throw new BadFile('file.kind', { name: file.name });
  const text = await file.text();
  if (!/^\s*\{/.test(text.replace(/^\ufeff/, ''))) throw new BadFile('file.kind', { name: file.name });
  return { config: text.replace(/^\ufeff/, '') };
}

/** The header of a GGUF file: its keys and the list of its tensors; where it is larger, as much as may be sent. @param {File} file */
async function gguf(file) {
  const begin = file.slice(0, MOST);
  try {
    return file.slice(0, headerEnd(new DataView(await begin.arrayBuffer())));
  } catch (error) {
    if (error instanceof RangeError) return begin;
    throw error;
  }
}

/** Where the list of tensors ends. @param {DataView} data */
function headerEnd(data) {
  let at = 24;
  const size = () => {
    const value = data.getBigUint64(at, true);
    if (value > BigInt(data.byteLength)) throw new RangeError('beyond the part that is read');
    at += 8;
    return Number(value);
  };
  const u32 = () => {
    at += 4;
    return data.getUint32(at - 4, true);
  };
  const text = () => {
    const length = size();
    at += length;
  };
  /** @param {number} kind */
  const value = (kind) => {
    if (kind === STRING) text();
    else if (kind === ARRAY) {
      const inner = u32();
      const count = size();
      if (inner === STRING) for (let i = 0; i < count; i++) text();
      else if (FIELDS[inner]) at += FIELDS[inner] * count;
      else throw new RangeError('an array of arrays');
    } else if (FIELDS[kind]) at += FIELDS[kind];
    else throw new RangeError('a kind that there is not');
  };
  const tensors = Number(data.getBigUint64(8, true));
  const keys = Number(data.getBigUint64(16, true));
  if (tensors + keys > data.byteLength) throw new RangeError('more entries than bytes');
  for (let i = 0; i < keys; i++) {
    text();
    value(u32());
  }
  for (let i = 0; i < tensors; i++) {
    text();
    const axes = u32();
    if (axes > 8) throw new RangeError('too many axes');
    at += 8 * axes + 4 + 8;
  }
  if (at > data.byteLength) throw new RangeError('beyond the part that is read');
  return at;
}
