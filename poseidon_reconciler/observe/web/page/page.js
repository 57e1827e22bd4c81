// Keeps the page up to date. The tables and their columns are those of the document; text of others is only ever set
// as text, never as markup.
"use strict";

const MAX_CHARS = 400;
const FEW = 6;
const MANY = 12;
const tables = Object.fromEntries([...document.querySelectorAll("main table")].map((table) => [table.id, table]));
const link = document.getElementById("link");
const status = {};
const pools = new Map(); // the row of each environment
let aheadMs = 0; // how far the reconciler's clock is before this machine's
let charts = { environments: {} };

// --- elements -------------------------------------------------------------------------------------------------------

/** Other people's text, with what does not print shown as an escape. */
function readable(value) {
  const text = String(value).replace(/[^\P{C}]|[^\P{Z} ]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS - 1)}…`;
}

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// --- values, in the ways that a column can name (see cells.py) ------------------------------------------------------

const explain = (subject, child) => make("a", { href: `explain/${encodeURIComponent(subject)}` }, child);
const clock = (at, kind = null) => {
  const isToday = at.slice(0, 10) === status.at.slice(0, 10);
  const text = isToday ? at.slice(11, 19) : `${at.slice(0, 10)} ${at.slice(11, 16)}`;
  return make("time", { datetime: at, title: at, class: kind }, text);
};
const state = (name, text) => make("span", { class: "state", "data-state": name }, readable(text));
const counts = (numbers) =>
  Object.entries(numbers).sort().map(([name, number]) => `${number} ${name}`).join(", ") || "none";

const ways = {
  text: (value) => (value === null ? "" : readable(value)),
  number: (value) => (value === null ? "?" : String(value)),
  environment: (value) => (value === null ? "everywhere" : explain(value, readable(value))),
  job: (value) => explain(value, make("code", {}, readable(value))),
  state: (value, row) => state(value, row.cause ? `${value}, ${row.cause}` : value),
  "node-status": (value, row) => state(value || "unknown", (value || "unknown") + (row.draining ? ", draining" : "")),
  node: (value) => (value === null ? "no node" : readable(value)),
  drift: (value, row) => (value === null ? "none" : row.lasting ? value : `${value}, may be a lag`),
  duration: (value) => (value === null ? "" : `${value.toFixed(0)} s`),
  counts: (value) => readable(counts(value)),
  some: (value) => Object.entries(value).map(([name, number]) => `${number} ${name}`).join(", "),
  time: (value) => (value === null ? "" : clock(value)),
  until: (value) => (value === null ? "until something changes" : clock(value, "until")),
  outcome: (value) => (value === null ? "under way" : readable(`${value.result}: ${value.detail}`)),
  others: (_, row, keys) =>
    keys.split(" ").filter((key) => row[key]).map((key) => `${row[key]} ${key.replace("_", " ")}`).join(", "),
  chart: (_, row) => chart(row.environment_id),
};

function tableRow(table, row) {
  const made = make("tr");
  for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
    const { key, as } = head.dataset;
    const shown = ways[as](row[key] ?? null, row, key);
    const kinds = [head.className, (shown === "" || shown === "0") && "zero"].filter(Boolean);
    const attributes = { class: kinds.join(" ") || null, "data-title": head.textContent };
    made.append(place === 0 ? make("th", { scope: "row" }, shown) : make("td", attributes, shown));
  }
  return made;
}

/** Changes something without taking the focus from a link that is still there afterwards. */
function keepingFocus(change) {
  const focused = document.activeElement;
  const table = focused?.closest?.("table");
  const href = focused?.getAttribute?.("href");
  change();
  if (!table || !href || document.contains(focused)) return;
  [...table.querySelectorAll("a")].find((other) => other.getAttribute("href") === href)?.focus();
}

function fill(table, rows) {
  const most = Number(table.dataset.most) || rows.length;
  table.tBodies[0].replaceChildren(...rows.slice(0, most).map((row) => tableRow(table, row)));
  tell(table, rows.length, most);
}

function tell(table, number, most) {
  const section = table.closest("section");
  const [nothing, more] = ["nothing", "more"].map((kind) => section.querySelector(`.${kind}`));
  section.classList.toggle("empty", number === 0);
  table.hidden = number === 0;
  if (nothing) nothing.hidden = number > 0;
  else section.hidden = number === 0 && table.id !== "poseidon";
  more.hidden = number <= most;
  more.textContent = `and ${Math.max(0, number - most)} more`;
}

// --- pools ----------------------------------------------------------------------------------------------------------

const isCalm = (row) =>
  ["active", "gone", "stopped"].includes(row.state) && row.idle >= (row.target ?? 0) && !row.lost && !row.at_risk;

function showPools(changes) {
  const body = tables.pools.tBodies[0];
  for (const [id, row] of Object.entries(changes)) {
    const before = pools.get(id);
    if (row === null) {
      before?.remove();
      pools.delete(id);
      continue;
    }
    const made = tableRow(tables.pools, { environment_id: id, ...row });
    made.classList.toggle("calm", isCalm(row));
    pools.set(id, made);
    if (before) before.replaceWith(made);
    else body.insertBefore(made, [...body.rows].find((other) => Number(other.cells[0].textContent) > Number(id)) ?? null);
  }
  tables.pools.classList.toggle("few", pools.size <= FEW);
  filter.hidden = pools.size <= MANY;
  tell(tables.pools, pools.size, pools.size);
}

const filter = (() => {
  const box = make("input", { type: "checkbox", id: "only-troubled" });
  box.addEventListener("change", () => tables.pools.classList.toggle("few-shown", box.checked));
  const made = make("p", { class: "filter" }, box, make("label", { for: "only-troubled" }, "Only pools that are not full"));
  made.hidden = true;
  tables.pools.before(made);
  return made;
})();

(() => {
  const square = (kind) => draw("svg", { "aria-hidden": "true" }, draw("rect", { class: kind, width: 14, height: 14 }));
  const dashes = draw("svg", { "aria-hidden": "true" }, draw("line", { x1: 0, x2: 14, y1: 7, y2: 7 }));
  const parts = [square("idle"), " idle", square("coming"), " on their way", square("lost"), " lost", dashes, " target"];
  tables.pools.before(make("p", { class: "legend" }, "In the charts:", ...parts));
})();

// --- Poseidon beside us ----------------------------------------------------------------------------------------------

let poseidonDiffers = false;

function showPoseidon({ at, text, problem, environments }) {
  const details = tables.poseidon.closest("details");
  const [said, asked] = ["span", "small"].map((tag) => details.querySelector(tag));
  const differs = environments.some((row) => row.lasting);
  // Opened once when it begins: whoever closes it has seen it.
  if (differs && !poseidonDiffers) details.open = true;
  poseidonDiffers = differs;
  const isTrouble = differs || problem !== null;
  details.classList.toggle("troubled", isTrouble);
  said.textContent = readable(text);
  asked.replaceChildren(...(at === null ? [] : [" As of ", clock(at), "."]));
  fill(tables.poseidon, environments);
  details.closest("section").classList.toggle("empty", !isTrouble);
}

// --- charts ---------------------------------------------------------------------------------------------------------

const HEIGHT = 40;

/** A path over the points of two series, from the one to the other; where nothing is known there is a gap. */
function area(lower, upper, y) {
  let path = "";
  for (let at = 0; at < upper.length; at++) {
    if (upper[at] === null || upper[at] === lower[at]) continue;
    path += `M${at} ${y(lower[at])}V${y(upper[at])}h1V${y(lower[at])}z`;
  }
  return path;
}

function chart(id) {
  const series = charts.environments[id];
  if (!series || series.idle.length === 0) return "";
  const { idle, coming, target, lost } = series;
  const zero = idle.map(() => 0);
  const all = idle.map((number, at) => (number === null ? null : number + coming[at]));
  const top = Math.max(1, ...all, ...target, ...lost);
  const y = (number) => (HEIGHT - (number / top) * (HEIGHT - 3)).toFixed(1);
  const line = target.map((number, at) => (number === null ? "" : `M${at} ${y(number)}h1`)).join("");
  const known = idle.filter((number) => number !== null);
  const label = known.length ? `between ${Math.min(...known)} and ${Math.max(...known)} idle` : "not known";
  return draw(
    "svg",
    { viewBox: `0 0 ${idle.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    draw("path", { class: "idle", d: area(zero, idle, y) }),
    draw("path", { class: "coming", d: area(idle, all, y) }),
    draw("path", { class: "lost", d: area(zero, lost, y) }),
    draw("path", { class: "target", d: line }),
  );
}

