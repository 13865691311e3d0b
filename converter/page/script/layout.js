// Places for the boxes and arrows of a column. Graphviz is given sizes and numbers only, and no text of the net.
import { faceOf, LABEL_LINE, LINE, MARGIN, widthOf } from "./boxes.js";
import { divisions, worth } from "./columns.js";
import { standIn } from "./facts.js";

const POINTS_PER_INCH = 72, BESIDE_ARROWS = 5, MOST_STUBS = 2, MOST_TRIED = 120, TRIED = 3;

const CLOSE = 4; // pixels between the points of an arrow that are held against its label
const SHIFTS = [[0, 0], [0.25, 0], [-0.25, 0], [0, -0.75], [0, 0.75], [0.5, 0], [-0.5, 0], [0, -1.25], [0, 1.25]]; // in sizes of the label

const quoted = (attributes) => `[${Object.entries(attributes).map(([name, value]) => `${name}=${value}`).join(",")}]`;

function sizeOf(label) {
  const lines = label.split("\n");
  return { width: Math.max(...lines.map((line) => widthOf(line, "label"))), height: lines.length * LABEL_LINE };
}

/** Room for a label: Graphviz sets it beside the arrow, with its left edge on it. */
const room = (width, height) =>
  `<<TABLE BORDER="0" FIXEDSIZE="TRUE" WIDTH="${Math.ceil(width)}" HEIGHT="${Math.ceil(height)}"><TR><TD></TD></TR></TABLE>>`;

/**
 * The boxes, stubs and arrows of a column. A stub is a word for the ends of arrows in other columns. Usually it stands for
 * one box there, or for all that reads a box here; where a box here reads many others, for all of them.
 */
function contentOf(drawing, { first, end }) {
  const isHere = (box) => box.piece >= first && box.piece < end;
  const ends = drawing.edges
    .map((edge) => ({ ...edge, from: standIn(drawing, edge.source), to: standIn(drawing, edge.target) }))
    .filter(({ source, target, from, to }) => (isHere(source) || isHere(target)) && (from !== to || source === target));
  const read = new Map();
  for (const { from, to } of ends) if (!isHere(from)) read.set(to, (read.get(to) ?? 0) + 1);
  const stubs = new Map(), arrows = new Map();
  const stub = (word, about, other) => {
    const key = `${word} ${about.key}`;
    if (!stubs.has(key)) stubs.set(key, { key: `s${stubs.size}`, word, others: new Set() });
    stubs.get(key).others.add(other);
    return stubs.get(key);
  };
  for (const { from, to, label, kind } of ends) {
    const isMany = read.get(to) > MOST_STUBS;
    const arrow = {
      source: isHere(from) ? from : stub("from", isMany ? to : from, from),
      target: isHere(to) ? to : stub("to", from, to),
      label: isHere(from) || !isMany ? label : "", kind,
    };
    arrows.set(`${arrow.source.key} ${arrow.target.key} ${arrow.label} ${kind}`, arrow);
  }
  return { boxes: drawing.pieces.slice(first, end).flat(), stubs: [...stubs.values()], arrows: [...arrows.values()] };
}

const textOf = ({ word, others }) => {
  const [{ name }, ...more] = others;
  return `${word} ${name}${more.length ? ` and ${more.length} more` : ""}`;
};

/** The column in Graphviz's language. */
function written(drawing, { boxes, stubs, arrows }, faces) {
  const node = (key, { width, height }) =>
    `${key} ${quoted({ width: width / POINTS_PER_INCH, height: height / POINTS_PER_INCH })};`;
  const item = (box) => {
    if (!box.items || drawing.folded.has(box)) return node(box.key, faces.get(box));
    const { width, height } = faces.get(box);
    return `subgraph cluster_${box.key} { label=${room(width, height)}; margin=${MARGIN + 2};\n${box.items.map(item).join("\n")}\n}`;
  };
  const arrow = ({ source, target, label, kind }, index) => {
    const { width, height } = sizeOf(label);
    return `${source.key} -> ${target.key} ${quoted({
      id: index,
      ...(label && { label: room(width + 2 * BESIDE_ARROWS, height) }),
      ...(kind === "fed back" && { constraint: false }),
    })};`;
  };
  return [
    "digraph {", "graph [nodesep=0.22, ranksep=0.28];", 'node [label="", shape=box, fixedsize=true];', "edge [arrowsize=0.7];",
    ...boxes.map(item), ...stubs.map((stub) => node(stub.key, faces.get(stub))), ...arrows.map(arrow), "}",
  ].join("\n");
}

