// All about the box that the reader opened: fields, blobs, what it became, cost, checks.
import { button, bytes, grouped, html, short, svg } from "./elements.js";
import { costs, counterparts, facts } from "./facts.js";

const MOST_PRIMITIVES = 60;
const total = costs.reduce((sum, { cost }) => sum + cost.multiply_adds, 0);

/** Bars for how many numbers lie in each part of the range. */
function histogram({ counts, low, high }) {
  const width = 168;
  const height = 36;
  const most = Math.max(...counts);
  const bar = width / counts.length;
  const picture = svg("svg", {
    class: "histogram",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `distribution from ${short(low)} to ${short(high)}`,
  });
  counts.forEach((count, index) => {
    const top = count ? Math.max(1, (height * count) / most) : 0;
    picture.append(
      svg("rect", {
        x: (index * bar).toFixed(2),
        y: (height - top).toFixed(2),
        width: (bar - 0.8).toFixed(2),
        height: top.toFixed(2),
      }),
    );
  });
  return picture;
}

const table = (rows, attributes = {}) => html("table", attributes, html("tbody", {}, ...rows));
const row = (cells, attributes = {}) => html("tr", attributes, ...cells.map((cell) => html("td", {}, cell)));
const section = (title, ...children) => html("section", {}, html("h3", {}, title), ...children);

function fieldsOf({ fields }) {
  if (!fields.length) return section("Fields", html("p", { class: "soft" }, "This layer has no fields."));
  const stated = fields.filter(([, , isStated]) => isStated);
  const others = fields.filter(([, , isStated]) => !isStated);
  return section(
    "Fields",
    table(
      [
        ...stated.map(([name, text]) => row([name, text, ""], { class: "stated" })),
        ...others.map(([name, text]) => row([name, text, "default"], { class: "default" })),
      ],
      { class: "fields" },
    ),
  );
}

function blobsOf(layer) {
  const [bottom, top] = layer.words;
  const data = [...layer.bottoms.map((blob) => [bottom, blob]), ...layer.tops.map((blob) => [top, blob])];
  const rows = data.map(([word, { name, shape }]) => row([word, name, shape]));
  const measured = data.map(([, blob]) => blob).filter(({ counts }) => counts);
  const found = [
    section("Blobs", table(rows), ...measured.map((blob) => distribution(blob, "magnitudes in a calibration"))),
  ];
  if (layer.blobs.length)
    found.push(section("Weights", ...layer.blobs.map((blob) => distribution(blob, blob.shape))));
  return found;
}

/** The name of a blob, something about it, and how its numbers are distributed if that is known. */
function distribution(blob, about) {
  const head = html("p", {}, html("b", {}, blob.name), ` ${about}`);
  if (!blob.counts) return html("div", { class: "blob" }, head);
  const sampled = blob.step > 1 ? `; the bars count each ${blob.step}th number` : "";
  const range = html("p", { class: "range soft" }, `${short(blob.low)} to ${short(blob.high)}${sampled}`);
  return html("div", { class: "blob" }, head, histogram(blob), range);
}

/** What layers cost together, if that is known. */
export function totalOf(all) {
  const known = all.filter(({ cost }) => cost);
  const sum = (name) => known.reduce((total, { cost }) => total + cost[name], 0);
  return known.length
    ? { multiply_adds: sum("multiply_adds"), per_step: null, weights: sum("weights"), tops: sum("tops") }
    : undefined;
}

function costOf({ cost }) {
  if (!cost) return [];
  const share = total && cost.multiply_adds ? ` (${short((100 * cost.multiply_adds) / total)} % of the net)` : "";
  const rows = [["multiply-adds of a call", `${grouped(cost.multiply_adds)}${share}`]];
  if (cost.per_step !== null) rows.push(["multiply-adds of a step", grouped(cost.per_step)]);
  rows.push(["weights as float32", bytes(cost.weights)], ["tops as float32", bytes(cost.tops)]);
  return [section("Cost", table(rows.map((cells) => row(cells))))];
}

