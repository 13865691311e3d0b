"use strict";
// The facts come in pieces that Graphviz can lay out at once; a piece is drawn when it comes into view.
(async () => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const costs = new Map(facts.layers.map((layer) => [layer.name, layer]));
  const hint = document.getElementById("hint");
  const SHOWN_ROWS = 40, SHOWN_RESULTS = 50, WIDEST = 34;

  // ---------------------------------------------------------------- what there is

  const isConstant = (entry) => entry.item.kind === "constant";
  const nodes = []; // every node and frame of every drawing; its index is its number in the picture
  const drawings = facts.drawings.map((drawing, index) => {
    const known = new Map();
    drawing.pieces.forEach((piece, at) => {
      const add = (item, frames) => {
        const entry = { item, frames, drawing: index, piece: at, number: nodes.length };
        entry.text = [...item.lines, item.layer ?? "", ...(item.notes ?? [])].join("\n").toLowerCase();
        nodes.push(entry);
        known.set(item.id, entry);
        for (const inner of item.items ?? []) add(inner, [...frames, item.id]);
      };
      for (const item of piece.items) add(item, []);
    });
    // What a node reads of weights and numbers stands in it: drawn apart, they push the nodes aside.
    const constants = new Map();
    for (const [source, target] of drawing.pieces.flatMap((piece) => [...piece.edges, ...piece.arriving]))
      if (isConstant(known.get(source))) constants.set(target, [...(constants.get(target) ?? []), known.get(source).item.lines[0]]);
    const folded = new Set([...known.values()].filter(({ item }) => item.items).map(({ item }) => item.id));
    return { ...drawing, index, known, constants, folded, zoom: 1, drawn: [] };
  });

  // ---------------------------------------------------------------- Graphviz's language

  // Graphviz would read &lt; as a smaller-than sign.
  const quoted = (text) => `"${text.replaceAll("&", "&amp;").replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
  const attributes = (given) =>
    "[" + Object.entries(given).filter(([, value]) => value).map(([key, value]) => `${key}=${quoted(value)}`).join(",") + "]";
  const count = (item) => item.items.reduce((sum, inner) => sum + (inner.items ? count(inner) : Number(inner.kind !== "constant")), 0);

  /** A node's lines, the attributes of its op below each other where they are long, and its constants. */
  function label(drawing, item) {
    const lines = item.lines.flatMap((line) => {
      const [, name, inside] = line.length > WIDEST && line.match(/^(\w+)\[(.*)\]$/) || [];
      if (!name) return [line];
      return inside.split(/, (?=\w+=)/).reduce((made, part) => {
        const joined = made.length > 1 ? `${made.at(-1)}, ${part}` : part;
        return joined.length > WIDEST || made.length < 2 ? [...made, part] : [...made.slice(0, -1), joined];
      }, [name]);
    });
    const constants = drawing.constants.get(item.id);
    return (constants ? [...lines, `· ${constants.join(", ")}`] : lines).join("\n");
  }

  /** The frame that hides a node, or the node itself. */
  const standIn = (drawing, id) => drawing.known.get(id).frames.find((frame) => drawing.folded.has(frame)) ?? id;

  function itemText(drawing, item) {
    const id = `n${drawing.known.get(item.id).number}`;
    if (item.kind === "constant") return "";
    if (!item.items) return `${quoted(item.id)} ${attributes({ id, label: label(drawing, item), ...facts.styles.nodes[item.kind] })};`;
    const color = item.dashed ? "#a86f00" : "#3a5f9a";
    if (drawing.folded.has(item.id)) {
      const label = [...item.lines, `${count(item)} nodes; click to unfold`].join("\n");
      return `${quoted(item.id)} ${attributes({ id, label, shape: "box3d", style: "filled", fillcolor: "#eef2f8", color })};`;
    }
    const inside = item.items.map((inner) => itemText(drawing, inner)).join("\n");
    const style = attributes({ id, label: item.lines.join("\n"), style: item.dashed ? "dashed" : "solid", color });
    return `subgraph ${quoted(item.id)} { graph ${style};\n${inside}\n}`;
  }

  /** Arrows to and from other pieces begin and end in a word that names the other end. */
  function stubs(drawing, edges, isArriving) {
    const lines = [], seen = new Set();
    for (const [source, target, label, kind] of edges) {
      if (isConstant(drawing.known.get(source))) continue;
      const other = isArriving ? source : target, stub = `${isArriving ? "from" : "to"} ${isArriving ? source : `${source} ${target}`}`;
      if (!seen.has(stub)) {
        seen.add(stub);
        const id = `s${drawing.known.get(other).number}`;
        const name = drawing.known.get(other).item.lines[0];
        lines.push(`${quoted(stub)} ${attributes({ id, label: isArriving ? `↑ ${name}` : `↓ ${name}`, shape: "plaintext", fontcolor: "#5d6b7e" })};`);
      }
      const ends = isArriving ? [stub, standIn(drawing, target)] : [standIn(drawing, source), stub];
      lines.push(`${ends.map(quoted).join(" -> ")} ${attributes({ label, ...facts.styles.edges[kind] })};`);
    }
    return lines;
  }

  function pieceText(drawing, piece) {
    const edges = new Set();
    for (const [source, target, label, kind] of piece.edges) {
      if (isConstant(drawing.known.get(source))) continue;
      const ends = [standIn(drawing, source), standIn(drawing, target)];
      if (ends[0] !== ends[1] || source === target)
        edges.add(`${ends.map(quoted).join(" -> ")} ${attributes({ label, ...facts.styles.edges[kind] })};`);
    }
    return [
      "digraph {", 'graph [fontname="Helvetica", fontsize="11", bgcolor="transparent"];',
      'node [fontname="Helvetica", fontsize="11"];', 'edge [fontname="Helvetica", fontsize="9"];',
      ...piece.items.map((item) => itemText(drawing, item)), ...edges,
      ...stubs(drawing, piece.arriving, true), ...stubs(drawing, piece.leaving, false), "}",
    ].join("\n");
  }

  // ---------------------------------------------------------------- drawing

  const source = document.getElementById("graphviz").textContent;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const graphviz = await (await import(url)).Graphviz.load();
  URL.revokeObjectURL(url);

  function draw(drawing, at) {
    const box = drawing.boxes[at];
    box.innerHTML = graphviz.layout(pieceText(drawing, drawing.pieces[at]), "svg", "dot").replace(/^[^]*?(?=<svg)/, "");
    const svg = box.querySelector("svg");
    for (const title of svg.querySelectorAll("title, a > title")) title.remove();
    svg.dataset.width = parseFloat(svg.getAttribute("width"));
    svg.removeAttribute("height");
    box.style.minHeight = "";
    drawing.drawn[at] = true;
    scale(drawing, svg);
    mark(box);
  }

  const scale = (drawing, svg) => svg.setAttribute("width", `${(svg.dataset.width * drawing.zoom).toFixed(1)}pt`);

  function redraw(drawing, at) {
    if (drawing.drawn[at]) draw(drawing, at);
  }

  function prepare(drawing) {
    const pane = document.querySelector(`.pane[data-drawing="${drawing.index}"]`);
    drawing.sheet = pane.querySelector(".sheet");
    drawing.boxes = drawing.pieces.map((piece, at) => {
      const box = document.createElement("div");
      box.className = "piece";
      box.dataset.at = at;
      box.style.minHeight = `${piece.items.length * 60}px`; // about as high as it will be
      drawing.sheet.append(box);
      return box;
    });
    draw(drawing, 0);
    const first = nodes.find((entry) => entry.drawing === drawing.index && !isConstant(entry));
    if (first) bringIntoView(drawing, first, 0.02);
    const watch = new IntersectionObserver((changes) => {
      for (const { isIntersecting, target } of changes)
        if (isIntersecting && !drawing.drawn[target.dataset.at]) draw(drawing, Number(target.dataset.at));
    }, { root: drawing.sheet, rootMargin: "300px" });
    for (const box of drawing.boxes) watch.observe(box);
    pane.querySelector(".tools").addEventListener("click", ({ target }) => command(drawing, target.dataset.do));
  }

  function command(drawing, what) {
    if (what === "larger" || what === "smaller") {
      drawing.zoom = Math.min(4, Math.max(0.2, drawing.zoom * (what === "larger" ? 1.25 : 0.8)));
      for (const svg of drawing.sheet.querySelectorAll("svg")) scale(drawing, svg);
    } else if (what) {
      const frames = nodes.filter((entry) => entry.drawing === drawing.index && entry.item.items);
      drawing.folded = new Set(what === "fold" ? frames.map((entry) => entry.item.id) : []);
      for (const at of new Set(frames.map((entry) => entry.piece))) redraw(drawing, at);
    }
  }

  function toggle(entry) {
    const drawing = drawings[entry.drawing];
    if (!drawing.folded.delete(entry.item.id)) drawing.folded.add(entry.item.id);
    redraw(drawing, entry.piece);
  }

  // ---------------------------------------------------------------- finding

  let query = "", here = null;

  /** Mark what is searched for and where the reader was sent. */
  function mark(box) {
    for (const element of box.querySelectorAll("g.node, g.cluster")) {
      const entry = entryOf(element);
      element.classList.toggle("found", Boolean(query && entry?.text.includes(query)));
      element.classList.toggle("here", entry !== undefined && entry === here);
    }
  }

  const entryOf = (element) => (/^[ns]\d+$/.test(element.id) ? nodes[Number(element.id.slice(1))] : undefined);
  const markAll = () => document.querySelectorAll(".piece").forEach(mark);

  function goTo(entry) {
    const drawing = drawings[entry.drawing];
    const hidden = entry.frames.filter((frame) => drawing.folded.has(frame));
    for (const frame of hidden) drawing.folded.delete(frame);
    here = entry;
    if (hidden.length || !drawing.drawn[entry.piece]) draw(drawing, entry.piece);
    markAll();
    bringIntoView(drawing, entry, 0.4);
  }

  /** The node in the middle, and its upper edge at that part of the sheet's height. */
  function bringIntoView(drawing, entry, part) {
    const at = drawing.boxes[entry.piece].querySelector(`#n${entry.number}`).getBoundingClientRect();
    const sheet = drawing.sheet.getBoundingClientRect();
    drawing.sheet.scrollBy(at.x + at.width / 2 - sheet.x - sheet.width / 2, at.y - sheet.y - part * sheet.height);
  }

  const input = document.getElementById("search"), results = document.getElementById("results");

  function search() {
    query = input.value.trim().toLowerCase();
    const found = query ? nodes.filter((entry) => entry.text.includes(query) && !isConstant(entry)) : [];
    const isNamed = (entry) => entry.item.lines[0].toLowerCase().includes(query);
    found.sort((a, b) => isNamed(b) - isNamed(a)); // what is called so comes before what only mentions it
    results.replaceChildren(...found.slice(0, SHOWN_RESULTS).map((entry) => {
      const row = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
      button.type = "button";
      small.textContent = `  ${entry.item.lines.slice(1).join(" ")} · ${facts.stages[entry.drawing]}`;
      button.append(entry.item.lines[0], small);
      button.addEventListener("click", () => { goTo(entry); results.hidden = true; });
      row.append(button);
      return row;
    }));
    if (query && found.length !== Math.min(found.length, SHOWN_RESULTS) || (query && !found.length)) {
      const more = document.createElement("p");
      more.textContent = found.length ? `and ${found.length - SHOWN_RESULTS} more` : "nothing found";
      results.append(more);
    }
    results.hidden = !query;
    results.dataset.count = found.length;
    markAll();
  }

  input.addEventListener("input", search);
  input.addEventListener("focus", () => { results.hidden = !query; });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") results.querySelector("button")?.click();
    if (event.key === "Escape") { input.value = ""; search(); }
    if (event.key === "ArrowDown") results.querySelector("button")?.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
  });
  document.addEventListener("click", ({ target }) => { if (!target.closest(".search")) results.hidden = true; });

  // ---------------------------------------------------------------- looking closer

  const grouped = (number) => number.toLocaleString("en");
  const bytes = (number) => number < 1e3 ? `${number} B` : number < 1e6 ? `${(number / 1e3).toFixed(1)} kB` : `${(number / 1e6).toFixed(1)} MB`;

  function show(entry, event) {
    const cost = costs.get(entry.item.layer), title = document.createElement("b");
    title.textContent = entry.item.lines.join("  ");
    const lines = [...(entry.item.notes ?? [])];
    if (cost) lines.push(`layer ${cost.name}: ${grouped(cost.multiply_adds)} multiply-adds, weights ${bytes(cost.weights)}, tops ${bytes(cost.tops)}`);
    hint.replaceChildren(title, lines.join("\n"));
    hint.hidden = false;
    hint.style.left = `${Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8)}px`;
    hint.style.top = `${Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8)}px`;
  }

  /** Mark what is of the same layer, on both sides. */
  function relate(layer) {
    for (const element of document.querySelectorAll(".piece g.node, .piece g.cluster"))
      element.classList.toggle("same", Boolean(layer) && entryOf(element)?.item.layer === layer);
  }

  for (const sheet of document.querySelectorAll(".sheet")) {
    sheet.addEventListener("mouseover", (event) => {
      const element = event.target.closest("g.node, g.cluster"), entry = element && entryOf(element);
      if (!entry) { hint.hidden = true; relate(null); return; }
      show(entry, event);
      relate(entry.item.layer);
    });
    sheet.addEventListener("mouseleave", () => { hint.hidden = true; relate(null); });
    sheet.addEventListener("click", (event) => {
      const element = event.target.closest("g.node, g.cluster"), entry = element && entryOf(element);
      if (!entry) return;
      if (element.id.startsWith("s")) goTo(entry);
      else if (entry.item.items) toggle(entry);
      else {
        const twin = nodes.find((other) => other.drawing !== entry.drawing && entry.item.layer && other.item.layer === entry.item.layer);
        if (twin) goTo(twin);
      }
    });
  }

  // ---------------------------------------------------------------- the chart

  const chart = document.querySelector(".chart tbody"), every = document.getElementById("every");
  let order = "order", isComplete = false;

  function bar(parts, largest, text) {
    const cell = document.createElement("td"), row = document.createElement("div"), label = document.createElement("b");
    row.className = "cost";
    for (const [name, size] of parts) {
      const strip = document.createElement("i");
      strip.className = name;
      strip.style.width = `${largest ? (70 * size) / largest : 0}%`;
      row.append(strip);
    }
    label.textContent = text;
    row.append(label);
    cell.append(row);
    return cell;
  }

  function fillChart() {
    const memory = (layer) => layer.weights + layer.tops;
    const most = Math.max(...facts.layers.map((layer) => layer.multiply_adds)), largest = Math.max(...facts.layers.map(memory));
    const rows = [...facts.layers];
    if (order !== "order") rows.sort((a, b) => (order === "memory" ? memory(b) - memory(a) : b.multiply_adds - a.multiply_adds));
    const shown = isComplete ? rows : rows.slice(0, SHOWN_ROWS);
    chart.replaceChildren(...shown.map((layer) => {
      const row = document.createElement("tr");
      for (const text of [layer.name, layer.type]) row.insertCell().textContent = text;
      row.cells[0].title = `${layer.name}, line ${layer.line}`;
      row.append(
        bar([["work", layer.multiply_adds]], most, layer.multiply_adds ? grouped(layer.multiply_adds) : ""),
        bar([["weights", layer.weights], ["tops", layer.tops]], largest, bytes(memory(layer))),
      );
      return row;
    }));
    every.hidden = isComplete || rows.length <= SHOWN_ROWS;
    every.textContent = `all ${rows.length} layers`;
  }

  if (chart) {
    const sum = (name) => facts.layers.reduce((total, layer) => total + layer[name], 0);
    document.querySelector(".totals").textContent =
      `${facts.layers.length} layers, ${grouped(sum("multiply_adds"))} multiply-adds a call, weights ${bytes(sum("weights"))}, tops ${bytes(sum("tops"))} (as float32)`;
    for (const button of document.querySelectorAll("[data-sort]"))
      button.addEventListener("click", () => {
        order = button.dataset.sort;
        for (const other of document.querySelectorAll("[data-sort]")) other.setAttribute("aria-pressed", other === button);
        fillChart();
      });
    every.addEventListener("click", () => { isComplete = true; fillChart(); });
    fillChart();
  }

  drawings.forEach(prepare);
  document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds since the page was opened
})();