/** Where everything in a column is: from its upper left corner, in pixels. */
export function laidOut(graphviz, drawing, column) {
  const content = contentOf(drawing, column);
  const shown = content.boxes.flatMap(function all(box) {
    return box.items && !drawing.folded.has(box) ? [box, ...box.items.flatMap(all)] : [box];
  });
  const faces = new Map(shown.map((box) => [box, faceOf(drawing, box)]));
  for (const stub of content.stubs) {
    const text = textOf(stub);
    faces.set(stub, { lines: [{ text, font: "line", y: LINE - 2 }], rules: [], width: widthOf(text, "line") + MARGIN, height: LINE + 4 });
  }
  const found = JSON.parse(graphviz.layout(written(drawing, content, faces), "json0", "dot"));
  const [, , width, height] = found.bb.split(",").map(Number);
  const point = (text) => {
    const [x, y] = text.split(",").map(Number);
    return { x, y: height - y };
  };
  const objects = new Map((found.objects ?? []).map((each) => [each.name, each]));
  const placed = (thing) => {
    const face = faces.get(thing), isFrame = objects.has(`cluster_${thing.key}`);
    if (isFrame) {
      const { bb, lp } = objects.get(`cluster_${thing.key}`);
      const [left, bottom, right, top] = bb.split(",").map(Number), label = point(lp);
      const place = { x: left, y: height - top, width: right - left, height: top - bottom };
      return { thing, face, isFrame, ...place, title: { x: label.x, y: label.y - face.height / 2 } };
    }
    const { x, y } = point(objects.get(thing.key).pos);
    return { thing, face, isFrame, x: x - face.width / 2, y: y - face.height / 2, width: face.width, height: face.height };
  };
  const arrows = (found.edges ?? []).map(({ id, pos, lp }) => {
    const arrow = content.arrows[id], line = lineOf(pos, point);
    return { ...arrow, ...line, at: lp && beside(line.points, point(lp), sizeOf(arrow.label)) };
  });
  return { width, height, boxes: [...shown, ...content.stubs].map(placed), arrows };
}

/**
 * The columns for a sheet of this size. Estimates miss: for a small drawing, Graphviz draws the most promising divisions,
 * and the best one comes with its layouts.
 */
export function planned(graphviz, drawing, sheet) {
  const found = divisions(drawing, sheet);
  if (drawing.boxes.filter((box) => standIn(drawing, box) === box).length > MOST_TRIED) return found[0];
  const drawn = found.slice(0, TRIED).map((columns) => columns.map(({ first, end }) => {
    const layout = laidOut(graphviz, drawing, { first, end });
    return { first, end, layout, width: layout.width, height: layout.height };
  }));
  return drawn.reduce((best, columns) => (worth(columns, sheet) > worth(best, sheet) ? columns : best));
}

/** The path of an arrow, and its tip. Graphviz gives the tip first, then the points of Bézier curves. */
function lineOf(pos, point) {
  const parts = pos.split(" "), tip = parts[0].startsWith("e,") ? point(parts.shift().slice(2)) : undefined;
  const points = parts.map(point), words = points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  return { path: `M${words[0]}C${words.slice(1).join(" ")}`, points, tip, base: points.at(-1) };
}

/** A place for a label that its own arrow does not cross: Graphviz lets flat arrows cross theirs. */
function beside(points, at, { width, height }) {
  const passed = [];
  for (let start = 0; start + 3 < points.length; start += 3) {
    const curve = points.slice(start, start + 4), steps = Math.ceil(Math.hypot(curve[3].x - curve[0].x, curve[3].y - curve[0].y) / CLOSE) + 1;
    for (let step = 0; step <= steps; step += 1) passed.push(onCurve(curve, step / steps));
  }
  const isFree = ([right, down]) =>
    !passed.some(({ x, y }) => Math.abs(x - at.x - right) < width / 2 + 2 && Math.abs(y - at.y - down) < height / 2 + 1);
  const [right, down] = SHIFTS.map(([x, y]) => [x * width, y * height]).find(isFree) ?? [0, 0];
  return { x: at.x + right, y: at.y + down };
}

function onCurve([a, b, c, d], t) {
  const at = (axis) => (1 - t) ** 3 * a[axis] + 3 * (1 - t) ** 2 * t * b[axis] + 3 * (1 - t) * t ** 2 * c[axis] + t ** 3 * d[axis];
  return { x: at("x"), y: at("y") };
}
