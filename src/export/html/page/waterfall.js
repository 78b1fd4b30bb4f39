// The session over time: calls as bars, failures in red, lines of stderr and HTTP failures as ticks, and the time below.

/** Lanes for calls that overlap in time. */
const LANES = 6;

/** Height of a lane, of the ticks, and of the words below, in pixels. */
const [LANE, TICKS, WORDS] = [6, 5, 12];

/** The time that the waterfall covers. */
const lengthOf = (session) => Math.max(1, session.facts.length, session.rows.at(-1)?.at ?? 0);

/** A step between times that is 1, 2 or 5 of a unit, with at most this many steps in all. */
function timeStep(length, most) {
  const least = length / most, unit = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((times) => times * unit).find((step) => step >= least);
}

/** Draws the session into the canvas. The row that is selected has a line. */
function drawWaterfall(canvas, session, selected) {
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const colours = Object.fromEntries(['server', 'error', 'warning', 'dim', 'text', 'line'].map((name) => [name, style.getPropertyValue(`--${name}`)]));
  const end = lengthOf(session);
  const x = (at) => (at / end) * (width - 4) + 2;
  const free = new Array(LANES).fill(-Infinity), drawn = new Map();
  const step = timeStep(end, Math.max(2, width / 110));
  context.font = '10px system-ui, sans-serif';
  for (let at = step; at < end; at += step) {
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x(at)), 0, 1, height);
    context.fillStyle = colours.dim;
    context.textAlign = 'right';
    context.fillText(duration(at).replace(/(\.[1-9]*)0+(?= )/, (_, kept) => (kept === '.' ? '' : kept)), x(at) - 3, height - 2);
  }
  /** Draws a bar. One that covers the same pixels as the one before it in its lane is not drawn again. */
  const bar = (name, from, to, top, tall) => {
    const left = x(from), wide = Math.max(1.5, x(to) - left), pixels = `${name} ${Math.round(left)} ${Math.round(left + wide)}`;
    if (drawn.get(top) === pixels) return;
    drawn.set(top, pixels);
    context.fillStyle = colours[name];
    context.fillRect(left, top, wide, tall);
  };
  for (const row of session.rows) {
    if (row.number === undefined) {
      if (row.at === undefined) continue;
      bar(row.tone === 'error' || row.tone === 'warning' ? row.tone : 'dim', row.at, row.at, height - WORDS - TICKS, TICKS);
    } else if (row.took !== undefined && row.answers) {
      const from = row.at - row.took;
      let index = free.findIndex((until) => until <= from);
      if (index < 0) index = LANES - 1;
      free[index] = row.at;
      bar(row.outcome === 'error' || row.outcome === 'tool error' ? 'error' : row.outcome === 'negative' ? 'warning' : 'server', from, row.at, 1 + index * LANE, LANE - 1);
    } else if (row.outcome === 'unanswered') {
      bar('error', row.at, row.until ?? end, 1, LANE - 1);
    }
  }
  if (selected && selected.at !== undefined) {
    context.fillStyle = colours.text;
    context.fillRect(x(selected.at), 0, 1, height);
  }
}

/** The row whose call covers this place of the canvas, or else the nearest one. */
function rowAt(canvas, session, place) {
  const at = (place / canvas.clientWidth) * lengthOf(session);
  let nearest = null, distance = Infinity;
  for (const row of session.rows) {
    if (row.at === undefined) continue;
    const from = row.took !== undefined && row.answers ? row.at - row.took : row.at;
    const away = at < from ? from - at : Math.max(0, at - row.at);
    if (away < distance) [nearest, distance] = [row, away];
  }
  return nearest;
}
