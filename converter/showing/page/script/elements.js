// Making elements of HTML and SVG. Texts are set as text, never as markup.

const filled = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children);
  return element;
};

export const html = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** A button that does something. */
export function button(text, act, attributes = {}) {
  const made = html("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

const ENGLISH = new Intl.NumberFormat("en");
export const grouped = (number) => ENGLISH.format(number);

export const bytes = (number) =>
  number < 1e3
    ? `${number} B`
    : number < 1e6
      ? `${(number / 1e3).toFixed(1)} kB`
      : `${(number / 1e6).toFixed(1)} MB`;

/** A number with four digits. */
export const short = (number) => Number(number.toPrecision(4)).toString();
