// A small map of a whole drawing, with a frame around what is in view.
import { svg } from "./elements.js";
import { contains } from "./viewport.js";

const HIGHEST = 90;
const NARROWEST = 30;
const MARGIN = 16; // beside it, at most
const STEPS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** A map below a sheet. `move(x, y)` brings a point of the picture to the middle of the sheet. */
export function mapOf(sheet, stage, move) {
  const boxes = svg("g");
  const view = svg("rect", { class: "view" });
  const map = svg(
    "svg",
    {
      class: "map",
      tabindex: 0,
      role: "group",
      "aria-label": `Map of “${stage}”: arrow keys move the view`,
      preserveAspectRatio: "none",
      hidden: true,
    },
    boxes,
    view,
  );
  let size = { width: 1, height: 1 };
  let seen = { x: 0, y: 0, width: 1, height: 1 };
  sheet.after(map);

  function show() {
    map.toggleAttribute("hidden", !boxes.childElementCount || contains(seen, { x: 0, y: 0, ...size }));
    for (const [name, value] of Object.entries(seen)) view.setAttribute(name, value.toFixed(1));
  }

  /** Draw rectangles with their classes, in a picture of a size. */
  function fill(rectangles, whole) {
    const paths = {};
    for (const { kind, x, y, width, height } of rectangles)
      (paths[kind] ??= []).push(`M${Math.round(x)} ${Math.round(y)}h${width}v${height}h${-width}z`);
    const pathOf = ([kind, path]) => svg("path", { class: `map-${kind}`, d: path.join("") });
    boxes.replaceChildren(...Object.entries(paths).map(pathOf));
    size = whole;
    const scale = Math.min(HIGHEST / size.height, Math.max(1, sheet.clientWidth - MARGIN) / size.width);
    map.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    map.setAttribute("width", Math.max(NARROWEST, size.width * scale));
    map.setAttribute("height", Math.max(NARROWEST, size.height * scale));
    show();
  }

  const centre = ({ clientX, clientY }) => {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(map.getScreenCTM().inverse());
    move(x, y);
  };
  map.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    map.setPointerCapture(event.pointerId);
    centre(event);
  });
  map.addEventListener("pointermove", (event) => {
    if (map.hasPointerCapture(event.pointerId)) centre(event);
  });
  map.addEventListener("keydown", (event) => {
    const [right, down] = STEPS[event.key] ?? [];
    if (right === undefined) return;
    event.preventDefault();
    move(seen.x + (0.5 + right / 2) * seen.width, seen.y + (0.5 + down / 2) * seen.height);
  });
  return {
    fill,
    clear: () => fill([], size),
    follow: (rectangle) => {
      seen = rectangle;
      show();
    },
  };
}
