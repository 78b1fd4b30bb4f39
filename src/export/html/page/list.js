// A list of any length. Only the rows in view are elements.

class VirtualList {
  /** `draw(item, index)` makes the element of a row. `chosen(item, index)` is called when a row is selected. */
  constructor(element, rowHeight, draw, chosen) {
    Object.assign(this, { element, rowHeight, draw, chosen, items: [], selected: -1 });
    this.space = el('div', { class: 'space' });
    element.replaceChildren(this.space);
    element.addEventListener('scroll', () => this.render());
    new ResizeObserver(() => this.render()).observe(element);
  }

  /** Shows other items. The selected item stays selected if it is among them. */
  show(items, selected = -1) {
    this.items = items;
    this.selected = selected;
    this.space.style.height = `${items.length * this.rowHeight}px`;
    this.render(true);
  }

  /** Selects a row and scrolls to it. */
  select(index, quiet = false) {
    if (!this.items.length) return;
    this.selected = Math.max(0, Math.min(index, this.items.length - 1));
    const top = this.selected * this.rowHeight, view = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    if (top + this.rowHeight > this.element.scrollTop + view) this.element.scrollTop = top + this.rowHeight - view;
    this.render(true);
    if (!quiet) this.chosen(this.items[this.selected], this.selected);
  }

  /** The number of whole rows in view. */
  page() {
    return Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
  }

  render(again = false) {
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.items.length, first + Math.ceil(this.element.clientHeight / this.rowHeight) + 8);
    if (!again && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = [];
    for (let index = first; index < last; index += 1) {
      const row = this.draw(this.items[index], index);
      row.style.transform = `translateY(${index * this.rowHeight}px)`;
      row.id = `${this.element.id}-${index}`;
      row.setAttribute('role', 'option');
      row.setAttribute('aria-selected', index === this.selected);
      row.setAttribute('aria-posinset', index + 1);
      row.setAttribute('aria-setsize', this.items.length);
      row.addEventListener('click', () => this.select(index));
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
    if (this.selected >= 0) this.element.setAttribute('aria-activedescendant', `${this.element.id}-${this.selected}`);
  }
}