async function loadCharts() {
  let waitS = 15;
  try {
    const answer = await fetch("v1/history");
    if (answer.ok) {
      charts = await answer.json();
      for (const [id, row] of pools) row.querySelector("td.chart").replaceChildren(chart(id));
      waitS = Math.min(60, Math.max(2, charts.step_s));
    }
  } catch {
    // The stream says that nobody answers.
  }
  setTimeout(loadCharts, waitS * 1000);
}

// --- what comes in --------------------------------------------------------------------------------------------------

function show(changes) {
  Object.assign(status, { ...changes, environments: undefined });
  aheadMs = Date.parse(changes.at) - Date.now();
  const time = document.querySelector("header time");
  time.replaceWith(clock(changes.at));
  keepingFocus(() => {
    if (changes.environments) showPools(changes.environments);
    for (const name of ["holds", "blame", "losses", "surplus", "actions", "shadow", "pauses", "nodes"]) {
      if (changes[name]) fill(tables[name], changes[name]);
    }
    if (changes.poseidon) showPoseidon(changes.poseidon);
  });
  if (changes.summary) {
    const { level, text } = changes.summary;
    const summary = document.getElementById("summary");
    if (summary.textContent !== text) summary.textContent = text;
    summary.parentElement.className = `verdict ${level}`;
    document.title = level === "good" ? "poseidon-reconciler" : `${text} – poseidon-reconciler`;
  }
  countDown();
}

function duration(wholeS) {
  const [hours, minutes] = [Math.floor(wholeS / 3600), Math.floor(wholeS / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${wholeS % 60} s` : `${wholeS} s`;
}

function countDown() {
  for (const time of document.querySelectorAll("time.until")) {
    const leftS = Math.round((Date.parse(time.dateTime) - Date.now() - aheadMs) / 1000);
    const text = leftS <= 0 ? "now" : `in ${duration(leftS)}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

function say(text, isBroken) {
  link.textContent = text;
  link.classList.toggle("broken", isBroken);
}

function listen() {
  const stream = new EventSource("v1/events");
  stream.addEventListener("status", (event) => {
    pools.clear();
    tables.pools.tBodies[0].replaceChildren();
    show(JSON.parse(event.data));
    say("Live.", false);
  });
  stream.addEventListener("change", (event) => show(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    say("No connection: what is shown may be old.", true);
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

link.setAttribute("role", "status");
setInterval(countDown, 1000);
listen();
loadCharts();
