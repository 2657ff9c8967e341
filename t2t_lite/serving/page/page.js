// The server's page: lines in, outputs with their alternatives, trees and attention out. Text only ever becomes text nodes and
// attributes; pictures are shown as images, in which nothing runs.

const START = "<pad>"; // what the decoder reads before it has written anything
const SPECIAL = new Map([[START, "start"], ["</s>", "end"], ["<EOS>", "end"]]); // of SentencePiece and of tensor2tensor
const SPACE = "\u2581"; // SentencePiece's mark of a space
const TOKEN_END = /_$/; // tensor2tensor's mark
const BLANK = /^\s*$/u;
// Scripts without spaces between words.
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
const LARGEST = 20_000; // cells of a heat map that a browser still draws at once

const at = (id) => document.getElementById(id);

let model; // {name, version, about: the export's metadata, hasHeads: whether it gives each head's attention}
let working = 0; // attempts under way
const wanted = {}; // what is being asked for, "lines", "details" or "heads" -> the AbortController of its requests
// What the heat map shows: {line, target, mean: [layer][target piece][source piece], sides: {source, target, read: words}}, and
// once it was asked for `heads`: {kind: [layer][head][piece][piece]}.
let weights;

// The uses of attention, by the names that the server has for them; which sides' words look, and at which.
const KINDS = {
  cross: { name: "output to input", sides: ["target", "source"], meaning: "Where the model looked (columns) while it wrote each word (rows)" },
  encoder: { name: "input to input", sides: ["source", "source"], meaning: "Where the encoder looked (columns) from each word (rows)" },
  decoder: {
    name: "output to output", sides: ["target", "read"],
    meaning: "Where the decoder looked in what it had written (columns) while it wrote each word (rows)",
  },
};

