// What each layer costs, as bars.
import { button, bytes, grouped, html } from "./elements.js";
import { costs } from "./facts.js";

const SHOWN_ROWS = 60;
const work = ({ cost }) => cost.multiply_adds;
const memory = ({ cost }) => cost.weights + cost.tops;
const ORDERS = {
  order: () => 0,
  multiply_adds: (a, b) => work(b) - work(a),
  memory: (a, b) => memory(b) - memory(a),
};

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
  const body = section.querySelector("tbody");
  const every = document.getElementById("every");
  const sum = (name) => costs.reduce((total, { cost }) => total + cost[name], 0);
  const most = Math.max(...costs.map(work));
  const largest = Math.max(...costs.map(memory));
  let order = "order";
  let isComplete = false;

  function fill() {
    const rows = [...costs].sort(ORDERS[order]);
    body.replaceChildren(
      ...(isComplete ? rows : rows.slice(0, SHOWN_ROWS)).map((layer) =>
        html(
          "tr",
          {},
          html(
            "td",
            {},
            button(layer.name, () => goTo(layer.boxes[0]), {
              class: "link",
              title: `${layer.name}, ${layer.place}`,
            }),
          ),
          html("td", {}, layer.type),
          bar([["work", work(layer)]], most, work(layer) ? grouped(work(layer)) : ""),
          bar(
            [
              ["weights", layer.cost.weights],
              ["tops", layer.cost.tops],
            ],
            largest,
            bytes(memory(layer)),
          ),
        ),
      ),
    );
    every.hidden = isComplete || rows.length <= SHOWN_ROWS;
    every.textContent = `Show all ${rows.length} layers`;
  }

  section.querySelector(".totals").textContent =
    `${costs.length} layers, ${grouped(sum("multiply_adds"))} multiply-adds a call, ` +
    `weights ${bytes(sum("weights"))}, tops ${bytes(sum("tops"))} (as float32)`;
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
