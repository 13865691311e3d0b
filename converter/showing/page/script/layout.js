// Places for the boxes and arrows of a column. Graphviz is given sizes and numbers only, and no text of the net.
import { beside, lineOf, sizeOf } from "./arrows.js";
import { faceOf, LINE, MARGIN, widthOf } from "./boxes.js";
import { divisions, worth } from "./columns.js";
import { contentOf, textOf } from "./content.js";

const POINTS_PER_INCH = 72;
const BESIDE_ARROWS = 5;
const TRIED = 3;
const NEARLY_READABLE = 0.6;

const quoted = (attributes) =>
  `[${Object.entries(attributes)
    .map(([name, value]) => `${name}=${value}`)
    .join(",")}]`;

/** Room for a label: Graphviz sets it beside the arrow, with its left edge on it. */
function room(width, height) {
  const size = `WIDTH="${Math.ceil(width)}" HEIGHT="${Math.ceil(height)}"`;
  return `<<TABLE BORDER="0" FIXEDSIZE="TRUE" ${size}><TR><TD></TD></TR></TABLE>>`;
}

/** The column in Graphviz's language. */
function written(drawing, { boxes, stubs, arrows }, faces) {
  const node = (key, { width, height }) =>
    `${key} ${quoted({ width: width / POINTS_PER_INCH, height: height / POINTS_PER_INCH })};`;
  const item = (box) => {
    if (!box.items || drawing.folded.has(box)) return node(box.key, faces.get(box));
    const { width, height } = faces.get(box);
    const inside = box.items.map(item).join("\n");
    return `subgraph cluster_${box.key} { label=${room(width, height)}; margin=${MARGIN + 2};\n${inside}\n}`;
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
    "digraph {",
    "graph [nodesep=0.22, ranksep=0.28];",
    'node [label="", shape=box, fixedsize=true];',
    "edge [arrowsize=0.7];",
    ...boxes.map(item),
    ...stubs.map((stub) => node(stub.key, faces.get(stub))),
    ...arrows.map(arrow),
    "}",
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
    faces.set(stub, {
      lines: [{ text, font: "line", y: LINE - 2 }],
      rules: [],
      width: widthOf(text, "line") + MARGIN,
      height: LINE + 4,
    });
  }
  const found = JSON.parse(graphviz.layout(written(drawing, content, faces), "json0", "dot"));
  const [, , width, height] = found.bb.split(",").map(Number);
  const point = (text) => {
    const [x, y] = text.split(",").map(Number);
    return { x, y: height - y };
  };
  const objects = new Map((found.objects ?? []).map((each) => [each.name, each]));
  const placed = (thing) => {
    const face = faces.get(thing);
    const isFrame = objects.has(`cluster_${thing.key}`);
    if (isFrame) {
      const { bb, lp } = objects.get(`cluster_${thing.key}`);
      const [left, bottom, right, top] = bb.split(",").map(Number);
      const label = point(lp);
      const place = { x: left, y: height - top, width: right - left, height: top - bottom };
      return { thing, face, isFrame, ...place, title: { x: label.x, y: label.y - face.height / 2 } };
    }
    const { x, y } = point(objects.get(thing.key).pos);
    return {
      thing,
      face,
      isFrame,
      x: x - face.width / 2,
      y: y - face.height / 2,
      width: face.width,
      height: face.height,
    };
  };
  const arrows = (found.edges ?? []).map(({ id, pos, lp }) => {
    const arrow = content.arrows[id];
    const line = lineOf(pos, point);
    return { ...arrow, ...line, at: lp && beside(line.points, point(lp), sizeOf(arrow.label)) };
  });
  return { width, height, boxes: [...shown, ...content.stubs].map(placed), arrows };
}

/**
 * The columns for a sheet of this size. Estimates miss: where all of it may be readable at once, Graphviz draws the most
 * promising divisions, and the best one comes with its layouts.
 */
export function planned(graphviz, drawing, sheet) {
  const found = divisions(drawing, sheet);
  if (worth(found[0], sheet) < NEARLY_READABLE) return found[0];
  const drawn = found.slice(0, TRIED).map((columns) =>
    columns.map(({ first, end }) => {
      const layout = laidOut(graphviz, drawing, { first, end });
      return { first, end, layout, width: layout.width, height: layout.height };
    }),
  );
  return drawn.reduce((best, columns) => (worth(columns, sheet) > worth(best, sheet) ? columns : best));
}