/** An element with text, attributes and children. */
function element(tag, { text, ...attributes } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

/* ---- The server ---- */

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The answer to a request. Throws ServerError, whose message is a line for people. */
async function request(path, body, signal) {
  let response;
  try {
    response = await fetch(
      path,
      body && { method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" } },
    );
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  const told = (await response.json().catch(() => ({}))).error ?? response.statusText;
  const wait = response.headers.get("Retry-After");
  const kind = { 413: "Too much text", 503: wait ? `The server is busy, try again in ${wait} s` : "The server is not ready" };
  throw new ServerError(`${kind[response.status] ?? `Refused (${response.status})`}: ${told}`, response.status);
}

/** The rows that a signature of the model gives for the rows `instances`. */
async function predict(signature, instances, signal) {
  const path = `v1/models/${encodeURIComponent(model.name)}:predict`;
  return (await (await request(path, { signature_name: signature, instances }, signal)).json()).predictions;
}

async function findModel() {
  const [name] = (await (await request("v1/models")).json()).models;
  const { model_spec, metadata } = await (await request(`v1/models/${encodeURIComponent(name)}/metadata`)).json();
  const signatures = Object.keys(metadata.signature_def.signature_def);
  model = { name, version: model_spec.version, about: metadata.t2t_lite, hasHeads: signatures.includes("attention_heads") };
  showModel();
}

/** Runs `work`. Tells of an error, and hides what it leaves out of date; that an answer is no longer wanted is no error. */
async function attempt(work, ...outdated) {
  at("error").hidden = true;
  busy(1);
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    at("status").textContent = "";
    for (const id of outdated) at(id).hidden = true;
    at("error").textContent =
      error instanceof ServerError ? error.message : `The server's answer is not understood: ${error.message}`;
    at("error").hidden = false;
  } finally {
    busy(-1);
  }
}

function busy(more) {
  working += more;
  at("main").ariaBusy = working > 0;
}

/* ---- What there is to see ---- */

function showModel() {
  const { name, version, about } = model;
  const task = about.output_text ? "Parse" : "Translate"; // the model's text is made into a tree, or is the output
  document.title = `${name} – t2t_lite`;
  at("name").textContent = name;
  at("send").textContent = task;
  if (about.output_text) at("hint").textContent = "One sentence a line; spaces around words and marks.";
  const facts = { version, problem: about.problem, set: about.hparams_set, "beam size": about.beam_size, alpha: about.alpha };
  at("facts").replaceChildren(
    ...Object.entries(facts).map(([term, value]) =>
      element("div", {}, element("dt", { text: term }), element("dd", { text: value })),
    ),
  );
  at("alpha").textContent = about.alpha;
  at("kind").replaceChildren(
    ...Object.entries(KINDS).map(([value, { name }]) => element("option", { value, text: name })),
  );
  at("kinds").hidden = at("heads").hidden = !model.hasHeads;
  at("attention").open = !about.output_text; // of a parser there are trees to look at first
}

/** One of several to choose from: a radio button with its text. */
function choice(group, text, checked, chosen) {
  const input = element("input", { type: "radio", name: group, checked });
  input.addEventListener("change", chosen);
  return element("label", {}, input, text === "" ? element("em", { text: "(empty)" }) : element("span", { text, dir: "auto" }));
}

/** Ends the requests for earlier `what`. Returns the signal for new ones. */
function supersede(what) {
  wanted[what]?.abort();
  wanted[what] = new AbortController();
  return wanted[what].signal;
}

async function send() {
  const lines = at("source").value.replace(/\n+$/, "").split("\n");
  if (lines.every((line) => BLANK.test(line))) return;
  const signal = supersede("lines");
  const begun = performance.now();
  at("status").textContent = "Working …";
  if (!model) await findModel(); // which failed before
  const rows = await predict("n_best", lines, signal);
  const all = rows.map((row) => row.text.map((text, i) => ({ text, score: row.score[i], logProb: row.log_prob[i] })));
  at("status").textContent =
    `${lines.length} line${lines.length === 1 ? "" : "s"} in ${((performance.now() - begun) / 1000).toFixed(2)} s`;
  const first = lines.findIndex((line) => !BLANK.test(line));
  at("output").className = lines.length === 1 ? "single" : "";
  at("output").replaceChildren(
    ...lines.map((line, i) => {
      const show = () => showAlternatives(line, all[i]);
      return element("li", {}, BLANK.test(line) ? "" : choice("line", all[i][0].text, i === first, show));
    }),
  );
  at("output").hidden = false;
  await showAlternatives(lines[first], all[first]);
}

async function showAlternatives(line, hypotheses) {
  at("hypotheses").replaceChildren(
    ...hypotheses.map(({ text, score, logProb }, i) => {
      const show = () => showDetails(line, text);
      return element(
        "tr",
        {},
        element("td", {}, choice("hypothesis", text, i === 0, show)),
        element("td", { text: minus(score.toFixed(3)) }),
        element("td", { text: minus(logProb.toFixed(3)), title: `probability ${percent(Math.exp(logProb))}` }),
      );
    }),
  );
  at("alternatives").hidden = false;
  await showDetails(line, hypotheses[0].text);
}

async function showDetails(line, target) {
  const signal = supersede("details");
  await attempt(() => Promise.all([showTree(target, signal), showAttention(line, target, signal)]), "tree", "attention");
}

async function showTree(tree, signal) {
  const picture = model.about.output_text && tree ? await draw(tree, signal) : null;
  at("tree").hidden = !picture;
  URL.revokeObjectURL(at("picture").src);
  if (!picture) return;
  at("picture").alt = tree;
  at("picture").src = at("save").href = URL.createObjectURL(picture);
}

/** The picture of a tree; null: outputs of this problem are no trees. */
async function draw(tree, signal) {
  try {
    return await (await request(`v1/models/${encodeURIComponent(model.name)}:draw`, { tree }, signal)).blob();
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

async function showAttention(line, target, signal) {
  weights = undefined;
  const answer = await predictAttention("attention", line, target, signal);
  if (!answer) return;
  const sides = {
    source: words(answer.source_pieces),
    target: words(answer.target_pieces).filter(({ end }) => !end),
    read: words([START, ...answer.target_pieces.slice(0, -1)]),
  };
  weights = { line, target, mean: answer.attention, sides };
  await showHeatMap(signal);
}

/** The answer of a signature for attention; null, and the reason told, where the server has a limit. */
async function predictAttention(signature, text, target, signal) {
  try {
    return (await predict(signature, [{ text, target }], signal))[0];
  } catch (error) {
    if (error.status !== 400) throw error;
    showNoHeatMap(error.message);
    return null;
  }
}

/* ---- Attention ---- */

/** Pieces joined into words: [{text, from, to, end}], of the pieces from `from` to before `to`; end: the sentence's, or its start. */
function words(pieces) {
  const marked = pieces.some((piece) => piece.startsWith(SPACE)); // else tensor2tensor's
  const texts = marked ? pieces : pieces.map((piece) => piece.replace(TOKEN_END, ""));
  const found = [];
  pieces.forEach((piece, i) => {
    const last = found.at(-1);
    const end = SPECIAL.get(texts[i]);
    const follows = marked ? piece.startsWith(SPACE) && last?.text !== "" : i > 0 && TOKEN_END.test(pieces[i - 1]);
    if (!last || end || last.end || follows || UNSPACED.test(piece)) {
      found.push({ text: end ?? joined([texts[i]]), from: i, to: i + 1, end: Boolean(end) });
    } else {
      last.to = i + 1;
      last.text = joined(texts.slice(last.from, last.to));
    }
  });
  return found;
}

/** The text of a word's pieces, some of which may be bytes, as <0xE2>. */
function joined(pieces) {
  const encoder = new TextEncoder();
  const bytes = pieces.flatMap((piece) => {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
    return byte ? [parseInt(byte[1], 16)] : [...encoder.encode(piece.replaceAll(SPACE, ""))];
  });
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** [row word][column word]: the mean over the row's pieces of the sum over the column's, so that rows still sum to 1. */
function byWords(layer, target, source) {
  const sum = (row, { from, to }) => row.slice(from, to).reduce((total, weight) => total + weight, 0);
  return target.map(({ from, to }) => {
    const rows = layer.slice(from, to);
    return source.map((word) => rows.reduce((total, row) => total + sum(row, word), 0) / rows.length);
  });
}

/** Shows the kind, head and layer that are chosen, and asks the server for what it needs of them. */
async function showHeatMap(signal) {
  if (!weights) return; // there is none to choose from
  const kind = at("kind").value;
  if (!weights.heads && (kind !== "cross" || at("head").value)) {
    weights.heads = await predictAttention("attention_heads", weights.line, weights.target, signal);
    if (!weights.heads) return;
  }
  const layers = kind === "cross" && !weights.heads ? weights.mean : weights.heads[kind];
  if (!layers) return showNoHeatMap("This model has no such attention.");
  showChoices(layers);
  drawHeatMap(kind, layers[at("layer").value]);
}

/** Layers, and heads where they are known or may be asked for. */
function showChoices(layers) {
  const { attention_layer, hparams, ensemble = [] } = model.about;
  const layer = Math.min(at("layer").value || attention_layer, layers.length - 1);
  at("layer").replaceChildren(
    ...layers.map((_, value) =>
      element("option", { value, text: `${value + 1}${value === attention_layer ? " (default)" : ""}` }),
    ),
  );
  at("layer").value = layer;
  const heads = [{ hparams }, ...ensemble].reduce((sum, member) => sum + member.hparams.num_heads, 0);
  if (at("head").options.length === heads + 1) return;
  const each = Array.from({ length: heads }, (_, head) => element("option", { value: head + 1, text: head + 1 }));
  at("head").replaceChildren(element("option", { value: "", text: "mean of all" }), ...each);
}

/** [row piece][column piece] of a layer: itself where it is the mean of heads already, of the chosen head, or the mean. */
function ofHead(layer) {
  if (typeof layer[0]?.[0] === "number") return layer;
  const head = at("head").value;
  if (head) return layer[head - 1];
  return layer[0].map((row, i) =>
    row.map((_, j) => layer.reduce((sum, weights) => sum + weights[i][j], 0) / layer.length),
  );
}

function drawHeatMap(kind, wholeLayer) {
  const [target, source] = KINDS[kind].sides.map((side) => weights.sides[side]);
  at("meaning").textContent = KINDS[kind].meaning;
  if (source.length * target.length > LARGEST) {
    return showNoHeatMap(`${target.length} \u00d7 ${source.length} words are too many for a heat map.`);
  }
  const layer = byWords(ofHead(wholeLayer), target, source);
  const head = (scope, { text, end }) =>
    element("th", { scope, title: text, className: end ? "end" : "" }, element("span", { text }));
  const table = at("heat-map");
  table.style.setProperty("--columns", source.length);
  table.replaceChildren(
    element("caption", { text: KINDS[kind].meaning }),
    element("thead", {}, element("tr", {}, element("td"), ...source.map((word) => head("col", word)))),
    element(
      "tbody",
      {},
      ...target.map((word, row) =>
        element("tr", {}, head("row", word), ...source.map((from, column) => cell(word, from, layer[row][column]))),
      ),
    ),
  );
  const first = table.querySelector("tbody td");
  if (first) first.tabIndex = 0;
  at("layer").disabled = false;
  at("reading").textContent = "\u00a0";
  at("attention").hidden = !first;
}

function showNoHeatMap(reason) {
  at("heat-map").replaceChildren();
  at("layer").disabled = true;
  at("reading").textContent = reason;
  at("attention").hidden = false;
}

function cell(target, source, weight) {
  const value = percent(weight);
  const title = `${target.text} \u2190 ${source.text}: ${value}`;
  const made = element("td", { title, tabIndex: -1 }, element("span", { text: value }));
  made.style.setProperty("--weight", weight.toFixed(4));
  return made;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function minus(number) {
  return number.replace("-", "\u2212");
}

/** Shows the value under the pointer or the focus, and whose it is. */
function read({ target }) {
  const pointed = target.closest("tbody td");
  if (!pointed) return;
  at("reading").textContent = pointed.title;
  const table = at("heat-map");
  table.querySelectorAll("th.read").forEach((head) => head.classList.remove("read"));
  table.tHead.rows[0].cells[pointed.cellIndex].classList.add("read");
  pointed.parentElement.cells[0].classList.add("read");
}

/** Arrow keys go from cell to cell; only the last one visited is a stop of Tab. */
function move(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const here = event.target.closest("tbody td");
  if (!step || !here) return;
  event.preventDefault();
  const row = here.parentElement.sectionRowIndex + step[0];
  const next = at("heat-map").tBodies[0].rows[row]?.cells[here.cellIndex + step[1]];
  if (next?.tagName !== "TD") return;
  here.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(send, "output", "alternatives", "tree", "attention");
});
at("source").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at("form").requestSubmit();
});
for (const id of ["kind", "head", "layer"]) {
  at(id).addEventListener("change", () => attempt(() => showHeatMap(supersede("heads")), "attention"));
}
at("heat-map").addEventListener("pointerover", read);
at("heat-map").addEventListener("focusin", read);
at("heat-map").addEventListener("keydown", move);
attempt(findModel);
