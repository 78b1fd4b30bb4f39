// JSON as a tree whose nodes know their bytes.

/** Parses JSON. A node has its kind, its range in bytes and, if it has them, its members. Null if it is no JSON. */
function parseJson(bytes) {
  let at = 0;
  const blank = () => { while (at < bytes.length && bytes[at] <= 32) at += 1; };
  const fail = () => { throw new SyntaxError(`no JSON at byte ${at}`); };
  const string = () => {
    const start = at;
    for (at += 1; bytes[at] !== 34; at += bytes[at] === 92 ? 2 : 1) if (at >= bytes.length) fail();
    at += 1;
    return [start, at];
  };
  const value = (depth) => {
    blank();
    if (at >= bytes.length || depth > 512) fail();
    const start = at, first = bytes[at];
    if (first === 34) return { kind: 'string', range: string() };
    if (first !== 123 && first !== 91) {
      while (at < bytes.length && !/[\s,\]}]/.test(String.fromCharCode(bytes[at]))) at += 1;
      if (at === start) fail();
      return { kind: 'scalar', range: [start, at] };
    }
    const members = [], close = first === 123 ? 125 : 93;
    at += 1;
    blank();
    while (bytes[at] !== close) {
      if (members.length) { if (bytes[at] !== 44) fail(); at += 1; blank(); }
      let name = null;
      if (close === 125) {
        if (bytes[at] !== 34) fail();
        name = string();
        blank();
        if (bytes[at] !== 58) fail();
        at += 1;
      }
      members.push({ name, value: value(depth + 1) });
      blank();
    }
    at += 1;
    return { kind: close === 125 ? 'object' : 'array', range: [start, at], members };
  };
  try {
    const root = value(0);
    blank();
    return at === bytes.length ? root : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Members that are shown before "show more". */
const MEMBERS = 100;
/** Characters of a string that are shown before "show more". */
const CHARACTERS = 2000;

/** Members that are open at first. */
const OPEN = 2000;

/** Lines of a text that is no JSON, some at a time. */
function plainText(lines) {
  const text = el('pre', { class: 'text' });
  const fill = (from) => {
    text.append(...lines.slice(from, from + OPEN).map((line) => el('div', {}, line)));
    const left = lines.length - from - OPEN;
    if (left <= 0) return;
    const more = el('button', { class: 'more', onclick: () => { more.remove(); fill(from + OPEN); } }, `… ${left} more lines`);
    text.append(more);
  };
  fill(0);
  return text;
}

/** The tree of a text. `chosen(range)` is called with the bytes of a member that is clicked. */
function jsonTree(bytes, chosen) {
  const text = (range) => DECODER.decode(bytes.subarray(...range));
  const root = parseJson(bytes);
  if (!root) return plainText(DECODER.decode(bytes).split('\n'));
  let open = OPEN;

  const scalar = (node) => {
    const words = text(node.range);
    const kind = node.kind === 'string' ? 'string' : words === 'null' ? 'null' : words === 'true' || words === 'false' ? 'bool' : 'number';
    if (words.length <= CHARACTERS) return el('span', { class: kind }, words);
    const rest = el('button', { class: 'more', onclick: (event) => { event.stopPropagation(); rest.replaceWith(visible(words.slice(CHARACTERS))); } },
      `… ${words.length - CHARACTERS} more characters`);
    return el('span', { class: kind }, words.slice(0, CHARACTERS), rest);
  };
  const brief = (node) => (node.kind === 'object' ? `{${node.members.length}}` : `[${node.members.length}]`);
  const item = (name, node, range, depth) => {
    const label = name === null ? [] : [el('span', { class: 'name' }, name), ': '];
    const choose = (event) => {
      event.stopPropagation();
      const tree = event.currentTarget.closest('[role=tree]');
      tree.querySelector('.chosen')?.classList.remove('chosen');
      event.currentTarget.classList.add('chosen');
      chosen(range);
    };
    if (!node.members) return el('li', { role: 'treeitem' }, el('div', { class: 'member', onclick: choose }, label, scalar(node)));
    const list = el('ul', { role: 'group' });
    const row = el('li', { role: 'treeitem' });
    const fold = el('button', { class: 'fold', 'aria-label': 'fold', onclick: (event) => { event.stopPropagation(); toggle(row.getAttribute('aria-expanded') !== 'true'); } });
    const fill = (from) => {
      const upTo = Math.min(node.members.length, from + MEMBERS);
      for (let index = from; index < upTo; index += 1) {
        const member = node.members[index];
        const start = member.name ? member.name[0] : member.value.range[0];
        const title = member.name ? text(member.name).slice(1, -1) : String(index);
        list.append(item(title, member.value, [start, member.value.range[1]], depth + 1));
      }
      if (upTo < node.members.length) {
        const more = el('li', {}, el('button', { class: 'more', onclick: () => { more.remove(); fill(upTo); } }, `… ${node.members.length - upTo} more`));
        list.append(more);
      }
    };
    const toggle = (open) => {
      row.setAttribute('aria-expanded', open);
      fold.textContent = open ? '▾' : '▸';
      list.hidden = !open;
      if (open && !list.childElementCount) fill(0);
    };
    row.append(el('div', { class: 'member', onclick: choose }, fold, label, el('span', { class: 'dim' }, brief(node))), list);
    open -= node.members.length;
    toggle(depth < 3 && open > 0);
    return row;
  };
  return el('ul', { role: 'tree', class: 'tree', 'aria-label': 'JSON' }, item(null, root, root.range, 0));
}
