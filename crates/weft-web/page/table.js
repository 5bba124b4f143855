// Tables whose rows have keys, and lines of the last minute.
//
// An update changes only the cells whose text differs, and only in rows that are in view or new. A row that comes into
// view gets its newest figures first, so that a thousand rows cost no more than those that the reader sees.

const SVG = "http://www.w3.org/2000/svg";
/** Number of samples of a line, one a second. */
export const SAMPLES = 60;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Sets the text of an element if it differs. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The last samples of many series, by key. */
export class Samples {
  constructor() {
    this.series = new Map();
    this.round = 0;
  }

  /** Begins the samples of the next second; series that get none in two minutes end. */
  next() {
    this.round += 1;
    for (const [key, of] of this.series) if (this.round - of.round > 2 * SAMPLES) this.series.delete(key);
  }

  add(key, up, down) {
    let of = this.series.get(key);
    if (!of) this.series.set(key, (of = { up: [], down: [], round: 0 }));
    of.round = this.round;
    of.up.push(up);
    of.down.push(down);
    if (of.up.length > SAMPLES) {
      of.up.shift();
      of.down.shift();
    }
  }

  of(key) {
    return this.series.get(key) ?? { up: [], down: [] };
  }
}

/** Draws two lines of samples into a picture; returns the largest sample. */
export function drawLines(picture, { up, down }, width, height) {
  if (!picture.firstChild) {
    picture.append(svg("path", { class: "down" }), svg("polyline", { class: "up" }));
  }
  const peak = Math.max(...up, ...down, 0);
  const scale = peak > 0 ? (height - 3) / peak : 0;
  const step = width / (SAMPLES - 1);
  const point = (value, at, all) => `${((SAMPLES - all.length + at) * step).toFixed(1)},${(height - 1.5 - value * scale).toFixed(1)}`;
  const [area, line] = picture.children;
  const points = down.map(point);
  const begin = ((SAMPLES - down.length) * step).toFixed(1);
  area.setAttribute("d", points.length ? `M${begin},${height}L${points.join("L")}L${width},${height}z` : "");
  line.setAttribute("points", up.map(point).join(" "));
  return peak;
}

/** Text that every table must contain to be shown, in lower case. */
let filter = "";
const tables = [];

export function setFilter(text) {
  filter = text.trim().toLowerCase();
  for (const table of tables) {
    for (const row of table.rows.values()) table.fill(row);
    table.applyFilter();
  }
}

/**
 * A table in a section. A column is `{title, text(item), number, short, tone(item), lines(item)}`: `number` aligns to the
 * right, `short` makes a column narrower, `tone` colours a mark before the text, and `lines` draws samples instead of a text.
 */
export class KeyedTable {
  constructor(section, name, columns, empty, labelled = `${section.id}-title`) {
    this.columns = columns;
    this.rows = new Map();
    this.empty = element("p", { class: "empty" }, empty);
    const heads = columns.map((column) => element("th", { scope: "col", role: "columnheader", class: kind(column) }, column.title));
    this.body = element("tbody", { role: "rowgroup" });
    const head = element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads));
    this.table = element("table", { role: "table", class: name, "aria-labelledby": labelled }, head, this.body);
    this.table.hidden = true;
    this.hiddenCount = element("p", { class: "empty" });
    this.hiddenCount.hidden = true;
    this.view = new IntersectionObserver((seen) => seen.forEach((of) => this.see(of)), { rootMargin: "200px" });
    section.append(this.table, this.hiddenCount, this.empty);
    tables.push(this);
  }

  /** Shows these items, in their order; `key(item)` tells them apart. */
  update(items, key) {
    const gone = new Set(this.rows.keys());
    let place = this.body.firstChild;
    for (const item of items) {
      const name = key(item);
      gone.delete(name);
      const row = this.rows.get(name) ?? this.addRow(name);
      row.item = item;
      if (row.inView || row.isNew || filter) this.fill(row);
      if (row.tr === place) place = place.nextSibling;
      else this.body.insertBefore(row.tr, place);
    }
    for (const name of gone) {
      const row = this.rows.get(name);
      this.view.unobserve(row.tr);
      row.tr.remove();
      this.rows.delete(name);
    }
    this.applyFilter();
  }

  addRow(name) {
    const cells = this.columns.map((column, at) => {
      const cell = element(at === 0 ? "th" : "td", { role: at === 0 ? "rowheader" : "cell", class: kind(column), "data-label": column.title });
      if (at === 0) cell.scope = "row";
      if (column.lines) {
        const picture = svg("svg", { class: "spark", viewBox: "0 0 120 24", preserveAspectRatio: "none", role: "img" });
        cell.append(picture);
        return { cell, picture, text: "" };
      }
      const mark = column.tone ? element("span", { class: "tone", "aria-hidden": "true" }) : null;
      const node = document.createTextNode("");
      cell.append(...(mark ? [mark] : []), element("span", { class: "value" }, node));
      return { cell, node, mark, text: "", tone: "" };
    });
    const tr = element("tr", { role: "row" }, ...cells.map((of) => of.cell));
    const row = { tr, cells, inView: false, isNew: true };
    tr.row = row;
    this.rows.set(name, row);
    this.view.observe(tr);
    return row;
  }

  fill(row) {
    row.isNew = false;
    for (let at = 0; at < this.columns.length; at += 1) {
      const column = this.columns[at];
      const of = row.cells[at];
      if (column.lines) {
        if (row.inView) this.draw(row, column, of);
        continue;
      }
      const text = shown(column.text(row.item));
      if (text !== of.text) {
        of.text = text;
        of.node.data = text;
        if (column.title === "" || text.length > 24) of.cell.title = text;
        else if (of.cell.title) of.cell.title = "";
      }
      if (of.mark) {
        const tone = column.tone(row.item);
        if (tone !== of.tone) of.mark.className = `tone ${(of.tone = tone)}`;
      }
    }
  }

  draw(row, column, of) {
    const peak = drawLines(of.picture, column.lines(row.item), 120, 24);
    const label = `last minute, peak ${column.peak(peak)}`;
    if (of.text !== label) of.picture.setAttribute("aria-label", (of.text = label));
  }

  see(seen) {
    const { row } = seen.target;
    row.inView = seen.isIntersecting;
    if (row.inView) this.fill(row);
  }

  applyFilter() {
    let hidden = 0;
    for (const row of this.rows.values()) {
      const matches = !filter || row.cells.some((of) => !of.picture && of.text.toLowerCase().includes(filter));
      if (row.tr.hidden === matches) row.tr.hidden = !matches;
      if (!matches) hidden += 1;
    }
    this.table.hidden = this.rows.size === hidden;
    this.empty.hidden = this.rows.size > 0;
    this.hiddenCount.hidden = hidden === 0;
    write(this.hiddenCount, hidden ? `${hidden} more do not contain “${filter}”` : "");
  }

  /** Shows or hides all of it. */
  show(is) {
    if (is) return this.applyFilter();
    this.table.hidden = this.empty.hidden = this.hiddenCount.hidden = true;
  }
}

function kind(column) {
  if (column.lines) return "lines";
  return column.number ? `number ${column.short ? "short" : ""}` : column.wide ? "wide" : "words";
}

/** Writes characters that change the direction of text or have no shape as escapes: names come from other nodes. */
export function shown(text) {
  return String(text).replace(/[\p{C}\u2028\u2029]/gu, (of) => `\\u{${of.codePointAt(0).toString(16)}}`);
}
