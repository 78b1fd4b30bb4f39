// Elements and text. Every text of a recording enters the page through `visible`, as a text node.

// Controls, marks of direction, and characters without width. A person cannot see them, so their
// code points are shown instead.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/** The text with hidden characters as their code points. */
function visible(text) {
  return String(text).replace(HIDDEN, (character) => '\\u{' + character.codePointAt(0).toString(16) + '}');
}

/** An element. `more` holds attributes, and listeners by `on...`. Strings among the children are shown as text. */
function el(tag, more = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(more)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== '')
    .map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

/** The element of page.html with this id. */
const byId = (id) => document.getElementById(id);

/** Nanoseconds for people, as in the terminal: `5.7 ms`. */
function duration(nanoseconds) {
  const n = Math.abs(nanoseconds), sign = nanoseconds < 0 ? '-' : '';
  if (n < 1000) return `${sign}${n} ns`;
  if (n < 99950) return `${sign}${(n / 1e3).toFixed(1)} µs`;
  if (n < 999500) return `${sign}${(n / 1e3).toFixed(0)} µs`;
  if (n < 99950000) return `${sign}${(n / 1e6).toFixed(1)} ms`;
  if (n < 999500000) return `${sign}${(n / 1e6).toFixed(0)} ms`;
  if (n < 6e10) return `${sign}${(n / 1e9).toFixed(2)} s`;
  const seconds = Math.floor(n / 1e9), two = (value) => String(value).padStart(2, '0');
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${sign}${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
}

/** Seconds since the start of the session: `12.004310`. */
function relative(nanoseconds) {
  const micros = Math.floor(Math.abs(nanoseconds) / 1000);
  return `${nanoseconds < 0 ? '-' : ''}${Math.floor(micros / 1e6)}.${String(micros % 1e6).padStart(6, '0')}`;
}

/** A text whose line ends are line ends of the page. */
const inLines = (text) => String(text).split('\n').map((line, index) => [index ? el('br') : '', line]);

/** Bytes for people: `165 B`, `7.6 KB`. */
function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 999950 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** A count with its noun: `3 messages`. */
const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;
