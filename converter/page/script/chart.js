// What each layer costs, as bars.
import { button, bytes, grouped, html } from "./elements.js";
import { facts, layers } from "./facts.js";

const SHOWN_ROWS = 60;
const memory = ({ weights, tops }) => weights + tops;
const ORDERS = { order: null, multiply_adds: (a, b) => b.multiply_adds - a.multiply_adds, memory: (a, b) => memory(b) - memory(a) };

function bar(parts, largest, text) {
  const strips = parts.map(([name, size]) => {
    const strip = html("i", { class: name });
    strip.style.width = `${largest ? (65 * size) / largest : 0}%`;
    return strip;
  });
  return html("td", {}, html("div", { class: "cost" }, ...strips, html("b", {}, text)));
}

/** Fill the chart; `goTo(box)` brings the box of a layer into view. */
export function chartOf(section, { goTo }) {
  const body = section.querySelector("tbody"), every = document.getElementById("every");
  const { costs } = facts, sum = (name) => costs.reduce((total, layer) => total + layer[name], 0);
  const most = Math.max(...costs.map((layer) => layer.multiply_adds)), largest = Math.max(...costs.map(memory));
  let order = "order", isComplete = false;

  function fill() {
    const rows = ORDERS[order] ? [...costs].sort(ORDERS[order]) : costs;
    body.replaceChildren(...(isComplete ? rows : rows.slice(0, SHOWN_ROWS)).map((layer) => html("tr", {},
      html("td", {}, button(layer.name, () => goTo(layers.get(layer.name).boxes[0]), { class: "link", title: `${layer.name}, line ${layer.line}` })),
      html("td", {}, layer.type),
      bar([["work", layer.multiply_adds]], most, layer.multiply_adds ? grouped(layer.multiply_adds) : ""),
      bar([["weights", layer.weights], ["tops", layer.tops]], largest, bytes(memory(layer))),
    )));
    every.hidden = isComplete || rows.length <= SHOWN_ROWS;
    every.textContent = `Show all ${rows.length} layers`;
  }

  section.querySelector(".totals").textContent =
    `${costs.length} layers, ${grouped(sum("multiply_adds"))} multiply-adds a call, weights ${bytes(sum("weights"))}, tops ${bytes(sum("tops"))} (as float32)`;
  const orders = section.querySelectorAll("[data-sort]");
  for (const choice of orders)
    choice.addEventListener("click", () => {
      order = choice.dataset.sort;
      for (const other of orders) other.setAttribute("aria-pressed", other === choice);
      fill();
    });
  every.addEventListener("click", () => {
    isComplete = true;
    fill();
  });
  fill();
}
