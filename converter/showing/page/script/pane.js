// One drawing on its sheet: columns, folding, marks, and the keyboard.
import { BETWEEN_COLUMNS } from "./columns.js";
import { svg } from "./elements.js";
import { counterparts, dissolve, isDissolved, standIn } from "./facts.js";
import { isArrow, neighbour } from "./keyboard.js";
import { laidOut, planned } from "./layout.js";
import { mapOf } from "./map.js";
import { drawnColumn } from "./picture.js";
import { viewport } from "./viewport.js";

const HIGHEST = 400;

/**
 * Draws into the section of the page. `graphviz` lays out; `chosen(box)` is called when the reader opens a box,
 * `hovered(box or null, event)` when the pointer comes to one, `toggled(frames)` when frames are folded or unfolded,
 * and `moved()` when another part of the picture is in view.
 */
export function paneOf(drawing, section, graphviz, { chosen, hovered, toggled, moved }) {
  const sheet = section.querySelector(".sheet");
  const zoomText = section.querySelector(".zoom");
  const root = svg("g");
  const picture = svg(
    "svg",
    { role: "group", "aria-label": `${drawing.stage}: ${drawing.nodes.length} boxes` },
    root,
  );
  const map = mapOf(sheet, drawing.stage, (x, y) => view.centre(x, y));
  const view = viewport(sheet, root, (scale, rectangle) => {
    zoomText.textContent = `${Math.round(scale * 100)} %`;
    picture.classList.toggle("far", scale < 0.35);
    map.follow(rectangle);
    moved();
  });
  let columns = [];
  let size = { width: 1, height: 1 };
  let isDrawn = false;
  let aim = null; // what an address shows, until it is drawn
  let current = null;
  let found = []; // by the search
  let isSame = () => false;

  const places = () => columns.flatMap(({ elements }) => [...elements.values()]);
  const placeOf = (box) => columns.map(({ elements }) => elements.get(box)).find(Boolean);
  const shown = (box) => box && standIn(drawing, box);
  const columnOf = (box) => columns.find(({ first, end }) => box.place >= first && box.place < end);

  function fill(column) {
    const layout = column.layout ?? laidOut(graphviz, drawing, column);
    const drawn = drawnColumn(layout);
    delete column.layout; // it is drawn; folding asks for another
    column.root.replaceChildren(drawn.column);
    Object.assign(column, { width: layout.width, height: layout.height, elements: drawn.elements });
  }

  function arrange() {
    let x = 0;
    for (const column of columns) {
      column.x = x;
      column.root.setAttribute("transform", `translate(${x} 0)`);
      x += column.width + BETWEEN_COLUMNS;
    }
    const heights = columns.map(({ height }) => height);
    size = { width: Math.max(1, x - BETWEEN_COLUMNS), height: Math.max(1, ...heights) };
    view.resize(size);
  }

  /** Show what an address does, or all if it can be read, or the selected or the first box. */
  function settle() {
    const aimed = aim && shown(aim.box);
    if (aimed && placeOf(aimed)) {
      const { x, y, width, height } = rectangleOf(aimed);
      view.look(aim.scale, { x: x + aim.x, y: y + aim.y, width, height }, true);
    } else view.open(headOf(current && placeOf(shown(current)) ? shown(current) : drawing.items[0]));
  }

  /** Lay everything out for the size that the sheet has now. */
  async function draw() {
    isDrawn = true;
    sheet.setAttribute("aria-busy", "true");
    map.clear();
    const mine = planned(graphviz, drawing, sheet.getBoundingClientRect()).map((column) => ({
      ...column,
      root: svg("g"),
      elements: new Map(),
    }));
    columns = mine;
    sheet.replaceChildren(picture); // in the place of a word
    root.replaceChildren(...mine.map((column) => column.root));
    arrange();
    for (const column of mine) {
      fill(column);
      arrange();
      if (column === mine[0]) settle();
      await new Promise((resume) => setTimeout(resume));
      if (columns !== mine) return; // drawn anew in the meantime
    }
    if (view.isOpening() || (aim && view.isHome())) settle();
    else view.stay();
    aim = null;
    refresh();
    focusable(current && placeOf(current) ? current : drawing.items[0]);
    sheet.removeAttribute("aria-busy");
    sheet.dispatchEvent(new Event("drawn"));
  }

  /** Draw, if that has not happened yet. The first column is there at once. */
  function begin() {
    if (!isDrawn) draw();
  }

  async function ready() {
    begin();
    if (sheet.hasAttribute("aria-busy"))
      await new Promise((resume) => sheet.addEventListener("drawn", resume, { once: true }));
  }

  /** Where a box or a stub is in the whole picture. */
  function rectangleOf(thing) {
    const column = columns.find(({ elements }) => elements.has(thing));
    const { x, y, width, height } = column.elements.get(thing);
    return { x: column.x + x, y, width, height };
  }

  /** Where a box is; of many unfolded blocks the first ones, at a size that can be read. */
  function headOf(box) {
    const { height, ...rectangle } = rectangleOf(box);
    return { ...rectangle, height: box.repeat ? Math.min(height, HIGHEST) : height };
  }

  /** What depends on all columns: the bars compare the boxes that are shown, and the map has them all. */
  function refresh() {
    const works = places().map(({ thing, isFrame }) => (isFrame ? 0 : (thing.work ?? 0)));
    root.style.setProperty("--most", Math.max(1, ...works));
    mark();
    drawMap();
  }

  function drawMap() {
    const kind = ({ thing, element }) => {
      if (thing === current) return "here";
      if (element.classList.contains("found")) return "found";
      return thing.items ? "folded" : thing.kind;
    };
    const boxes = places().filter(({ thing, isFrame }) => !thing.word && !isFrame);
    map.fill(boxes.map((place) => ({ kind: kind(place), ...rectangleOf(place.thing) })), size);
  }

  /** Fold or unfold frames, if the picture has them. */
  function setFolded(frames, isFolded) {
    if (isDissolved(drawing)) frames = frames.filter(({ repeat }) => !repeat);
    frames = frames.filter((frame) => drawing.folded.has(frame) !== isFolded);
    for (const frame of frames) drawing.folded[isFolded ? "add" : "delete"](frame);
    if (!isDrawn || !frames.length) return;
    for (const column of new Set(frames.map(columnOf))) fill(column);
    arrange();
    refresh();
  }

  function toggle(frame) {
    setFolded([frame], !drawing.folded.has(frame));
    toggled([frame], drawing.folded.has(frame));
    focusable(frame);
    placeOf(frame).element.focus({ preventScroll: true });
    view.show(headOf(frame));
  }

  /** Unfolded, it shows the first loop: what a reader wants to see inside of. */
  async function foldAll(isFolded) {
    drawing.folded = new Set(isFolded ? drawing.boxes.filter(({ items }) => items) : []);
    dissolve(drawing, !isFolded);
    await draw();
    const loop = drawing.boxes.find(({ items, repeat }) => items && !repeat);
    if (!isFolded && !current && placeOf(loop)) view.show(headOf(loop));
  }

  /** Unfold what hides the box, and bring it into view. */
  async function goTo(box) {
    await ready();
    while (box.repeat && isDissolved(drawing)) box = box.items[0];
    const hidden = box.frames.filter((frame) => drawing.folded.has(frame));
    setFolded(hidden, false);
    toggled(hidden, false);
    current = box;
    focusable(box);
    mark();
    drawMap();
    view.show(headOf(box));
  }

  /** Fold, select and show what an address says. */
  async function restore({ isAll, folded, box, look }) {
    const before = drawing.folded;
    const isChanged =
      isAll !== isDissolved(drawing) || before.size !== folded.size || ![...folded].every((frame) => before.has(frame));
    drawing.folded = folded;
    dissolve(drawing, isAll);
    current = box;
    aim = look;
    if (!isDrawn) return;
    if (isChanged) await draw();
    else {
      await ready();
      mark();
      drawMap();
      settle();
      aim = null;
    }
  }

  /** The scale, and from the middle of the nearest box to that of the sheet, if the reader has moved. */
  function place() {
    if (!isDrawn || view.isOpening()) return undefined;
    const middle = ({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 });
    const at = middle(view.inView());
    let best;
    for (const { thing, isFrame } of places()) {
      if (thing.word || isFrame) continue;
      const { x, y } = middle(rectangleOf(thing));
      const distance = Math.hypot(at.x - x, at.y - y);
      if (!best || distance < best.distance) best = { distance, box: thing, x: at.x - x, y: at.y - y };
    }
    return best && { ...best, scale: view.scale() };
  }

  /** One box can be reached with Tab; arrow keys lead from it to the others. */
  function focusable(box) {
    for (const { thing, element } of places()) element.setAttribute("tabindex", thing === box ? 0 : -1);
  }

  function mark() {
    const hits = new Set(found.map(shown));
    for (const { thing, element } of places()) {
      element.classList.toggle("found", hits.has(thing));
      element.classList.toggle("same", !thing.word && isSame(thing));
      element.classList.toggle("here", thing === current);
    }
  }

  const thingAt = (target) => places().find(({ element }) => element === target.closest?.(".box"))?.thing;

  function open(thing) {
    if (thing.word) goTo([...thing.others][0]).then(() => chosen(current));
    else {
      current = thing;
      focusable(thing);
      mark();
      drawMap();
      chosen(thing); // first: the panel takes room from the sheet
      if (thing.items) toggle(thing);
    }
  }

  sheet.addEventListener("keydown", (event) => {
    const thing = thingAt(event.target);
    if (!thing) return;
    if (event.key === "Enter" || event.key === " ") open(thing);
    else if (isArrow(event.key)) {
      const next = neighbour(
        thing,
        event.key,
        new Map(places().map((place) => [place.thing, rectangleOf(place.thing)])),
      );
      if (!next) return;
      focusable(next);
      placeOf(next).element.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  });
  sheet.addEventListener("focusin", ({ target }) => {
    const thing = thingAt(target);
    if (!thing || !target.matches(":focus-visible")) return;
    const rectangle = rectangleOf(thing);
    if (!view.sees(rectangle)) view.show(rectangle);
  });
  sheet.addEventListener("click", (event) => {
    if (event.detail > 1) return; // the second of a double click, which zooms
    const thing = thingAt(event.target);
    if (thing) open(thing);
  });
  sheet.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    const thing = thingAt(event.target);
    hovered(thing && !thing.word ? thing : null, event);
  });
  sheet.addEventListener("pointerleave", () => hovered(null));

  const commands = {
    fold: () => foldAll(true),
    unfold: () => foldAll(false),
    fit: view.fit,
    larger: view.larger,
    smaller: view.smaller,
  };
  section.querySelector(".tools").addEventListener("click", ({ target }) => commands[target.dataset.do]?.());
  if (!drawing.folded.size)
    section.querySelectorAll("[data-do=fold], [data-do=unfold]").forEach((each) => {
      each.hidden = true;
    });

  return {
    drawing,
    begin,
    goTo,
    commands,
    restore,
    place,
    setFolded,
    select: (box) => {
      current = box;
      mark();
      drawMap();
    },
    isShown: () => sheet.offsetParent !== null,
    holds: (element) => section.contains(element),
    markSame: (test) => {
      isSame = test;
      mark();
    },
    markFound: (boxes) => {
      found = boxes;
      mark();
      drawMap();
    },
    counterpart: (box) => counterparts(box)[0],
  };
}
