// A column that has been laid out, as SVG.
import { svg } from "./elements.js";
import { LABEL_LINE } from "./boxes.js";

/** A name for those who cannot see the box. */
function spoken({ thing, isFrame }) {
  if (thing.word) return `${thing.word} ${[...thing.others].map(({ name }) => name).join(", ")}`;
  const lines = thing.parts.flatMap(([, texts]) => texts).join(", ");
  const what = thing.repeat ? (thing.blocks > 1 ? "equal blocks" : "a block") : "a loop";
  return thing.items ? `${lines}; ${what}, ${isFrame ? "unfolded" : "folded"}` : lines;
}

const state = (checks) => (checks.length ? (checks.every(({ holds }) => holds) ? "holds" : "differs") : "");

/** A box: a focusable button with its text. `title` of a frame is where its lines begin. */
function boxOf(placed) {
  const { thing, face, isFrame, x, y, width, height } = placed;
  const own = thing.layers ?? [];
  const checked = state(own.flatMap(({ checks }) => checks));
  const kind = thing.word
    ? "stub"
    : thing.items
      ? `frame ${isFrame ? "open" : "folded"} ${thing.isDashed ? "surgical" : ""}`
      : thing.kind;
  const group = svg("g", {
    class: `box ${kind} ${checked}`,
    role: "button",
    tabindex: -1,
    "aria-label": spoken(placed),
    "aria-expanded": thing.items ? String(isFrame) : undefined,
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
  });
  const round = thing.kind === "end" ? Math.min(height / 2, 16) : 4;
  if (thing.items && !isFrame)
    group.append(svg("rect", { class: "behind", x: 4, y: -4, width, height, rx: round }));
  group.append(svg("rect", { class: "face", width, height, rx: round }));
  for (const rule of face.rules)
    group.append(svg("line", { class: "rule", x1: 0, x2: width, y1: rule, y2: rule }));
  const middle = isFrame ? placed.title.x - x : width / 2;
  const top = isFrame ? placed.title.y - y : 0;
  for (const line of face.lines)
    group.append(svg("text", { class: line.font, x: middle, y: top + line.y }, line.text));
  if (thing.work && !isFrame) {
    const bar = svg("rect", { class: "work", x: 1, y: height - 4, width: width - 2, height: 3 });
    bar.style.setProperty("--work", thing.work);
    group.append(bar);
  }
  if (checked) group.append(svg("circle", { class: "check", cx: width - 2, cy: 2, r: 5 }));
  return group;
}

/** The triangle at the end of an arrow. */
function headOf({ tip, base }) {
  const x = tip.x - base.x;
  const y = tip.y - base.y;
  const corner = (side) => `${(base.x - side * y * 0.42).toFixed(1)},${(base.y + side * x * 0.42).toFixed(1)}`;
  return svg("polygon", { points: `${corner(1)} ${corner(-1)} ${tip.x.toFixed(1)},${tip.y.toFixed(1)}` });
}

function arrowOf(arrow) {
  const group = svg("g", { class: `arrow ${arrow.kind ? "fed" : ""}` }, svg("path", { d: arrow.path }));
  if (arrow.tip) group.append(headOf(arrow));
  const lines = arrow.at ? arrow.label.split("\n") : [];
  lines.forEach((line, index) => {
    const y = arrow.at.y + (index - (lines.length - 1) / 2) * LABEL_LINE + 3.5;
    group.append(svg("text", { x: arrow.at.x.toFixed(1), y: y.toFixed(1) }, line));
  });
  return group;
}

/** The column's element, and those of its boxes: the ground of frames lies under arrows, and arrows under boxes. */
export function drawnColumn(layout) {
  const elements = new Map();
  const column = svg("g", { class: "column" });
  const add = (placed) => {
    const element = boxOf(placed);
    elements.set(placed.thing, { element, ...placed });
    column.append(element);
  };
  const frames = layout.boxes.filter(({ isFrame }) => isFrame);
  for (const { x, y, width, height } of frames)
    column.append(svg("rect", { class: "ground", x, y, width, height, rx: 4 }));
  column.append(...layout.arrows.map(arrowOf));
  frames.forEach(add);
  layout.boxes.filter(({ isFrame }) => !isFrame).forEach(add);
  return { column, elements };
}
