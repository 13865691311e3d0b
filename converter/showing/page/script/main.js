// The page: both drawings beside each other, linked both ways, with a panel, a search, and tables.
import { read, written } from "./address.js";
import { chartOf } from "./chart.js";
import { bytes, grouped, html } from "./elements.js";
import { costs, counterparts, drawings } from "./facts.js";
import { paneOf } from "./pane.js";
import { panelOf, totalOf } from "./panel.js";
import { searchOf } from "./search.js";
import { tabsOf } from "./tabs.js";

async function loadedGraphviz() {
  const source = document.getElementById("graphviz").textContent;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { Graphviz } = await import(url);
  URL.revokeObjectURL(url);
  return Graphviz.load();
}

const graphviz = await loadedGraphviz();
const hint = document.getElementById("hint");
const notice = document.getElementById("notice");

const REST = 300; // milliseconds
const MOST_NAMED = 3;

let opened = null; // the box in the panel
let writing; // of the address, soon

const panel = panelOf(document.getElementById("panel"), {
  goTo,
  closed: () => {
    opened = null;
    relate(null);
    for (const pane of panes) pane.select(null);
    moved();
  },
});

/** Open a box in the panel, and show its layer on the other side. */
async function chosen(box) {
  opened = box;
  hovered(null);
  panel.open(box);
  write("pushState");
  if (!tabs.isWide()) await panes[box.drawing].goTo(box); // the panel has taken room from its sheet
  for (const pane of panes) {
    if (pane.drawing.index === box.drawing) continue;
    const other = pane.counterpart(box);
    if (other && pane.isShown()) await pane.goTo(other);
    else pane.select(null);
  }
}

/** Bring a box into view, wherever it is, and open it. */
async function goTo(box) {
  tabs.select(`drawing-${box.drawing}`);
  await panes[box.drawing].goTo(box);
  await chosen(box);
}

/** Mark what is of the same layers as a box on both sides. */
function relate(box) {
  for (const pane of panes)
    pane.markSame((other) => Boolean(box) && other.layers.some((layer) => box.layers.includes(layer)));
}

/** Mark the layers of the box under the pointer, or else of the opened one, and tell what matters most of it. */
function hovered(box, event) {
  relate(box ?? opened);
  hint.hidden = !box || !event;
  if (hint.hidden) return;
  const lines = box.parts.flatMap(([, texts]) => texts).slice(1);
  const tell = (name, cost) => {
    if (cost?.multiply_adds)
      lines.push(`${name}: ${grouped(cost.multiply_adds)} multiply-adds, weights ${bytes(cost.weights)}`);
  };
  if (box.repeat) tell("together", totalOf(box.layers));
  else for (const { name, cost } of box.layers) tell(name, cost);
  hint.replaceChildren(html("b", {}, box.name), lines.join("\n"));
  hint.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8))}px`;
}

/** Repeated blocks are open on both sides or on none. */
function toggled(frames, isFolded) {
  const others = frames.filter(({ repeat }) => repeat).flatMap(counterparts);
  for (const pane of panes) pane.setFolded(others.filter(({ drawing }) => drawing === pane.drawing.index), isFolded);
  moved();
}

/** Write the address, when the view has come to rest. */
function moved() {
  clearTimeout(writing);
  writing = setTimeout(write, REST, "replaceState");
}

function write(how) {
  clearTimeout(writing);
  const part = tabs.current();
  const views = panes.map((pane) => pane.place()).filter(Boolean);
  const address = written({ part: part === "drawing-0" ? "" : part, selected: opened, views });
  const url = `${location.href.split("#")[0]}${address && `#${address}`}`;
  if (url === location.href) return;
  try {
    history[how](null, "", url);
  } catch {
    // A frame of a notebook has no address of its own.
  }
}

/** Show what the address says. */
async function restore() {
  clearTimeout(writing);
  const { all, open, folded, selected, part, views, unknown } = read(location.hash.slice(1));
  opened = selected ?? null;
  if (opened) panel.open(opened);
  else if (panel.isOpen()) panel.close();
  relate(opened);
  const restored = panes.map(async (pane) => {
    const { index, boxes } = pane.drawing;
    const isAll = all.has(pane.drawing);
    const box = opened && (opened.drawing === index ? opened : pane.counterpart(opened));
    const isFolded = (frame) =>
      frame.items && (isAll ? folded.has(frame) : !open.has(frame)) && !box?.frames.includes(frame);
    const look = views.find((each) => each.box.drawing === index);
    await pane.restore({ isAll, folded: new Set(boxes.filter(isFolded)), box, look });
  });
  tabs.select(part ?? `drawing-${opened?.drawing ?? 0}`);
  notice.hidden = !unknown.length;
  notice.textContent = `Not on this page, but in its address: ${unknown.slice(0, MOST_NAMED).join(", ")}`;
  await Promise.all(restored);
}

const panes = drawings.map((drawing) =>
  paneOf(drawing, document.querySelector(`.pane[data-drawing="${drawing.index}"]`), graphviz, {
    chosen,
    hovered,
    toggled,
    moved,
  }),
);
const shownPanes = () => panes.filter((pane) => pane.isShown());
const tabs = tabsOf(() => {
  for (const pane of shownPanes()) pane.begin();
  moved();
});
const input = searchOf({ found: (boxes) => panes.forEach((pane) => pane.markFound(boxes)), goTo });
if (costs.length) setTimeout(chartOf, 0, document.getElementById("costs"), { goTo }); // the drawings come first

document.getElementById("theme").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
});

const KEYS = { f: "fit", "+": "larger", "=": "larger", "-": "smaller" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === input) return;
  if (event.key === "/") {
    event.preventDefault();
    input.focus();
  } else if (event.key === "Escape" && panel.isOpen()) panel.close();
  else if (event.key in KEYS) {
    const focused = panes.filter((pane) => pane.holds(document.activeElement));
    for (const pane of focused.length ? focused : shownPanes()) pane.commands[KEYS[event.key]]();
  }
});

addEventListener("popstate", restore);
notice.addEventListener("click", () => {
  notice.hidden = true;
});
await restore();
document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds since the page was opened
