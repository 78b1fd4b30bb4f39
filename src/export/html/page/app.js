// Joins the parts: the chosen session and view, filters, search, keys, and the theme.

/** The keys, as in the terminal UI: keys, what they do, and the action. Help and dispatch read this table. */
const KEYS = [
  [['j', 'ArrowDown'], 'next row', () => app.move(1)],
  [['k', 'ArrowUp'], 'previous row', () => app.move(-1)],
  [['PageDown', ' '], 'a page down', () => app.move(app.list.page())],
  [['PageUp'], 'a page up', () => app.move(-app.list.page())],
  [['g', 'Home'], 'first row', () => app.move(-Infinity)],
  [['G', 'End'], 'last row', () => app.move(Infinity)],
  [['Enter'], 'open the row', () => app.open(true)],
  [['p'], 'the partner: from a request to its answer and back', () => app.partner()],
  [['n'], 'next message that failed or has findings', () => app.nextProblem()],
  [['/'], 'search', () => byId('search').focus()],
  [['1', '2', '3', '4', '5'], 'messages, sequence, exchanges, findings, session', (key) => app.view(Object.keys(VIEWS)[key - 1])],
  [['y'], 'copy the text of the message', () => app.copyText()],
  [['t'], 'light or dark', () => app.theme()],
  [['?'], 'these keys', () => byId('keys').showModal()],
  [['Escape'], 'back: close the details, then clear the filters', () => app.back()],
];

/** The views: columns, items of the list, row, details. A view without rows has one page. */
const VIEWS = {
  messages: { columns: MESSAGE_COLUMNS, items: (session) => session.rows, row: messageRow, detail: messageDetail, filtered: true },
  sequence: { columns: null, items: (session) => session.rows, row: sequenceRow, detail: messageDetail, filtered: true },
  exchanges: { columns: EXCHANGE_COLUMNS, items: (session) => session.exchanges, row: exchangeRow, detail: exchangeDetail },
  findings: { columns: FINDING_COLUMNS, items: (session) => session.findings, row: findingRow, detail: findingDetail },
  session: { columns: null, items: () => [], row: null, detail: summaryDetail },
};

/** Rows up to which the texts are read before the first search. */
const READ_AHEAD = 20000;

/** Height of a row, in pixels. */
const ROW = 22;

