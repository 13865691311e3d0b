// Finding boxes by what is written in them.
import { button, html } from "./elements.js";
import { drawings } from "./facts.js";

const SHOWN = 50;

/** `found(boxes)` is told which boxes to mark, `goTo(box)` brings one into view. */
export function searchOf({ found, goTo }) {
  const input = document.getElementById("search");
  const results = document.getElementById("results");
  const boxes = drawings.flatMap((drawing) => drawing.boxes);
  let query = "";

  const go = (box) => {
    results.hidden = true;
    goTo(box);
  };

  function search() {
    query = input.value.trim().toLowerCase();
    const hits = query ? boxes.filter(({ text }) => text.includes(query)) : [];
    const called = ({ name }) => (name.toLowerCase() === query) + name.toLowerCase().includes(query);
    hits.sort((a, b) => called(b) - called(a)); // what is called so comes before what only mentions it
    results.replaceChildren(
      ...hits.slice(0, SHOWN).map((box) => {
        const [, ...lines] = box.parts[0][1];
        const rest = html("small", {}, `  ${lines.join(" ")} · ${drawings[box.drawing].stage}`);
        const choice = button(box.name, () => go(box));
        choice.append(rest);
        return html("li", {}, choice);
      }),
    );
    if (query && !hits.length) results.append(html("p", {}, "nothing found"));
    if (hits.length > SHOWN) results.append(html("p", {}, `and ${hits.length - SHOWN} more`));
    results.hidden = !query;
    found(hits);
  }

  const choices = () => [...results.querySelectorAll("button")];
  input.addEventListener("input", search);
  input.addEventListener("focus", () => {
    results.hidden = !query;
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choices()[0]?.click();
    if (event.key === "Escape") {
      input.value = "";
      search();
    }
    if (event.key === "ArrowDown") choices()[0]?.focus();
  });
  results.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    (choices()[choices().indexOf(event.target) + step] ?? input).focus();
  });
  document.addEventListener("click", ({ target }) => {
    if (!target.closest(".search")) results.hidden = true;
  });
  return input;
}
