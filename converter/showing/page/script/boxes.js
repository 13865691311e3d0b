// The text of each box and the room that it needs, measured with the fonts of the page.
import { nodeCount } from "./facts.js";

const FAMILY = getComputedStyle(document.body).fontFamily;
const FONTS = { name: `600 12px ${FAMILY}`, line: `11px ${FAMILY}`, label: `10px ${FAMILY}` };
export const LINE = 15;
export const LABEL_LINE = 13;
export const MARGIN = 8;
const WIDEST = 250;
const WIDE_ENOUGH = 110;
const BETWEEN_PARTS = 5;

const canvas = document.createElement("canvas").getContext("2d");
const widths = new Map();

export function widthOf(text, font) {
  const key = `${font} ${text}`;
  if (!widths.has(key)) {
    canvas.font = FONTS[font];
    widths.set(key, canvas.measureText(text).width);
  }
  return widths.get(key);
}

/** The text without its middle, if it is wider than that. */
function shortened(text, font, widest) {
  if (widthOf(text, font) <= widest) return text;
  let kept = text.length - 1;
  const cut = () => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
  while (kept > 8 && widthOf(cut(), font) > widest) kept -= 1;
  return cut();
}

/** The lines of a box with their places, its width and height, and where lines between its parts are drawn. */
export function faceOf(drawing, box) {
  const isFolded = box.items && drawing.folded.has(box);
  const parts = isFolded ? [...box.parts, [null, [`${nodeCount(box)} nodes; click to unfold`]]] : box.parts;
  const lines = [];
  const rules = [];
  let y = MARGIN;
  let widest = WIDEST;
  parts.forEach(([, texts], part) => {
    if (part && !isFolded) {
      rules.push(y + BETWEEN_PARTS / 2);
      y += BETWEEN_PARTS;
    }
    texts.forEach((text, at) => {
      const font = part === 0 && at === 0 ? "name" : "line";
      lines.push({ text: shortened(text, font, widest), font, y: y + LINE - 4 });
      y += LINE;
    });
    // Long names of layers that work in place widen no box.
    if (!part && !isFolded) widest = Math.max(WIDE_ENOUGH, ...lines.map((line) => widthOf(line.text, line.font)));
  });
  const width = Math.max(40, ...lines.map(({ text, font }) => widthOf(text, font))) + 2 * MARGIN;
  return { lines, rules, width: Math.ceil(width), height: y + MARGIN - 2 };
}
