// The other views. Each has items for the list, a row for an item, and the details of an item.

/** The sequence diagram: one arrow a row between the two lifelines. */
function sequenceRow(row) {
  if (row.number === undefined) return messageRow(row);
  const words = `${row.method}${row.about ? `  ${row.about}` : ''}`;
  return el('div', { class: `row sequence ${row.from} ${row.outcome.replace(' ', '-')}` },
    el('span', { class: 'at' }, relative(row.at)), el('span', { class: 'life' }),
    el('span', { class: `line ${row.kind}` }, el('span', { class: 'words', title: visible(words) }, words), el('i', {})),
    el('span', { class: 'life' }), el('span', { class: 'took' }, row.took === undefined ? '' : duration(row.took)));
}

const EXCHANGE_COLUMNS = [['number', '#'], ['at', 'time'], ['method', 'method'], ['target', 'target'], ['status', 'status'], ['sent', 'sent'],
  ['received', 'received'], ['took', 'took'], [null, '']];

function exchangeRow(exchange) {
  const failed = exchange.status === undefined || exchange.status >= 400;
  return el('div', { class: `row exchange ${failed ? 'error' : ''}` }, el('span', { class: 'n' }, exchange.number),
    el('span', { class: 'at' }, exchange.at === undefined ? '' : relative(exchange.at)), el('span', {}, exchange.method ?? '?'),
    el('span', { class: 'about', title: visible(exchange.target ?? '') }, exchange.target ?? '?'), el('span', {}, exchange.status ?? 'none'),
    el('span', { class: 'at' }, size(exchange.sent)), el('span', { class: 'at' }, size(exchange.received)),
    el('span', { class: 'at' }, exchange.took === undefined ? '' : duration(exchange.took)), el('span', { class: 'when' }, whenBar(app.current, exchange)));
}

/** A bar that shows when an exchange was: pale until its response begins. */
function whenBar(session, { at, took, answered }) {
  if (at === undefined) return '';
  const end = lengthOf(session), share = (time) => Math.max(0, Math.min(1, time / end)) * 100;
  const [waiting, receiving] = [el('i', { class: 'waiting' }), el('i', { class: 'receiving' })];
  for (const [bar, from, to] of [[waiting, at, at + (answered ?? took ?? 0)], [receiving, at + (answered ?? 0), at + (took ?? 0)]]) {
    bar.style.left = `${share(from)}%`;
    bar.style.width = `${share(to) - share(from)}%`;
  }
  return [waiting, answered === undefined ? '' : receiving];
}

function exchangeDetail(session, exchange) {
  const half = (title, fields, about, complete) => el('section', {}, el('h2', {}, title),
    el('p', { class: 'dim' }, [...about, complete ? '' : 'incomplete'].filter(Boolean).join(' · ')),
    el('table', { class: 'fields' }, fields.map(([name, value]) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value)))));
  const messages = session.rows.filter((row) => row.exchange === exchange.number);
  const { asked, answered, took } = exchange, span = (from, to) => (from === undefined || to === undefined ? 'unknown' : duration(Math.max(0, to - from)));
  return el('article', {}, el('p', { class: 'dim' }, `request ${span(0, asked)} · wait ${span(asked, answered)} · response ${span(answered, took)}`),
    messages.length ? el('p', {}, 'messages: ', messages.map((row) => [messageLink(row.number), ' '])) : el('p', { class: 'dim' }, 'It carried no message.'),
    exchange.explanation ? el('p', {}, exchange.explanation) : '',
    el('div', { class: 'pair of2' },
      half(`${exchange.method ?? '?'} ${exchange.target ?? '?'}`, exchange.request, [exchange.requestPackets, `body ${size(exchange.sent)}`], exchange.requestComplete),
      half(`HTTP/${exchange.version} ${exchange.status ?? 'no response'} ${exchange.reason ?? ''}`, exchange.response,
        [exchange.responsePackets, `body ${size(exchange.received)}`], exchange.responseComplete)));
}

const messageLink = (number) => link(String(number), () => app.go('messages', (row) => row.number === number));

const FINDING_COLUMNS = [['level', ''], ['rule', 'rule'], ['text', 'what'], [null, 'messages']];

function findingRow(finding) {
  return el('div', { class: `row finding ${finding.severity}` }, el('span', {}, finding.severity), el('span', { class: 'method' }, finding.rule),
    el('span', { class: 'about', title: visible(finding.text) }, finding.text), el('span', { class: 'id' }, finding.messages.slice(0, 3).join(' ')));
}

function findingDetail(session, finding) {
  const manual = session.manuals[finding.rule];
  return el('article', {}, el('h2', {}, el('span', { class: finding.severity }, finding.severity), ` ${finding.rule}`),
    el('p', {}, finding.text, finding.repeated > 1 ? ` (${finding.repeated} times)` : ''),
    finding.messages.length ? el('p', {}, 'messages: ', finding.messages.map((number) => [messageLink(number), ' '])) : '',
    finding.packets ? el('p', { class: 'dim' }, `packets ${finding.packets}`) : '',
    manual ? [el('h3', {}, 'Why'), el('p', {}, manual.why), el('h3', {}, 'What to do'), el('p', {}, manual.remedy)] : '',
    el('p', { class: 'dim' }, finding.spec));
}

/** The facts of the session and its summary, as one page. */
function summaryDetail(session) {
  const { facts } = session;
  const table = (rows) => el('table', { class: 'fields' }, rows);
  return el('article', { class: 'summary' }, el('h2', {}, `Session ${session.number}`),
    table(facts.facts.map(([name, value]) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value)))),
    el('h2', {}, 'Summary'),
    table(facts.summary.map(({ depth, name, value, message }) => el('tr', { class: `depth${depth}` },
      el('th', { scope: 'row' }, name), el('td', {}, inLines(value), message === undefined ? '' : [' ', messageLink(message)])))));
}

/** The likely cause, its evidence, and what to do next. */
function explanation(session) {
  const { causes, also, checked } = session.facts.explanation;
  if (!causes.length) {
    return [el('p', {}, el('b', { class: 'good' }, 'No problem found.'), ` Checked: ${checked.join(', ')}.`)];
  }
  const [first, ...others] = causes;
  const evidence = first.evidence.map(({ place, at, text }) => el('tr', {}, el('th', { scope: 'row' }, place),
    el('td', { class: 'at' }, at === null ? '' : relative(at)), el('td', {}, text)));
  const rest = [...others.map((cause) => cause.sentence), ...also].map((text) => text.replace(/\.$/, ''));
  return [el('p', { class: 'cause' }, first.message === null ? first.sentence : [first.sentence, ' ', messageLink(first.message)]),
    el('details', {}, el('summary', {}, 'evidence and next step'), el('table', { class: 'evidence' }, evidence), el('p', {}, first.advice)),
    rest.length ? el('p', { class: 'dim' }, `Also: ${rest.join('; ')}.`) : ''];
}
