// Columns like those of a newspaper: a long net fills the screen instead of a thin strip of it.
import { faceOf } from "./boxes.js";
import { standIn } from "./facts.js";

const BETWEEN_RANKS = 36;
const BETWEEN_BOXES = 18;
const MOST_COLUMNS = 24;
const FULL = 0.7; // of its height, a column is full enough to be cut where few arrows cross
const FOR_EACH_CUT = 0.96; // what a reader would rather lose in size than follow an arrow to another column
export const BETWEEN_COLUMNS = 44;

/** The arrows by the boxes that they reach, and how many boxes have arrows across the cut before each item. */
function arrowsOf(drawing) {
  const before = new Map();
  const lasts = new Map();
  for (const { source, target, kind } of drawing.edges) {
    const from = standIn(drawing, source);
    const to = standIn(drawing, target);
    if (kind === "fed back" || from === to) continue;
    before.set(to, [...(before.get(to) ?? []), from]);
    lasts.set(from, Math.max(to.place, lasts.get(from) ?? 0));
  }
  const crossing = new Array(drawing.items.length + 1).fill(0);
  for (const [from, last] of lasts)
    for (let place = from.place + 1; place <= last; place += 1) crossing[place] += 1;
  return { before, crossing };
}

/**
 * The columns that begin at an item, each with one item more, up to a height. A size is about what Graphviz draws: boxes
 * in ranks, by the longest ways to them.
 */
function columnsFrom(first, items, most, before) {
  const ranks = new Map();
  const rows = [];
  const found = [];
  let width = 0;
  let height = 0;
  for (let place = first; place < items.length; place += 1) {
    for (const { box, ...size } of items[place]) {
      const rank = Math.max(-1, ...(before.get(box) ?? []).map((source) => ranks.get(source) ?? -1)) + 1;
      ranks.set(box, rank);
      if (!rows[rank]) height += BETWEEN_RANKS;
      const row = (rows[rank] ??= { width: 0, height: 0 });
      row.width += size.width + BETWEEN_BOXES;
      width = Math.max(width, row.width);
      height += Math.max(0, size.height - row.height);
      row.height = Math.max(row.height, size.height);
    }
    if (height > most && found.length) break;
    found.push({ first, end: place + 1, width, height });
  }
  return found;
}

/** The items in columns no higher than `most`, but for items that are higher. */
function packed(items, most, { before, crossing }) {
  const columns = [];
  while ((columns.at(-1)?.end ?? 0) < items.length) {
    const found = columnsFrom(columns.at(-1)?.end ?? 0, items, most, before);
    const longest = found.at(-1);
    const full = found.filter(({ height }) => height >= FULL * longest.height);
    const best = full.reduce((a, b) => (crossing[b.end] <= crossing[a.end] ? b : a));
    columns.push(longest.end === items.length ? longest : best);
  }
  return columns;
}

/** How large columns beside each other can be shown. */
function scaleOf(columns, sheet) {
  const width = columns.reduce((sum, column) => sum + column.width + BETWEEN_COLUMNS, -BETWEEN_COLUMNS);
  return Math.min(1, sheet.width / width, sheet.height / Math.max(...columns.map(({ height }) => height)));
}

/** How large a division is shown, less what its cuts cost the reader. */
export const worth = (columns, sheet) => scaleOf(columns, sheet) * FOR_EACH_CUT ** (columns.length - 1);

/**
 * Ways to divide a drawing into columns, as ranges of items with about their sizes. Those that are worth most come
 * first.
 */
export function divisions(drawing, sheet) {
  const arrows = arrowsOf(drawing);
  const items = drawing.items.map(function shown(box) {
    return box.items && !drawing.folded.has(box) ? box.items.flatMap(shown) : [{ box, ...faceOf(drawing, box) }];
  });
  const [{ height }] = packed(items, Infinity, arrows);
  const found = [];
  for (let count = 1; count <= Math.min(MOST_COLUMNS, items.length); count += 1) {
    const columns = packed(items, (1.15 * height) / count, arrows);
    if (found.at(-1)?.length !== columns.length) found.push(columns);
  }
  return found.sort((a, b) => worth(b, sheet) - worth(a, sheet));
}
