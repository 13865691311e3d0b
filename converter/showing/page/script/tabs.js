// Which part of the page is in view. Both drawings share a tab where the window is wide enough for them.

const WIDE = matchMedia("(min-width: 960px)");

/** `shown()` is called after each change, also when the window becomes narrow or wide. */
export function tabsOf(shown) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
  const usable = () => tabs.filter((tab) => !(WIDE.matches && tab.dataset.drawing === "1"));
  let current;

  function show() {
    const isGraph = (tab) => tab.dataset.drawing !== undefined;
    for (const [index, tab] of tabs.entries()) {
      const isCurrent = tab === current || (WIDE.matches && isGraph(tab) && isGraph(current));
      tab.setAttribute("aria-selected", isCurrent);
      tab.tabIndex = isCurrent ? 0 : -1;
      tab.hidden = !usable().includes(tab);
      tab.textContent = WIDE.matches && tab.dataset.wide ? tab.dataset.wide : tab.dataset.name;
      panels[index].hidden = !isCurrent;
    }
    current.scrollIntoView({ block: "nearest", inline: "nearest" });
    shown();
  }

  function select(tab) {
    current = tab;
    show();
  }

  for (const tab of tabs) {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      const all = usable();
      if (!step) return;
      const next = all[(all.indexOf(tab) + step + all.length) % all.length];
      select(next);
      next.focus();
    });
  }
  WIDE.addEventListener("change", show);
  return {
    select: (id) => select(tabs.find((tab) => tab.getAttribute("aria-controls") === id) ?? tabs[0]),
    current: () => current.getAttribute("aria-controls"),
    isWide: () => WIDE.matches,
  };
}
