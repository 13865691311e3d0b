// What the page knows: the drawings with their boxes, and the layers that the boxes are of.

export const facts = JSON.parse(document.getElementById("facts").textContent);

/** Every layer: what it says, its cost if that is known, its checks, and its boxes in both drawings. */
export const layers = facts.layers.map((layer) => ({
  ...layer,
  boxes: [],
  checks: (facts.verification?.comparisons ?? []).filter((check) => check.layer === layer.name),
}));
export const costs = layers.filter(({ cost }) => cost);

/**
 * A drawing is a list of items: boxes that stand in no other. `place` is that of a box's item. A box is a node or a
 * frame around others: `key` names it in its drawing, `parts` are its lines by the number of their layer, `layers` are
 * these layers, `work` is what they cost, `frames` are the frames that it stands in, the outermost first.
 */
export const drawings = facts.drawings.map(({ items, edges }, index) => {
  const drawing = { index, stage: facts.stages[index], boxes: [], nodes: [], folded: new Set() };
  const box = (item, frames, place) => {
    const { parts, kind, notes = [], dashed: isDashed, repeat, blocks } = item;
    const lines = parts.flatMap(([, texts]) => texts);
    const stated = parts.map(([layer]) => layers[layer]).filter(Boolean);
    const own = stated.length ? stated : (frames.at(-1)?.layers ?? []); // nodes of a step net are of its operator
    const made = { drawing: index, place, frames, parts, kind, notes, isDashed, name: lines[0], layers: own, repeat, blocks };
    made.text = [...lines, ...stated.map(({ name }) => name), ...notes].join("\n").toLowerCase();
    made.key = item.items ? `f${drawing.boxes.length}` : `n${drawing.nodes.length}`;
    drawing.boxes.push(made);
    for (const layer of own) layer.boxes.push(made);
    if (item.items) {
      drawing.folded.add(made);
      made.items = item.items.map((inner) => box(inner, [...frames, made], place));
      if (repeat) made.layers = [...new Set(made.items.flatMap(({ layers }) => layers))];
    } else drawing.nodes.push(made);
    made.work = index ? 0 : made.layers.reduce((sum, { cost }) => sum + (cost?.multiply_adds ?? 0), 0);
    return made;
  };
  drawing.items = items.map((item, place) => box(item, [], place));
  drawing.edges = edges.map(([source, target, label, kind]) => ({
    source: drawing.nodes[source],
    target: drawing.nodes[target],
    label,
    kind,
  }));
  return drawing;
});

/** The frame that hides a box, or the box itself. */
export const standIn = (drawing, box) => box.frames.find((frame) => drawing.folded.has(frame)) ?? box;

/** Show repeated blocks as boxes and frames, or only what is in them: columns then end between their layers. */
export function dissolve(drawing, isAll) {
  drawing.whole ??= drawing.items;
  const inside = (box) => (box.repeat ? box.items.flatMap(inside) : [box]);
  drawing.items = isAll ? drawing.whole.flatMap(inside) : drawing.whole;
  drawing.items.forEach(function number(box, place) {
    box.place = place;
    box.items?.forEach((inner) => number(inner, place));
  });
}

export const isDissolved = ({ whole, items }) => whole !== undefined && whole !== items;

/** How many nodes there are in a frame and in the frames in it. */
export const nodeCount = (frame) =>
  frame.items.reduce((sum, inner) => sum + (inner.items ? nodeCount(inner) : 1), 0);

/** The boxes of the same layers in the other drawing, those first that surgery did not make; or the same input or output. */
export function counterparts(box) {
  if (box.repeat)
    return drawings.flatMap(({ boxes }) =>
      boxes.filter(({ drawing, repeat }) => drawing !== box.drawing && repeat === box.repeat),
    );
  const isSurgical = ({ kind, isDashed }) => Boolean(isDashed || kind === "surgical");
  const others = [...new Set(box.layers.flatMap(({ boxes }) => boxes))]
    .filter(({ drawing }) => drawing !== box.drawing)
    .sort((a, b) => a.frames.length - b.frames.length || isSurgical(a) - isSurgical(b));
  const isSameEnd = (other) => other.kind === "end" && !other.frames.length && other.name === box.name;
  return others.length || box.kind !== "end"
    ? others
    : drawings.filter(({ index }) => index !== box.drawing).flatMap(({ boxes }) => boxes.filter(isSameEnd));
}
