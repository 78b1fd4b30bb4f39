// The recording inside the page. A block is base64 of deflated bytes: the length of a JSON text, the
// JSON text, and the bytes that it refers to. src/export/html/block.rs writes them.

// A byte order mark is a part of a text, so it is kept.
const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

/** Opens a block: its JSON as an object, and the bytes behind it. */
async function openBlock(base64) {
  const text = atob(base64), packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  return { json: JSON.parse(DECODER.decode(bytes.subarray(4, 4 + length))), bytes: bytes.subarray(4 + length) };
}

/** A value of a column. A column whose values are all the same has one. */
const valueAt = (column, index) => column[column.length === 1 ? 0 : index];

/** The items of a table. src/export/html/columns.rs writes it: each member of the items is a column. */
function itemsOf({ length, columns }) {
  const items = Array.from({ length }, () => ({}));
  for (const [name, column] of Object.entries(columns)) {
    items.forEach((item, index) => {
      const value = valueAt(column, index);
      if (value !== null) item[name] = value;
    });
  }
  return items;
}

/** The messages of a block of details: their rows, their places in the columns, and where their bytes begin. */
function messagesOf({ json, bytes }, from) {
  const counts = json.shapes.map(() => 0);
  let row = from, base = 0;
  return json.rows.map((distance, at) => {
    const shape = json.shapes[json.shape[at]], index = counts[json.shape[at]]++;
    const message = { row: (row += distance), base, shape, index, bytes };
    base += json.sizes[at];
    return message;
  });
}

/** The blocks of details that stay open. One has about a megabyte. */
const OPEN_BLOCKS = 8;

/** A session: its facts, the rows of its timeline, and its messages with layers and bytes. */
class Session {
  constructor(number) {
    this.number = number;
    this.facts = null;
    this.rows = [];
    this.exchanges = [];
    this.exchangeOf = new Map();
    this.findings = [];
    this.manuals = {};
    this.detailBlocks = [];
    this.open = new Map();
    this.texts = Promise.resolve([]);
    this.textBlocks = 0;
    this.rowOfMessage = new Map();
  }

  /** Adds a block that the page holds. The blocks of rows come in order. */
  async add(kind, from, base64) {
    if (kind === 'details') {
      this.detailBlocks.push({ from, base64 });
      return;
    }
    const { json } = await openBlock(base64);
    if (kind === 'session') this.facts = json;
    // A page that follows a recording gets an exchange again when it changed, and all findings when one is new.
    if (kind === 'exchanges') {
      for (const exchange of itemsOf(json)) {
        const known = this.exchangeOf.get(exchange.number);
        if (known) Object.assign(known, exchange);
        else this.exchanges.push(exchange);
        this.exchangeOf.set(exchange.number, known ?? exchange);
      }
    }
    if (kind === 'findings') {
      if (from === 0) this.findings = [];
      for (const finding of itemsOf(json)) {
        if (finding.manual) this.manuals[finding.rule] = finding.manual;
        this.findings.push(finding);
      }
    }
    if (kind === 'rows') {
      for (const row of itemsOf(json)) {
        row.position = this.rows.length;
        if (row.number !== undefined) this.rowOfMessage.set(row.number, row);
        this.rows.push(row);
        const asked = this.rowOfMessage.get(row.answers);
        if (asked && asked.partner === undefined) Object.assign(asked, { partner: row.number, took: row.took });
        const waited = this.rowOfMessage.get(row.request);
        if (waited) Object.assign(waited, { outcome: 'unanswered', mark: '◌', until: row.at });
      }
    }
  }

  /** The row of a message, by its number. */
  row(number) {
    return this.rowOfMessage.get(number);
  }

  /** Opens the block with the details of a row, or takes it from the ones that are open. */
  async details(index) {
    let block = this.open.get(index);
    if (!block) {
      const { base64, from } = this.detailBlocks[index];
      block = openBlock(base64).then((opened) => messagesOf(opened, from));
      this.open.set(index, block);
      if (this.open.size > OPEN_BLOCKS) this.open.delete(this.open.keys().next().value);
    }
    return block;
  }

