// Pieces in columns like those of a newspaper: a long net fills the screen instead of a thin strip of it.
import { faceOf } from "./boxes.js";
import { standIn } from "./facts.js";

const BETWEEN_RANKS = 36;
const BETWEEN_BOXES = 18;
const MOST_COLUMNS = 24;
const FOR_EACH_CUT = 0.96; // what a reader would rather lose in size than follow an arrow to another column
export const BETWEEN_COLUMNS = 44;

/** A column without pieces. Its size will be about what Graphviz draws: boxes in ranks, by the longest ways to them. */
function columnFrom(first) {
  return { first, end: first, width: 0, height: 0, ranks: new Map(), rows: [] };
}

/** The column with one more piece. */
function withPiece({ first, end, ranks, rows }, piece, before) {
  for (const { box, width, height } of piece) {
    const rank = Math.max(-1, ...(before.get(box) ?? []).map((source) => ranks.get(source) ?? -1)) + 1;
    ranks.set(box, rank);
    const row = (rows[rank] ??= { width: 0, height: 0 });
    row.width += width + BETWEEN_BOXES;
    row.height = Math.max(row.height, height);
  }
  return {
    first,
    end: end + 1,
    ranks,
    rows,
    width: Math.max(...rows.map((row) => row.width)),
    height: rows.reduce((sum, row) => sum + row.height + BETWEEN_RANKS, 0),
  };
}

/** How large columns beside each other can be shown. */
function scaleOf(columns, sheet) {
  const width = columns.reduce((sum, column) => sum + column.width + BETWEEN_COLUMNS, -BETWEEN_COLUMNS);
  return Math.min(1, sheet.width / width, sheet.height / Math.max(...columns.map(({ height }) => height)));
}

/** The pieces in columns no higher than `most`, but for pieces that are higher. */
function packed(pieces, most, before) {
  const columns = [columnFrom(0)];
  pieces.forEach((piece, index) => {
    const longer = withPiece(columns.at(-1), piece, before);
    if (longer.height <= most || columns.at(-1).end === columns.at(-1).first) columns[columns.length - 1] = longer;
    else columns.push(withPiece(columnFrom(index), piece, before));
  });
  return columns;
}

/**
 * Ways to divide a drawing into columns, as ranges of pieces with about their sizes. Those that are worth most come
 * first.
 */
export function divisions(drawing, sheet) {
  const before = new Map();
  for (const { source, target, kind } of drawing.edges) {
    const [from, to] = [standIn(drawing, source), standIn(drawing, target)];
    if (kind !== "fed back" && from !== to) before.set(to, [...(before.get(to) ?? []), from]);
  }
  const pieces = drawing.pieces.map((piece) =>
    piece.flatMap(function shown(box) {
      return box.items && !drawing.folded.has(box) ? box.items.flatMap(shown) : [{ box, ...faceOf(drawing, box) }];
    }),
  );
  const [whole] = packed(pieces, Infinity, before);
  const found = [];
  for (let count = 1; count <= Math.min(MOST_COLUMNS, pieces.length); count += 1) {
    const columns = packed(pieces, (1.1 * whole.height) / count, before);
    if (found.at(-1)?.length !== columns.length) found.push(columns);
  }
  return found.sort((a, b) => worth(b, sheet) - worth(a, sheet));
}

/** How large a division is shown, less what its cuts cost the reader. */
export const worth = (columns, sheet) => scaleOf(columns, sheet) * FOR_EACH_CUT ** (columns.length - 1);
