// Attention as lines between the pieces that look (rows, left) and those that they look at (columns, right), each head in its
// colour. Text only ever becomes text nodes and attributes.
"use strict";

const MOST_LINES = 3000; // of the picture of all pieces: more slow a browser down and show less
const LEAST = 0.005; // a weight whose line can be seen
const SPREAD = 0.4; // of a row, over which the lines of one pair lie beside each other, a line for each head
const SIDES = ["rows", "columns"];

const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);

const chosen = { kind: data.start.kind, layer: data.start.layer, heads: new Set(data.start.heads) };
let kept = null; // the piece that was clicked, {side, place}: shown until it or another is clicked

/** An element with text, properties and children. */
function element(tag, { text, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

const kind = () => data.kinds[chosen.kind];

function weight(head, row, column) {
  return kind().weights[chosen.layer][head][row * kind().columns.length + column] / data.scale;
}

/** The heads that are shown, from 0, in order. */
function heads() {
  return kind().colours.map((_, head) => head).filter((head) => chosen.heads.has(head));
}

/* ---- Choices ---- */

function showChoices() {
  const { weights, colours } = kind();
  at("kind").replaceChildren(...data.kinds.map(({ title }, value) => element("option", { value, text: title })));
  at("kind").value = chosen.kind;
  at("layer").replaceChildren(
    ...weights.map((_, value) => element("option", { value, text: `${value + 1} of ${weights.length}` })),
  );
  chosen.layer = Math.min(chosen.layer, weights.length - 1);
  at("layer").value = chosen.layer;
  at("heads").replaceChildren(...colours.map(headChoice));
}

function headChoice(colour, head) {
  const input = element("input", { type: "checkbox", checked: chosen.heads.has(head) });
  input.addEventListener("change", () => {
    if (input.checked) chosen.heads.add(head);
    else chosen.heads.delete(head);
    draw();
  });
  const label = element("label", { title: "Twice: this head alone" }, input, String(head + 1));
  label.style.setProperty("--head", colour);
  label.addEventListener("dblclick", () => chooseHeads([head]));
  return label;
}

function chooseHeads(wanted) {
  chosen.heads = new Set(wanted);
  at("heads").querySelectorAll("input").forEach((input, head) => (input.checked = chosen.heads.has(head)));
  draw();
}

/* ---- Pieces ---- */

function showPieces() {
  kept = null;
  SIDES.forEach((side, number) => {
    at(`${side}-title`).textContent = kind().sides[number];
    at(side).replaceChildren(...kind()[side].map((text, place) => element("li", {}, piece(side, place, text))));
  });
  const longest = Math.max(...SIDES.map((side) => kind()[side].length));
  at("lines").setAttribute("viewBox", `0 0 1 ${longest}`);
  at("lines").style.height = `calc(${longest} * var(--row))`;
}

function piece(side, place, text) {
  const made = element("button", { type: "button", title: text, dir: "auto", text, tabIndex: place || side !== "rows" ? -1 : 0 });
  made.ariaPressed = "false";
  made.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && show({ side, place }));
  made.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && show());
  made.addEventListener("focus", () => {
    SIDES.flatMap(pieces).forEach((other) => (other.tabIndex = other === made ? 0 : -1));
    if (made.matches(":focus-visible")) show({ side, place });
  });
  made.addEventListener("blur", () => show());
  made.addEventListener("keydown", (event) => move(event, side, place));
  made.addEventListener("click", () => {
    const again = kept?.side === side && kept.place === place;
    kept = again ? null : { side, place };
    show(kept);
  });
  return made;
}

const pieces = (side) => [...at(side).querySelectorAll("button")];

/** Arrow keys go from piece to piece; only the last one visited is a stop of Tab. */
function move(event, side, place) {
  const down = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
  const other = { ArrowLeft: "rows", ArrowRight: "columns" }[event.key];
  if (down === undefined && other === undefined) return;
  event.preventDefault();
  const among = pieces(other ?? side);
  among[Math.max(0, Math.min(among.length - 1, place + (down ?? 0)))].focus();
}

/* ---- Lines ---- */

/** Draws the lines of all pieces, after a choice. */
function draw() {
  at("every").replaceChildren(...linesOfAll().map(line));
  show();
}