function checksOf({ checks }) {
  if (!checks.length) return [];
  const rows = checks.map((check) => {
    const difference = check.max_abs === null ? "∞" : check.max_abs.toExponential(1);
    return row(
      [check.blob, `${check.way} against ${check.against}`, difference, check.holds ? "holds" : "differs"],
      { class: check.holds ? "" : "bad" },
    );
  });
  return [section("Verification", table(rows))];
}

/** The primitives that a layer became, or that it has no node of its own. */
function primitivesOf(layer, goTo) {
  if (facts.drawings.length < 2) return [];
  const made = layer.boxes.filter(({ drawing, kind, items }) => drawing === 1 && (kind || items));
  if (!made.length)
    return [
      section(
        facts.stages[1],
        html(
          "p",
          { class: "soft" },
          "It has no node of its own here: it changes nothing, or another node does its work.",
        ),
      ),
    ];
  const list = made.slice(0, MOST_PRIMITIVES).map((box) => {
    const [name, ...rest] = box.parts[0][1];
    return html(
      "li",
      {},
      button(name, () => goTo(box), { class: "link" }),
      html("span", { class: "soft" }, ` ${rest.join(" ")}`),
    );
  });
  if (made.length > MOST_PRIMITIVES)
    list.push(html("li", { class: "soft" }, `and ${made.length - MOST_PRIMITIVES} more`));
  return [
    section(`${facts.stages[1]}: ${made.length} ${made.length === 1 ? "node" : "nodes"}`, html("ul", {}, ...list)),
  ];
}

const layerParts = (layer, goTo) => [
  html("p", { class: "place" }, `${layer.file}, ${layer.place}`),
  fieldsOf(layer),
  ...blobsOf(layer),
  ...primitivesOf(layer, goTo),
  ...costOf(layer),
  ...checksOf(layer),
];

/** What a node of the graph reads and writes. */
function nodeParts(box) {
  const [, ...lines] = box.parts.flatMap(([, texts]) => texts);
  return [
    ...(lines.length ? [html("p", { class: "op" }, lines.join(" "))] : []),
    ...(box.notes.length
      ? [html("ul", { class: "notes" }, ...box.notes.map((note) => html("li", {}, note)))]
      : []),
  ];
}

/** The panel. `goTo(box)` shows a box in its drawing; `closed()` is called when the panel closes. */
export function panelOf(element, { goTo, closed }) {
  const title = element.querySelector("h2");
  const body = element.querySelector(".body");

  function open(box) {
    const { layers: own } = box;
    const isNode = box.drawing === 1;
    const [other] = counterparts(box);
    const parts = isNode ? nodeParts(box) : [];
    if (other)
      parts.push(
        html(
          "p",
          {},
          button(`Show in “${facts.stages[other.drawing]}”`, () => goTo(other), { class: "other" }),
        ),
      );
    if (!own.length && !isNode) parts.push(html("p", { class: "soft" }, "An output of the net."));
    if (box.repeat)
      parts.push(
        ...costOf({ cost: totalOf(own) }),
        section(
          box.blocks > 1 ? "Blocks" : "Boxes",
          html(
            "ul",
            {},
            ...box.items.map((inner) => html("li", {}, button(inner.name, () => goTo(inner), { class: "link" }))),
          ),
        ),
      );
    for (const layer of box.repeat ? [] : own) {
      const head = html("summary", {}, html("b", {}, layer.name), ` ${layer.type}`);
      parts.push(html("details", { open: !isNode || own.length === 1 }, head, ...layerParts(layer, goTo)));
    }
    title.textContent = box.name;
    body.replaceChildren(...parts);
    body.scrollTop = 0;
    element.hidden = false;
  }

  function close() {
    element.hidden = true;
    closed();
  }

  element.querySelector(".close").addEventListener("click", close);
  return { open, close, isOpen: () => !element.hidden };
}