const app = {
  sessions: new Map(),
  current: null,
  name: 'messages',
  chips: new Set(),
  sort: { by: null, down: false },
  search: { words: '', hits: null },

  /** Begins. Called when the first rows are there, and when all are. */
  ready(sessions, complete) {
    app.sessions = sessions;
    if (!sessions.size) {
      byId('title').textContent = 'No MCP session';
      document.body.dataset.ready = 'true';
      return;
    }
    if (!app.current) {
      app.list = new VirtualList(byId('list'), ROW, (item) => VIEWS[app.name].row(item), (item) => app.detail(item));
      app.choose(sessions.keys().next().value);
    } else if (complete) {
      app.listSessions();
      app.refresh();
    }
    if (complete) {
      document.body.dataset.ready = 'true';
      // A search of a small page then finds the texts in memory.
      if (app.current.rows.length <= READ_AHEAD) setTimeout(() => app.current.lowerTexts(), 100);
    }
  },

  /** Shows a session. */
  choose(number) {
    app.current = app.sessions.get(number);
    app.showFacts();
    app.listSessions();
    app.selected = null;
    app.close();
    app.clearFilters();
    app.refresh();
  },

  showFacts() {
    const { facts } = app.current;
    byId('title').textContent = visible(facts.title);
    byId('facts').textContent = visible(facts.line);
    byId('explanation').replaceChildren(...explanation(app.current).filter(Boolean));
  },

  listSessions() {
    byId('session').replaceChildren(...[...app.sessions.values()].filter((session) => session.facts).map((session) =>
      el('option', { value: session.number, selected: session === app.current }, `session ${session.number}  ${session.facts.title}`)));
    byId('session').hidden = app.sessions.size < 2;
  },

  clearFilters() {
    app.chips.clear();
    app.search = { words: '', hits: null };
    app.sort = { by: null, down: false };
    for (const id of ['search', 'kind', 'tool']) byId(id).value = '';
  },

  /** Shows another view. */
  view(name) {
    app.name = name;
    app.sort = { by: null, down: false };
    app.selected = null;
    app.close();
    if (app.search.words && !app.search.hits) app.find(byId('search').value);
    else app.refresh();
  },

  /** Goes to the first item of a view that fits. */
  go(name, fits) {
    app.clearFilters();
    app.view(name);
    const index = app.list.items.findIndex(fits);
    if (index >= 0) app.list.select(index);
    document.body.classList.add('opened');
  },

  /** The items of the current view after filters, search and sorting. */
  items() {
    const view = VIEWS[app.name];
    let items = view.items(app.current);
    if (view.filtered) {
      const slow = app.chips.has('slow') ? app.slow() : 0;
      const kind = byId('kind').value, tool = byId('tool').value, { words, hits } = app.search;
      items = items.filter((row) => {
        if (kind === 'notes' ? row.number !== undefined : kind && row.kind !== kind) return false;
        if (tool && (row.tool ?? row.method) !== tool) return false;
        if (app.chips.has('failed') && !isFailed(row)) return false;
        if (app.chips.has('slow') && !(row.took >= slow)) return false;
        if (app.chips.has('findings') && !row.rules?.length) return false;
        return !words || isNamed(row, words) || !!hits?.has(row.position);
      });
    } else if (app.search.words) {
      items = items.filter((item) => JSON.stringify(item).toLowerCase().includes(app.search.words));
    }
    const { by, down } = app.sort;
    if (by) {
      const key = (item) => item[by] ?? -Infinity;
      items = [...items].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
    }
    return items;
  },

  /** The latency from which a call is slow: the nearest rank of 95 %. */
  slow() {
    const all = app.current.rows.filter((row) => row.took !== undefined && row.answers).map((row) => row.took).sort((a, b) => a - b);
    return all.length ? all[Math.max(0, Math.ceil(all.length * 0.95) - 1)] : Infinity;
  },

  /** Draws everything around the details. */
  refresh() {
    const { current, name } = app;
    byId('tabs').replaceChildren(...Object.keys(VIEWS).map((tab, index) => {
      const items = VIEWS[tab].items(current).length;
      return el('button', { role: 'tab', 'aria-selected': tab === name, title: `${tab} (${index + 1})`, onclick: () => app.view(tab) },
        tab, items ? el('span', { class: 'dim' }, ` ${items}`) : '');
    }));
    document.body.dataset.view = name;
    const options = (id, all, values) => {
      const value = byId(id).value;
      // A list that is open would close.
      if ([...byId(id).options].slice(1).map((option) => option.value).join('\n') === values.join('\n')) return;
      byId(id).replaceChildren(el('option', { value: '' }, all), ...values.map((one) => el('option', { value: one }, one)));
      byId(id).value = value;
    };
    options('kind', 'all kinds', ['request', 'response', 'error', 'notification', 'invalid', 'notes']);
    options('tool', 'all tools and methods', [...new Set(current.rows.map((row) => row.tool ?? row.method).filter(Boolean))].sort());
    for (const chip of document.querySelectorAll('[data-chip]')) chip.setAttribute('aria-pressed', app.chips.has(chip.dataset.chip));
    const { columns } = VIEWS[name];
    byId('columns').className = `row head ${name}`;
    byId('columns').replaceChildren(...(columns ?? []).map(([by, words]) => {
      const mark = app.sort.by === by && by ? (app.sort.down ? ' ▾' : ' ▴') : '';
      return el('span', { onclick: () => { if (by) { app.sort = { by, down: app.sort.by === by && !app.sort.down }; app.refresh(); } } }, words + mark);
    }));
    const items = app.items(), all = VIEWS[name].items(current).length;
    app.list.show(items, app.selected ? items.indexOf(app.selected) : -1);
    byId('list').classList.toggle('empty', !items.length);
    byId('list').dataset.empty = app.search.words || app.chips.size ? 'Nothing matches. Esc clears the filters.' : `This session has no ${name}.`;
    byId('count').textContent = items.length === all ? '' : `${items.length} of ${all}${app.search.reading ? ' …' : ''}`;
    if (name === 'session') app.detail(null);
    app.draw();
  },

  draw() {
    drawWaterfall(byId('waterfall'), app.current, VIEWS[app.name].filtered ? app.selected : null);
  },

  async detail(item) {
    app.selected = item;
    const shown = await VIEWS[app.name].detail(app.current, item);
    if (app.selected !== item) return;
    byId('right').replaceChildren(shown);
    document.body.classList.add('shown');
    bytesPane.list.render(true);
    app.draw();
  },

  move(by) {
    if (by === Infinity || by === -Infinity) app.list.select(by > 0 ? app.list.items.length - 1 : 0);
    else app.list.select(app.list.selected < 0 ? 0 : app.list.selected + by);
  },

  open(focus) {
    if (app.list.selected < 0) app.move(0);
    else if (!document.body.classList.contains('shown')) app.detail(app.list.items[app.list.selected]);
    document.body.classList.add('opened');
    if (focus) byId('right').focus();
  },

  partner() {
    const partner = app.selected?.partner;
    if (partner !== undefined) app.list.select(app.list.items.findIndex((row) => row.number === partner));
  },

  nextProblem() {
    const { items, selected } = app.list;
    const index = items.findIndex((row, at) => at > selected && (isFailed(row) || row.rules?.length));
    if (index >= 0) app.list.select(index);
  },

  async copyText() {
    const message = await app.current.message(app.selected);
    if (message) copy(DECODER.decode(message.sources[0].bytes));
  },

  /** Closes the details. A wide page has them beside the list, a narrow one instead of it. */
  close() {
    byId('right').replaceChildren();
    document.body.classList.remove('opened', 'shown');
  },

  back() {
    if (document.body.classList.contains('shown') && app.name !== 'session') {
      app.close();
      byId('list').focus();
    } else {
      app.clearFilters();
      app.refresh();
    }
  },

  theme() {
    const dark = document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = dark === 'dark' ? 'light' : 'dark';
    app.draw();
  },

  /** Searches: names at once, then the texts of all messages. */
  async find(words) {
    const search = { words: words.toLowerCase(), hits: null, reading: words !== '' && !!VIEWS[app.name].filtered };
    app.search = search;
    app.refresh();
    if (words && VIEWS[app.name].filtered) await app.match();
  },

  /** Finds the rows whose texts have the words of the search. */
  async match() {
    const { search } = app;
    const texts = await app.current.lowerTexts();
    if (app.search !== search) return;
    search.hits = new Set();
    texts.forEach((text, position) => { if (text.includes(search.words)) search.hits.add(position); });
    search.reading = false;
    app.refresh();
  },
};

