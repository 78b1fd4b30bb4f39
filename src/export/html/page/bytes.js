// The bytes of a source, with the chosen ranges lit.

const BYTE_ROW = 18;

/** Shows the bytes of a message's sources in an element. */
class BytesPane {
  constructor() {
    this.names = el('div', { class: 'sources', role: 'tablist', 'aria-label': 'Bytes of' });
    this.note = el('p', { class: 'dim', role: 'status' });
    this.view = el('div', { class: 'bytes', tabindex: '0', id: 'bytes', 'aria-label': 'Bytes' });
    this.list = new VirtualList(this.view, BYTE_ROW, (offset) => this.row(offset), () => {});
    this.element = el('div', { class: 'bytes-pane' }, this.names, this.note, this.view);
    this.ranges = [];
    new ResizeObserver(() => { if (this.shown && this.per !== this.fitting()) this.show(this.source, this.ranges, this.words); }).observe(this.view);
  }

  /** Bytes of a row that fit. */
  fitting() {
    return this.view.clientWidth >= 540 ? 16 : 8;
  }

  /** Takes a message and shows its text. */
  message(message) {
    this.shown = message;
    this.show(0, [], '');
  }

  /** Shows a source, with these ranges lit. */
  show(source, ranges, note) {
    if (!this.shown) return;
    this.source = source;
    this.ranges = ranges;
    this.words = note;
    this.note.textContent = visible(note);
    const lit = (index) => (this.field ? rangesIn(this.shown, this.field, index).length > 0 : false);
    this.names.replaceChildren(...this.shown.sources.map(({ title }, index) => el('button', {
      role: 'tab', 'aria-selected': index === source, class: lit(index) ? 'lit' : '',
      onclick: () => this.show(index, this.field ? rangesIn(this.shown, this.field, index) : [], this.words),
    }, title)));
    const { bytes, omitted } = this.shown.sources[source];
    if (omitted) this.note.textContent += ` The last ${count(omitted, 'byte')} are not in this page.`;
    const per = this.per = this.fitting();
    this.list.show(Array.from({ length: Math.ceil(bytes.length / per) }, (_, index) => index * per));
    this.view.scrollTop = ranges.length ? Math.max(0, Math.floor(ranges[0][0] / per) - 2) * BYTE_ROW : 0;
    this.list.render(true);
  }

  /** Lights a range of the text in the lowest source that carries it: a packet, if one does. */
  light(range) {
    this.field = range;
    const carrying = this.shown.sources.map((_, index) => index).filter((index) => rangesIn(this.shown, range, index).length);
    const packets = carrying.filter((index) => this.shown.sources[index].packet !== null);
    const source = packets[0] ?? 0;
    const ranges = rangesIn(this.shown, range, source);
    const names = packets.map((index) => `#${this.shown.sources[index].packet}`);
    const where = packets.length
      ? `bytes ${range[0]}..${range[1]} of the text, carried by ${packets.length > 1 ? 'packets' : 'packet'} ${names.join(' ')}${ranges.length ? ` (bytes ${ranges.map(([from, to]) => `${from}..${to}`).join(', ')})` : ''}`
      : `bytes ${range[0]}..${range[1]} of the text`;
    this.show(source, ranges, where);
  }

  /** Lights the bytes of a layer or a field. */
  node({ name, source, range }) {
    this.field = source === 0 ? range : null;
    const { title } = this.shown.sources[source];
    this.show(source, [range], `${name.trim()}: bytes ${range[0]}..${range[1]} of ${title}`);
  }

  row(offset) {
    const { bytes } = this.shown.sources[this.source];
    const isLit = (at) => this.ranges.some(([start, end]) => at >= start && at < end);
    const runs = (words) => {
      const parts = [];
      for (let at = offset; at < Math.min(offset + this.per, bytes.length); at += 1) {
        const lit = isLit(at), last = parts.at(-1);
        if (last && last.lit === lit) last.text += words(at);
        else parts.push({ lit, text: words(at) });
      }
      return parts.map(({ lit, text }) => (lit ? el('mark', {}, text) : el('span', {}, text)));
    };
    return el('div', { class: `byte-row of${this.per}` }, el('span', { class: 'dim' }, offset.toString(16).padStart(4, '0')),
      el('span', { class: 'hex' }, runs((at) => `${bytes[at].toString(16).padStart(2, '0')} `)),
      el('span', { class: 'ascii' }, runs((at) => (bytes[at] >= 32 && bytes[at] < 127 ? String.fromCharCode(bytes[at]) : '.'))));
  }
}
