// What part of a picture a sheet shows: wheel, drag, pinch, double click, and fitting all of it.

const LARGEST = 4;
const SMALLEST_OF_FIT = 0.5;
const EDGE = 16;
const STEP = 1.3;
const DRAG = 4;

/**
 * Shows `root`, whose content has a size, in the sheet. `changed` is told the scale. The picture stays fitted when
 * the sheet changes its size, until the reader moves it.
 */
export function viewport(sheet, root, changed) {
  const view = { x: 0, y: 0, scale: 1 };
  let size = { width: 1, height: 1 };
  let isFitted = true;
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
    changed(view.scale);
  }

  function fit() {
    const { width, height } = box();
    if (!width || !height) return;
    view.scale = fitting(size);
    view.x = (width - size.width * view.scale) / 2;
    view.y = Math.max(EDGE, (height - size.height * view.scale) / 2);
    isFitted = true;
    apply();
  }

  function zoom(factor, x = box().width / 2, y = box().height / 2) {
    const scale = Math.min(LARGEST, Math.max(smallest(), view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    isFitted = false;
    apply();
  }

  function pan(x, y) {
    view.x += x;
    view.y += y;
    isFitted = false;
    apply();
  }

  /** Bring a rectangle of the picture to the middle, at least this large, as far as the sheet has room for it. */
  function show(rectangle, scale = view.scale) {
    const { width, height } = box();
    view.scale = Math.min(Math.max(view.scale, scale), Math.max(fitting(rectangle), smallest()));
    view.x = width / 2 - (rectangle.x + rectangle.width / 2) * view.scale;
    view.y = height / 2 - (rectangle.y + rectangle.height / 2) * view.scale;
    isFitted = false;
    apply();
  }

  /** Whether a rectangle of the picture is in view. */
  function sees(rectangle) {
    const left = rectangle.x * view.scale + view.x;
    const top = rectangle.y * view.scale + view.y;
    const { width, height } = box();
    return (
      left >= 0 &&
      top >= 0 &&
      left + rectangle.width * view.scale <= width &&
      top + rectangle.height * view.scale <= height
    );
  }

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
  new ResizeObserver(() => {
    if (isFitted) fit();
  }).observe(sheet);

  return {
    fit,
    show,
    sees,
    larger: () => zoom(STEP),
    smaller: () => zoom(1 / STEP),
    resize: (given) => {
      size = given;
    },
    isFitted: () => isFitted,
  };
}
