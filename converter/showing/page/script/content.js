// What stands in a column: its boxes, its arrows, and words for the ends of arrows in other columns.
import { standIn } from "./facts.js";

const MOST_STUBS = 2;

/**
 * The boxes, stubs and arrows of a column. A stub is a word for the ends of arrows in other columns. Usually it stands
 * for one box there, or for all that reads a box here; where a box here reads many others, for all of them.
 */
export function contentOf(drawing, { first, end }) {
  const isHere = ({ place }) => place >= first && place < end;
  const ends = drawing.edges
    .map((edge) => ({ ...edge, from: standIn(drawing, edge.source), to: standIn(drawing, edge.target) }))
    .filter(({ source, target }) => isHere(source) || isHere(target))
    .filter(({ source, target, from, to }) => from !== to || (source === target && from === source));
  const read = new Map();
  for (const { from, to } of ends) if (!isHere(from)) read.set(to, (read.get(to) ?? 0) + 1);
  const stubs = new Map();
  const arrows = new Map();
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
      label: isHere(from) || !isMany ? label : "",
      kind,
    };
    arrows.set(`${arrow.source.key} ${arrow.target.key} ${arrow.label} ${kind}`, arrow);
  }
  return {
    boxes: drawing.items.slice(first, end),
    stubs: [...stubs.values()],
    arrows: [...arrows.values()],
  };
}

/** What a stub says. */
export const textOf = ({ word, others }) => {
  const [{ name }, ...more] = others;
  return `${word} ${name}${more.length ? ` and ${more.length} more` : ""}`;
};