  /** A message with its layers and the sources of its bytes; null where the page has none. */
  async message(row) {
    if (!row || row.number === undefined) return null;
    let index = this.detailBlocks.length - 1;
    while (index >= 0 && this.detailBlocks[index].from > row.position) index -= 1;
    if (index < 0) return null;
    const found = (await this.details(index)).find((message) => message.row === row.position);
    if (!found) return null;
    const { index: at, shape } = found;
    const sources = shape.sources.map((columns) => columns.map((column) => valueAt(column, at))).map(([title, packet, start, length, omitted]) =>
      ({ title: title || `packet #${packet}`, packet, omitted, bytes: found.bytes.subarray(found.base + start, found.base + start + length) }));
    const carried = shape.carried.map((columns) => columns.map((column) => valueAt(column, at)));
    const nodes = shape.names.map(([depth, name, source, odd], column) => {
      const start = valueAt(shape.starts[column], at), length = valueAt(shape.lengths[column], at), end = start + length;
      const range = source === null ? null : [start, end];
      const own = range ? sources[source].bytes.subarray(...range) : null;
      const known = { ...row, size: sources[0].bytes.length + sources[0].omitted, packet: sources[source]?.packet, start, end, length };
      return { depth, name, source, range, odd, value: valueText(valueAt(shape.values[column], at), own, known) };
    });
    return { row, sources, nodes, carried };
  }

  /** The texts of all messages in lower case, by the position of their rows. Each is read once. */
  lowerTexts() {
    return (this.texts = this.texts.then((texts) => this.readTexts(texts)));
  }

  async readTexts(texts) {
    while (this.textBlocks < this.detailBlocks.length) {
      const { base64, from } = this.detailBlocks[this.textBlocks++];
      for (const { row, base, bytes, index, shape: { sources: [[, , starts, lengths]] } } of messagesOf(await openBlock(base64), from)) {
        const start = base + valueAt(starts, index);
        texts[row] = DECODER.decode(bytes.subarray(start, start + valueAt(lengths, index))).toLowerCase();
      }
    }
    return texts;
  }
}

/** The value of a field. src/export/html/details/value.rs leaves out what the page knows from elsewhere. */
function valueText(value, bytes, known) {
  if (typeof value === 'string') return value;
  const number = (part) => part.reduce((sum, byte) => sum * 256 + byte, 0);
  return value.map((part) => {
    if (typeof part === 'string') return part;
    const [form, from, before] = part;
    if (form === 'text') return DECODER.decode(bytes.subarray(from, bytes.length - before));
    if (form === 'decimal') return number(bytes);
    if (form === 'hex') return `0x${number(bytes).toString(16).padStart(bytes.length * 2, '0')}`;
    if (form === 'number') return number(bytes.subarray(from, from + 4));
    if (form === 'minus') return (number(bytes) - from + 2 ** 32) % 2 ** 32;
    return known[form];
  }).join('');
}

/** The ranges of a source that carry these bytes of the text. */
function rangesIn(message, [start, end], source) {
  if (source === 0) return [[start, end]];
  const ranges = [];
  for (const [from, length, at, offset, derived] of message.carried) {
    const low = Math.max(from, start), high = Math.min(from + length, end);
    if (at !== source || low >= high) continue;
    ranges.push(derived === null ? [offset + low - from, offset + high - from] : [offset, offset + derived]);
  }
  return ranges;
}

/** Reads the blocks of the page. Calls `ready` when the first rows can be shown, and after the last block. */
async function readBlocks(ready) {
  const sessions = new Map();
  for (const block of document.querySelectorAll('script[data-kind]')) {
    const number = Number(block.dataset.session);
    if (!sessions.has(number)) sessions.set(number, new Session(number));
    await sessions.get(number).add(block.dataset.kind, Number(block.dataset.from), block.textContent);
    block.remove();
    if (block.dataset.kind === 'rows') ready(sessions, false);
  }
  ready(sessions, true);
}
