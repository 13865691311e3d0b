// The paths of arrows as Graphviz gives them, and places for their labels.
import { LABEL_LINE, widthOf } from "./boxes.js";

const CLOSE = 4; // pixels between the points of an arrow that are held against its label
const SHIFTS = [
  [0, 0],
  [0.25, 0],
  [-0.25, 0],
  [0, -0.75],
  [0, 0.75],
  [0.5, 0],
  [-0.5, 0],
  [0, -1.25],
  [0, 1.25],
]; // in sizes of the label

/** The room that a label takes. */
export function sizeOf(label) {
  const lines = label.split("\n");
  return { width: Math.max(...lines.map((line) => widthOf(line, "label"))), height: lines.length * LABEL_LINE };
}

/** The path of an arrow, and its tip. Graphviz gives the tip first, then the points of Bézier curves. */
export function lineOf(pos, point) {
  const parts = pos.split(" ");
  const tip = parts[0].startsWith("e,") ? point(parts.shift().slice(2)) : undefined;
  const points = parts.map(point);
  const words = points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  return { path: `M${words[0]}C${words.slice(1).join(" ")}`, points, tip, base: points.at(-1) };
}

/** A place for a label that its own arrow does not cross: Graphviz lets flat arrows cross theirs. */
export function beside(points, at, { width, height }) {
  const passed = [];
  for (let start = 0; start + 3 < points.length; start += 3) {
    const curve = points.slice(start, start + 4);
    const steps = Math.ceil(Math.hypot(curve[3].x - curve[0].x, curve[3].y - curve[0].y) / CLOSE) + 1;
    for (let step = 0; step <= steps; step += 1) passed.push(onCurve(curve, step / steps));
  }
  const isFree = ([right, down]) =>
    !passed.some(
      ({ x, y }) => Math.abs(x - at.x - right) < width / 2 + 2 && Math.abs(y - at.y - down) < height / 2 + 1,
    );
  const [right, down] = SHIFTS.map(([x, y]) => [x * width, y * height]).find(isFree) ?? [0, 0];
  return { x: at.x + right, y: at.y + down };
}

function onCurve([a, b, c, d], t) {
  const at = (axis) =>
    (1 - t) ** 3 * a[axis] + 3 * (1 - t) ** 2 * t * b[axis] + 3 * (1 - t) * t ** 2 * c[axis] + t ** 3 * d[axis];
  return { x: at("x"), y: at("y") };
}
