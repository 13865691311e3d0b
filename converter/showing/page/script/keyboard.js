// Where arrow keys lead.

const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

export const isArrow = (key) => key in DIRECTIONS;

/**
 * The nearest thing in the direction of a key, if there is one: what is aside counts twice. `rectangles` are those of
 * all things.
 */
export function neighbour(thing, key, rectangles) {
  const [right, down] = DIRECTIONS[key];
  const middle = ({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 });
  const from = middle(rectangles.get(thing));
  let best;
  let nearest = Infinity;
  for (const [other, rectangle] of rectangles) {
    const { x, y } = middle(rectangle);
    const along = (x - from.x) * right + (y - from.y) * down;
    const aside = (x - from.x) * down + (y - from.y) * right;
    const distance = along > 1 ? along + 2 * Math.abs(aside) : Infinity;
    if (distance < nearest) {
      nearest = distance;
      best = other;
    }
  }
  return best;
}
