// The timeline: its rows, and the details of one message.
//
//   ┌ request ───────────────┬ answer ────────────────┐
//   │ ▾ params               │ ▾ result               │
//   ├ layers ────────────────┼ bytes ─────────────────┤
//   │ Ethernet  #55          │ 0000  50 4f 53 54      │
//   └────────────────────────┴────────────────────────┘

/** The bar of a latency covers 0.1 ms to 100 s, with the same width for each decade. */
const barWidth = (nanoseconds) => Math.max(0, Math.min(1, (Math.log10(Math.max(1, nanoseconds)) - 5) / 6));

/** A row of the timeline. */
function messageRow(row) {
  if (row.number === undefined) {
    return el('div', { class: `row note ${row.tone}` }, el('span', { class: 'n' }), el('span', { class: 'at' }, row.at === undefined ? '' : relative(row.at)),
      el('span', { class: 'arrow' }, row.sign), el('span', { class: 'method' }, row.what), el('span', { class: 'about', title: visible(row.about) }, row.about),
      el('span', { class: 'id' }, row.messages), el('span', { class: 'took' }), el('span', { class: 'mark' }));
  }
  const bar = el('i', { class: 'latency' });
  if (row.took !== undefined) bar.style.width = `${barWidth(row.took) * 28}px`;
  return el('div', { class: `row ${row.from} ${row.outcome.replace(' ', '-')}` },
    el('span', { class: 'n' }, row.number), el('span', { class: 'at' }, relative(row.at)), el('span', { class: 'arrow' }, row.arrow),
    el('span', { class: 'method' }, row.method), el('span', { class: 'about', title: visible(row.about) }, row.about),
    el('span', { class: 'id' }, row.id ? `id ${row.id}` : ''),
    el('span', { class: 'took' }, row.took === undefined ? '' : [bar, duration(row.took)]),
    el('span', { class: 'mark', title: visible(row.rules.join(' ')) }, row.mark || (row.rules.length ? '!' : row.redelivered ? '↻' : '')));
}

/** The names of the columns of the timeline. The first element of a pair is the member to sort by. */
const MESSAGE_COLUMNS = [['position', '#'], ['at', 'time'], [null, ''], ['method', 'method'], ['about', 'about'], [null, 'id'], ['took', 'latency'], [null, '']];

const bytesPane = new BytesPane();

/** The details of a row. */
async function messageDetail(session, row) {
  if (row.number === undefined) {
    return el('article', {}, el('h2', {}, row.what), el('pre', { class: 'text' }, row.about), el('p', { class: 'dim' }, row.messages));
  }
  const partner = row.partner !== undefined ? session.row(row.partner) : undefined;
  const [message, other] = await Promise.all([session.message(row), session.message(partner)]);
  // Another row was selected meanwhile. The pane of bytes is its own now.
  if (app.selected !== row) return null;
  if (!message) return el('p', { class: 'dim' }, 'This message has no details in this page.');
  bytesPane.field = null;
  bytesPane.message(message);
  const pane = (one) => {
    const { row: of, sources: [{ bytes, omitted }] } = one;
    const chosen = (range) => {
      if (bytesPane.shown !== one) layersOf(one);
      bytesPane.light(range);
    };
    const facts = [of.carrier, `${bytes.length + (omitted ?? 0)} B`, of.packets, of.line ? `line ${of.line}` : '', of.event ? `event id ${of.event}` : ''];
    return el('section', { class: of === row ? 'own' : '' },
      el('h2', {}, el('span', { class: `arrow ${of.from}` }, of.arrow), ` ${of.number} ${of.method} `, el('span', { class: 'dim' }, of.outcome || of.kind)),
      el('p', { class: 'dim' }, facts.filter(Boolean).join(' · '),
        of.exchange !== undefined ? [' · ', link(`exchange ${of.exchange}`, () => app.go('exchanges', (exchange) => exchange.number === of.exchange))] : '',
        ' ', el('button', { class: 'more', onclick: () => copy(DECODER.decode(bytes)) }, 'copy')),
      of.rules.length ? el('p', {}, of.rules.map((rule) => [link(rule, () => app.go('findings', (finding) => finding.rule === rule && finding.messages.includes(of.number))), ' '])) : '',
      jsonTree(bytes, chosen));
  };
  const layers = el('div', { class: 'layers', role: 'tree', 'aria-label': 'Layers' });
  const layersOf = (one) => {
    bytesPane.message(one);
    layers.replaceChildren(...one.nodes.map((node) => el('div', {
      class: `node depth${Math.min(node.depth, 2)} ${node.odd ? 'odd' : ''}`, role: 'treeitem', 'aria-level': node.depth + 1, tabindex: node.range ? '0' : undefined,
      onclick: (event) => { if (node.range) { choose(event.currentTarget); bytesPane.node(node); } },
      onkeydown: (event) => { if (event.key === 'Enter') event.currentTarget.click(); },
    }, el('span', { class: 'name' }, node.name), el('span', {}, node.value))));
  };
  const choose = (element) => {
    layers.querySelector('.chosen')?.classList.remove('chosen');
    element.classList.add('chosen');
  };
  layersOf(message);
  const pair = other ? (row.answers ? [pane(other), pane(message)] : [pane(message), pane(other)]) : [pane(message)];
  return el('article', { class: 'message' }, el('div', { class: `pair of${pair.length}` }, pair),
    el('div', { class: 'below' }, layers, bytesPane.element));
}

/** A link inside the page. */
const link = (words, go) => el('button', { class: 'link', onclick: go }, words);

/** Copies a text. A page that was opened by double click may use the clipboard after a click. */
function copy(text) {
  navigator.clipboard?.writeText(text).catch(() => {});
}
