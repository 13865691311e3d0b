// What the page knows: the drawings with their boxes, and the layers that the boxes are of.

export const facts = JSON.parse(document.getElementById("facts").textContent);

/** Every layer by its name: what it says, its cost, its checks, and the boxes of both drawings that are of it. */
export const layers = new Map(facts.layers.map((layer) => [layer.name, { ...layer, boxes: [], checks: [] }]));
for (const cost of facts.costs) layers.get(cost.name).cost = cost;
for (const check of facts.verification?.comparisons ?? []) layers.get(check.layer)?.checks.push(check);

/**
 * A drawing is a list of pieces, each a list of boxes. A box is a node or a frame around others: `key` names it in
 * its drawing, `parts` are its lines by layer, `frames` are the frames that it stands in, the outermost first.
 */
export const drawings = facts.drawings.map(({ title, pieces, edges }, index) => {
  const drawing = { index, title, stage: facts.stages[index], boxes: [], nodes: [], folded: new Set() };
  const box = (item, frames, piece) => {
    const parts = item.parts ?? [[item.layer, item.lines]];
    const made = { drawing: index, piece, frames, parts, kind: item.kind, notes: item.notes ?? [], isDashed: item.dashed };
    made.name = parts[0][1][0];
    made.layers = parts.map(([layer]) => layer).filter((layer) => layers.has(layer));
    made.text = [...parts.flatMap(([layer, lines]) => [layer ?? "", ...lines]), ...made.notes].join("\n").toLowerCase();
    made.key = item.items ? `f${drawing.boxes.length}` : `n${drawing.nodes.length}`;
    drawing.boxes.push(made);
    for (const layer of made.layers) layers.get(layer).boxes.push(made);
    if (item.items) {
      drawing.folded.add(made);
      made.items = item.items.map((inner) => box(inner, [...frames, made], piece));
    } else drawing.nodes.push(made);
    return made;
  };
  drawing.pieces = pieces.map((items, piece) => items.map((item) => box(item, [], piece)));
  drawing.edges = edges.map(([source, target, label, kind]) => ({
    source: drawing.nodes[source], target: drawing.nodes[target], label, kind,
  }));
  return drawing;
});

/** The frame that hides a box, or the box itself. */
export const standIn = (drawing, box) => box.frames.find((frame) => drawing.folded.has(frame)) ?? box;

/** How many nodes there are in a frame and in the frames in it. */
export const nodeCount = (frame) => frame.items.reduce((sum, inner) => sum + (inner.items ? nodeCount(inner) : 1), 0);

/** The boxes of the other drawing that are of the same layers, with the one first that is called so; or the same input or output. */
export function counterparts(box) {
  const isSurgical = ({ kind, isDashed }) => Boolean(isDashed || kind === "surgical");
  const others = [...new Set(box.layers.flatMap((name) => layers.get(name).boxes))]
    .filter(({ drawing }) => drawing !== box.drawing)
    .sort((a, b) => a.frames.length - b.frames.length || isSurgical(a) - isSurgical(b));
  const isSameEnd = (other) => other.kind === "end" && !other.frames.length && other.name === box.name;
  return others.length || box.kind !== "end" ? others : drawings.filter(({ index }) => index !== box.drawing).flatMap(({ boxes }) => boxes.filter(isSameEnd));
}
