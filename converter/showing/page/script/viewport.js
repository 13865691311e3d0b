// What part of a picture a sheet shows: wheel, drag, pinch, double click, and fitting all of it.

const READABLE = 0.9;
const SMALLEST_READABLE = 0.8;
const LARGEST = 4;
const SMALLEST_OF_FIT = 0.5;
const EDGE = 16;
const STEP = 1.3;
const DRAG = 4;

/** Whether a rectangle is in another one, but for what rounding does. */
export const contains = (outer, inner) =>
  inner.x >= outer.x - 0.5 &&
  inner.y >= outer.y - 0.5 &&
  inner.x + inner.width <= outer.x + outer.width + 0.5 &&
  inner.y + inner.height <= outer.y + outer.height + 0.5;

/**
 * Shows `root`, whose content has a size, in the sheet. `changed` is told the scale, and the rectangle of the picture
 * that is in view. The picture keeps its place when the sheet changes its size, until the reader moves it.
 */
export function viewport(sheet, root, changed) {
  const view = { x: 0, y: 0, scale: 1 };
  let size = { width: 1, height: 1 };
  let home = null; // brings the picture to its place
  let isOpening = true;
  let moved = 0;
  const pointers = new Map();

  const box = () => sheet.getBoundingClientRect();
  const fitting = ({ width, height }) =>
    Math.min(
      1.25,
      Math.max(0.01, (box().width - 2 * EDGE) / width),
      Math.max(0.01, (box().height - 2 * EDGE) / height),
    );
  const smallest = () => Math.min(1, fitting(size) * SMALLEST_OF_FIT);

  function apply() {
    root.setAttribute(
      "transform",
      `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.scale.toFixed(4)})`,
    );
    changed(view.scale, inView());
  }

  function inView() {
    const { width, height } = box();
    const { x, y, scale } = view;
    return { x: -x / scale, y: -y / scale, width: width / scale, height: height / scale };
  }

  /** Bring a rectangle to the middle, or unless that is asked for exactly, as near as the picture fills the sheet. */
  function look(scale, rectangle, isExact = false) {
    home = () => look(scale, rectangle, isExact);
    isOpening = false;
    const { width, height } = box();
    if (!width || !height) return;
    const start = (room, length, middle) =>
      isExact
        ? room / 2 - middle * scale
        : length * scale + 2 * EDGE <= room
        ? (room - length * scale) / 2
        : Math.min(EDGE, Math.max(room - EDGE - length * scale, room / 2 - middle * scale));
    view.scale = scale;
    view.x = start(width, size.width, rectangle.x + rectangle.width / 2);
    view.y = start(height, size.height, rectangle.y + rectangle.height / 2);
    apply();
  }

  function fit() {
    look(fitting(size), { x: 0, y: 0, ...size });
    home = fit;
  }

  /** Show all of it if its texts can be read then, or else what is around a rectangle. */
  function open(rectangle) {
    if (fitting(size) >= SMALLEST_READABLE) fit();
    else look(READABLE, rectangle);
    home = () => open(rectangle);
    isOpening = true;
  }

  function leave() {
    home = null;
    isOpening = false;
    apply();
  }

  function zoom(factor, x = box().width / 2, y = box().height / 2) {
    const scale = Math.min(LARGEST, Math.max(smallest(), view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    leave();
  }

  function pan(x, y) {
    view.x += x;
    view.y += y;
    leave();
  }

  /** Bring a rectangle of the picture into view so that it can be read, as far as the sheet has room for it. */
  function show(rectangle) {
    const scale = view.scale >= SMALLEST_READABLE ? view.scale : READABLE;
    look(Math.min(scale, Math.max(fitting(rectangle), smallest())), rectangle);
    leave();
  }

  /** Bring a point of the picture to the middle. */
  function centre(x, y) {
    look(view.scale, { x, y, width: 0, height: 0 });
    leave();
  }

  /** Whether a rectangle of the picture is in view. */
  const sees = (rectangle) => contains(inView(), rectangle);

  const at = (event) => ({ x: event.clientX - box().x, y: event.clientY - box().y });

  sheet.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const { x, y } = at(event);
      const speed = event.ctrlKey ? 0.01 : 0.0015; // a pinch on a touchpad is a wheel with Ctrl
      zoom(Math.exp(-event.deltaY * lines * speed), x, y);
    },
    { passive: false },
  );

  sheet.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, at(event));
    if (pointers.size === 1) moved = 0;
  });

  sheet.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    const distance = Math.hypot(now.x - before.x, now.y - before.y);
    if (other) {
      const apart = (one) => Math.hypot(one.x - other.x, one.y - other.y);
      zoom(apart(now) / Math.max(1, apart(before)), (now.x + other.x) / 2, (now.y + other.y) / 2);
      pan((now.x - before.x) / 2, (now.y - before.y) / 2);
      moved += distance + DRAG;
    } else if (moved + distance > DRAG) {
      // Not before it is a drag: a click would miss its box.
      if (!sheet.hasPointerCapture(event.pointerId)) sheet.setPointerCapture(event.pointerId);
      pan(now.x - before.x, now.y - before.y);
      moved += distance;
    } else return; // not a drag yet: the pointer is where it went down
    pointers.set(event.pointerId, now);
  });

  for (const ending of ["pointerup", "pointercancel"])
    sheet.addEventListener(ending, ({ pointerId }) => pointers.delete(pointerId));
  sheet.addEventListener(
    "click",
    (event) => {
      if (moved > DRAG) event.stopImmediatePropagation();
    },
    true,
  );
  sheet.addEventListener("dblclick", (event) => {
    const { x, y } = at(event);
    zoom(view.scale < 1 ? Math.max(STEP ** 2, 1 / view.scale) : STEP ** 2, x, y);
  });
  /** What is in view stays there when the sheet or the picture has another size, and all of it if it was fitted. */
  function stay() {
    if (home) home();
    else apply();
  }
  new ResizeObserver(stay).observe(sheet);

  return {
    fit,
    look,
    open,
    centre,
    show,
    sees,
    stay,
    inView,
    scale: () => view.scale,
    larger: () => zoom(STEP),
    smaller: () => zoom(1 / STEP),
    resize: (given) => {
      size = given;
    },
    isHome: () => home !== null,
    isOpening: () => isOpening,
  };
}