/** Whether a call failed, or a note reports a failure. */
const isFailed = (row) => ['error', 'tool error', 'unanswered'].includes(row.outcome) || (row.number === undefined && row.tone === 'error');

/** Whether a row has these words in its line. */
const isNamed = (row, words) => [row.method, row.about, row.id, row.what].some((text) => text?.toLowerCase().includes(words));

document.addEventListener('keydown', (event) => {
  const typing = event.target.matches?.('input, select, textarea');
  if (typing && event.key === 'Escape') {
    event.target.blur();
    if (event.target.id === 'search' && event.target.value) { event.target.value = ''; app.find(''); }
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || byId('keys').open || !app.current) return;
  if (['Enter', ' '].includes(event.key) && event.target.matches?.('button, summary, [role=treeitem]')) return;
  if (event.target.id === 'bytes' && /Arrow|Page|Home|End/.test(event.key)) return;
  const found = KEYS.find(([keys]) => keys.includes(event.key));
  if (found) {
    event.preventDefault();
    found[2](event.key);
  }
});
byId('search').addEventListener('input', (event) => app.find(event.target.value));
byId('search').addEventListener('keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); byId('list').focus(); app.move(0); } });
byId('tools').addEventListener('submit', (event) => event.preventDefault());
for (const id of ['kind', 'tool']) byId(id).addEventListener('change', () => app.refresh());
for (const chip of document.querySelectorAll('[data-chip]')) {
  chip.addEventListener('click', () => {
    const name = chip.dataset.chip;
    if (!app.chips.delete(name)) app.chips.add(name);
    app.refresh();
  });
}
byId('session').addEventListener('change', (event) => app.choose(Number(event.target.value)));
byId('theme').addEventListener('click', () => app.theme());
byId('help').addEventListener('click', () => byId('keys').showModal());
byId('list').addEventListener('dblclick', () => app.open(false));
byId('list').addEventListener('click', () => document.body.classList.add('opened'));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { if (app.current) app.draw(); });
byId('waterfall').addEventListener('click', (event) => {
  const row = rowAt(byId('waterfall'), app.current, event.offsetX);
  if (row) app.go('messages', (other) => other === row);
});
new ResizeObserver(() => { if (app.current) app.draw(); }).observe(byId('waterfall'));
byId('keys').append(el('h2', {}, 'Keys'),
  el('table', {}, KEYS.map(([keys, words]) => el('tr', {}, el('th', {}, keys.map((key) => (key === ' ' ? 'space' : key)).join('  ')), el('td', {}, words)))),
  el('h2', {}, 'Signs'),
  el('table', {}, [['→ ←', 'a call and its answer'], ['⇢ ⇠', 'a notification'], ['✗', 'a protocol error'], ['⊘', 'the tool reported an error'],
    ['∅', 'a negative result'], ['!', 'it breaks a rule'], ['↻', 'delivered again'], ['┊', 'standard error of the server'], ['×', 'refused'], ['◌', 'no answer'], ['■', 'the server ended']]
    .map(([sign, words]) => el('tr', {}, el('th', {}, sign), el('td', {}, words)))),
  el('form', { method: 'dialog' }, el('button', {}, 'close')));
// A printed page has the rows themselves, because a list that scrolls cannot be printed.
addEventListener('beforeprint', () => byId('list').append(el('div', { class: 'printed' }, app.items().slice(0, 2000).map((row) => VIEWS[app.name].row?.(row)))));
addEventListener('afterprint', () => byId('list').querySelector('.printed')?.remove());

