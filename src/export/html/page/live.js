// A page that follows a recording. The server sends the blocks of an exported page, line by line: first all, then
// "ready", then new ones as they are recorded.

const BLOCK = /data-kind="(\w+)" data-session="(\d+)" data-from="(\d+)">([^<]*)</;

/** Shows what the page knows about its source. */
function showState(words) {
  byId('live').hidden = false;
  byId('live').textContent = words;
}

/** Shows new data, and keeps the viewer's place. A list that shows its end keeps showing it. */
function showNew(sessions, answered) {
  if (!app.current) app.ready(sessions, false);
  const list = byId('list'), tab = [...byId('tabs').children].indexOf(document.activeElement);
  const showsEnd = list.scrollHeight > list.clientHeight && list.scrollTop + list.clientHeight > list.scrollHeight - ROW;
  const isOpen = byId('explanation').querySelector('details')?.open;
  app.showFacts();
  byId('explanation').querySelector('details')?.toggleAttribute('open', isOpen);
  app.ready(sessions, true);
  if (tab >= 0) byId('tabs').children[tab].focus();
  if (showsEnd) list.scrollTop = list.scrollHeight;
  if (app.search.words && VIEWS[app.name].filtered) app.match();
  if (app.selected && answered.has(app.selected)) app.detail(app.selected);
}

/** The lines of a stream. */
async function* linesOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    yield* lines;
  }
}

async function follow() {
  const sessions = new Map();
  let begun = false, answered = new Set();
  const response = await fetch('events', { cache: 'no-store' });
  if (!response.ok) throw new Error(response.statusText);
  for await (const line of linesOf(response.body)) {
    const block = BLOCK.exec(line);
    if (block) {
      const [, kind, number, from, base64] = block;
      if (!sessions.has(Number(number))) sessions.set(Number(number), new Session(Number(number)));
      const session = sessions.get(Number(number)), before = session.rows.length;
      await session.add(kind, Number(from), base64);
      for (const row of session.rows.slice(before)) answered.add(session.row(row.answers));
      if (kind === 'rows' && !app.current) app.ready(sessions, false);
    } else if (line === 'ready' || line === 'more') {
      begun = true;
      showState('connected');
      if (sessions.size) showNew(sessions, answered);
      else app.ready(sessions, true);
      answered = new Set();
    }
  }
  throw new Error(begun ? 'the recording is no longer followed' : 'no data');
}

follow().catch(() => {
  showState('not connected: this page shows what it has');
  document.body.dataset.ended = 'true';
});
