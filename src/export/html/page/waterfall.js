// The session over time: calls as bars, failures in red, lines of stderr and HTTP failures as ticks.

/** Lanes for calls that overlap in time. */
const LANES = 6;

/** Draws the session into the canvas. The row that is selected has a line. */
function drawWaterfall(canvas, session, selected) {
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`);
  const end = Math.max(1, session.facts.length, session.rows.at(-1)?.at ?? 0);
  const x = (at) => (at / end) * (width - 4) + 2;
  const lane = (height - 8) / LANES, free = new Array(LANES).fill(-Infinity);
  for (const row of session.rows) {
    if (row.number === undefined) {
      if (row.at === null) continue;
      context.fillStyle = colour(row.tone === 'error' ? 'error' : row.tone === 'warning' ? 'warning' : 'dim');
      context.fillRect(x(row.at), height - 5, 1.5, 5);
    } else if (row.took !== undefined && row.answers) {
      const from = row.at - row.took;
      let index = free.findIndex((until) => until <= from);
      if (index < 0) index = LANES - 1;
      free[index] = row.at;
      context.fillStyle = colour(row.outcome === 'error' || row.outcome === 'tool error' ? 'error' : row.outcome === 'negative' ? 'warning' : 'server');
      context.fillRect(x(from), 1 + index * lane, Math.max(1.5, x(row.at) - x(from)), lane - 1);
    } else if (row.outcome === 'unanswered') {
      context.fillStyle = colour('error');
      context.fillRect(x(row.at), 1, Math.max(1.5, x(row.until ?? end) - x(row.at)), lane - 1);
    }
  }
  if (selected && selected.at !== null) {
    context.fillStyle = colour('text');
    context.fillRect(x(selected.at), 0, 1, height);
  }
}

/** The row whose call covers this place of the canvas, or else the nearest one. */
function rowAt(canvas, session, place) {
  const end = Math.max(1, session.facts.length, session.rows.at(-1)?.at ?? 0);
  const at = (place / canvas.clientWidth) * end;
  let nearest = null, distance = Infinity;
  for (const row of session.rows) {
    if (row.at === null) continue;
    const from = row.took !== undefined && row.answers ? row.at - row.took : row.at;
    const away = at < from ? from - at : Math.max(0, at - row.at);
    if (away < distance) [nearest, distance] = [row, away];
  }
  return nearest;
}
