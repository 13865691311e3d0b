// The address tells what is open, selected and in view, so that a link shows the same place.
import { counterparts, drawings, isDissolved } from "./facts.js";

const ids = new Map();
const boxes = new Map();
for (const drawing of drawings) {
  const counts = new Map();
  for (const box of drawing.boxes) {
    const count = (counts.get(box.name) ?? 0) + 1;
    counts.set(box.name, count);
    const id = `${drawing.index}${count > 1 ? `.${count}` : ""}:${box.name}`;
    ids.set(box, id);
    boxes.set(id, box);
  }
}

/**
 * What follows `#`. Repeated blocks are folded alike on both sides, and named once. A view is a scale, and where its
 * middle is from the middle of a box: columns differ by windows.
 */
export function written({ part, selected, views }) {
  const words = new URLSearchParams();
  if (part) words.append("part", part);
  for (const drawing of drawings) {
    const { index } = drawing;
    const isAll = isDissolved(drawing);
    if (isAll) words.append("all", index);
    const isNamedBefore = (other) => other.drawing < index && !isDissolved(drawings[other.drawing]);
    const isNamed = (box) => !box.repeat || !(isAll || counterparts(box).some(isNamedBefore));
    for (const box of drawing.boxes)
      if (box.items && drawing.folded.has(box) === isAll && isNamed(box))
        words.append(isAll ? "folded" : "open", ids.get(box));
  }
  if (selected) words.append("box", ids.get(selected));
  for (const { scale, x, y, box } of views)
    words.append("view", [scale.toFixed(3), Math.round(x), Math.round(y), ids.get(box)].join());
  return words.toString().replace(/%(2C|2F|3A)/g, decodeURIComponent);
}

/** What an address says, and in `unknown` what is not on this page. */
export function read(text) {
  const state = { all: new Set(), open: new Set(), folded: new Set(), views: [], unknown: [] };
  const box = (id, isFitting = () => true) => {
    const named = boxes.get(id);
    if (named && isFitting(named)) return named;
    state.unknown.push(id.replace(/^[\d.]*:/, ""));
  };
  const frame = (set) => (id) => {
    const named = box(id, ({ items }) => items);
    if (named) [named, ...(named.repeat ? counterparts(named) : [])].forEach((each) => set.add(each));
  };
  const words = {
    part: (id) => {
      if (document.getElementById(id)?.matches("[role=tabpanel]")) state.part = id;
      else state.unknown.push(id);
    },
    all: (index) => {
      if (drawings[index]) state.all.add(drawings[index]);
      else state.unknown.push(index);
    },
    open: frame(state.open),
    folded: frame(state.folded),
    box: (id) => {
      state.selected = box(id);
    },
    view: (value) => {
      const [, scale, x, y, id] = /^(\d*\.?\d+),(-?\d+),(-?\d+),(.*)$/s.exec(value) ?? [];
      const named = box(id ?? value);
      if (named) state.views.push({ scale: Number(scale), x: Number(x), y: Number(y), box: named });
    },
  };
  for (const [word, value] of new URLSearchParams(text))
    if (Object.hasOwn(words, word)) words[word](value);
    else state.unknown.push(word);
  return state;
}