/** Shows where a piece looks, or by which it is looked at; without one, all. */
function show(pointed = kept) {
  at("every").setAttribute("display", pointed ? "none" : "inline");
  at("pointed").replaceChildren(...(pointed ? linesOf(pointed).map(line) : []));
  SIDES.forEach((side) => pieces(side).forEach((button, place) => mark(button, side, place, pointed)));
  at("reading").textContent = pointed ? reading(pointed) : "Point at a piece, tap it, or reach it with Tab and the arrow keys.";
}

function linesOf({ side, place }) {
  const other = side === "rows" ? kind().columns : kind().rows;
  return heads().flatMap((head) =>
    other
      .map((_, end) => (side === "rows" ? { head, row: place, column: end } : { head, row: end, column: place }))
      .map((ends) => ({ ...ends, strength: weight(ends.head, ends.row, ends.column) }))
      .filter(({ strength }) => strength >= LEAST),
  );
}

function linesOfAll() {
  const shown = heads();
  const all = kind().rows.flatMap((_, place) => linesOf({ side: "rows", place }));
  all.sort((one, other) => other.strength - one.strength);
  const left = Math.max(0, all.length - MOST_LINES);
  at("note").textContent = left ? `Of all pieces the strongest ${MOST_LINES} lines are drawn; ${left} weaker ones are left out.` : "";
  const faint = Math.sqrt(Math.max(1, shown.length)); // many heads would cover each other
  return all.slice(0, MOST_LINES).map((each) => ({ ...each, strength: each.strength / faint }));
}

function line({ head, row, column, strength }) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const shown = heads();
  const beside = 0.5 + SPREAD * ((shown.indexOf(head) + 0.5) / shown.length - 0.5);
  const ends = { x1: 0, y1: row + beside, x2: 1, y2: column + beside };
  for (const [name, value] of Object.entries(ends)) made.setAttribute(name, value);
  made.setAttribute("stroke", kind().colours[head]);
  made.setAttribute("stroke-opacity", strength.toFixed(3));
  return made;
}

/** What a piece on the other side has of each head, as a band of its colour. */
function mark(button, side, place, pointed) {
  button.ariaPressed = String(kept?.side === side && kept.place === place);
  button.classList.toggle("pointed", pointed?.side === side && pointed.place === place);
  button.style.backgroundImage = "";
  if (!pointed || pointed.side === side) return;
  const shown = heads();
  const bands = shown.map((head, i) => {
    const strength = side === "columns" ? weight(head, pointed.place, place) : weight(head, place, pointed.place);
    const colour = kind().colours[head] + Math.round(255 * strength).toString(16).padStart(2, "0");
    return `${colour} ${(100 * i) / shown.length}% ${(100 * (i + 1)) / shown.length}%`;
  });
  if (bands.length) button.style.backgroundImage = `linear-gradient(to right, ${bands.join(", ")})`;
}

/** The strongest in words, the mean over the heads shown. */
function reading({ side, place }) {
  const shown = heads();
  if (!shown.length) return "No head is chosen.";
  const other = side === "rows" ? kind().columns : kind().rows;
  const mean = (end) =>
    shown.reduce((sum, head) => sum + (side === "rows" ? weight(head, place, end) : weight(head, end, place)), 0) / shown.length;
  const strongest = other
    .map((text, end) => ({ text, share: mean(end) }))
    .sort((one, another) => another.share - one.share)
    .slice(0, 3)
    .filter(({ share }) => share >= LEAST)
    .map(({ text, share }) => `${text} ${(100 * share).toFixed(1)} %`);
  return `${kind()[side][place]} ${side === "rows" ? "looks at" : "is looked at by"} ${strongest.join(", ") || "nothing"}`;
}

at("facts").append(
  ...data.facts.flatMap(([term, text]) => [element("dt", { text: term }), element("dd", { text, dir: "auto" })]),
);
at("kind").addEventListener("change", () => {
  chosen.kind = Number(at("kind").value);
  showChoices();
  showPieces();
  draw();
});
at("layer").addEventListener("change", () => {
  chosen.layer = Number(at("layer").value);
  draw();
});
at("all").addEventListener("click", () => chooseHeads(kind().colours.keys()));
at("none").addEventListener("click", () => chooseHeads([]));
at("choices").addEventListener("submit", (event) => event.preventDefault());
showChoices();
showPieces();
draw();
