// Asks for new numbers every second while somebody looks, and draws them.
import { draw, look } from "./charts.js";
import { ask, keepAsking } from "./connection.js";
import { fixed } from "./ticks.js";

const MOST_IN_COLOUR = 8;
const root = document.getElementById("dashboard");
const percent = (value, digits = 0) => `${fixed(value * 100, Math.max(0, digits - 2))} %`;
const dollars = (value, digits = 2) => `$${fixed(value, digits)}`;
const chosen = new Set((new URLSearchParams(location.search).get("agents") || "").split(",").filter(Boolean));
let pointed = null;
let last = null;

// Agents drawn in colour: those chosen; otherwise all, or those with the most traffic if there are many.
function prominent(charts) {
  const names = charts.agents;
  const picked = names.filter((name) => chosen.has(name) || name === pointed);
  if (picked.length) return new Set(picked);
  if (names.length <= MOST_IN_COLOUR) return new Set(names);
  const order = [...names.keys()].sort((a, b) => charts.decisions[b] - charts.decisions[a]);
  return new Set(order.slice(0, MOST_IN_COLOUR).map((i) => names[i]));
}

function overTime(charts, rows, bright) {
  return charts.agents.map((name, i) => ({
    name,
    label: bright.has(name),
    className: bright.has(name) ? look(i) : "other",
    points: charts.t.map((t, k) => [t, rows[i]?.[k] ?? null]),
  })).sort((a, b) => weight(charts, b.name) - weight(charts, a.name));
}

function weight(charts, name) {
  return charts.decisions[charts.agents.indexOf(name)];
}

// In a stack all the others are one band.
function banded(charts, rows, bright) {
  const all = overTime(charts, rows, bright);
  const others = all.filter((each) => !each.label);
  const front = charts.agents.map((name) => all.find((each) => each.name === name)).filter((each) => each.label);
  if (!others.length) return front;
  const sum = charts.t.map((t, k) => {
    const known = others.map((each) => each.points[k][1]).filter((v) => v !== null);
    return [t, known.length ? known.reduce((a, b) => a + b, 0) : null];
  });
  return [...front, { name: others.length === 1 ? others[0].name : `${others.length} others`, label: true, className: "other", points: sum }];
}

function paint(charts) {
  const bright = prominent(charts);
  const first = charts.t.length ? Math.min(charts.from, charts.t[0] - charts.width_s / 2) : charts.from;
  const time = { gap: charts.gap_s, width: charts.width_s, xMin: first, xMax: charts.to };
  const marks = charts.alarms.map((a) => ({ x: a.t, className: look(charts.agents.indexOf(a.agent)) }));
  const figure = (name) => root.querySelector(`[data-chart="${name}"]`);
  const lines = (name, options) => draw(figure(name), overTime(charts, charts[name], bright), { ...time, ...options });
  draw(figure("share"), banded(charts, charts.share, bright), { ...time, stacked: true, yMax: 1, yFormat: percent, tipFormat: percent });
  lines("propensity", { ySpan: 0.1 });
  lines("reward", { yMax: charts.highest, marks });
  draw(figure("cost"), banded(charts, charts.cost, bright), { ...time, stacked: true, ySpan: 0.01, yFormat: dollars, tipFormat: (v) => dollars(v, v < 1 ? 4 : 2) });
}

function choose(name) {
  if (!chosen.delete(name)) chosen.add(name);
  const query = new URLSearchParams(location.search);
  if (chosen.size) query.set("agents", [...chosen].join(",")); else query.delete("agents");
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  for (const anchor of document.querySelectorAll(".choices a")) {
    const address = new URL(anchor.href);
    if (chosen.size) address.searchParams.set("agents", [...chosen].join(",")); else address.searchParams.delete("agents");
    anchor.href = address.pathname + address.search;
  }
  document.querySelector(".ranges [name=agents]").value = [...chosen].join(",");
  again();
}

function point(name) {
  pointed = name;
  again();
}

function again() {
  if (!last) return;
  markLegend();
  paint(last.charts);
}

function legend(agents) {
  const place = document.getElementById("legend");
  if ([...place.querySelectorAll("button")].map((b) => b.dataset.agent).join("\n") === agents.join("\n")) return;
  place.replaceChildren(...agents.map((name, index) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const mark = document.createElement("i");
    button.type = "button";
    button.dataset.agent = name;
    mark.className = `swatch ${look(index)}`;
    button.append(mark, name);
    button.addEventListener("click", () => choose(name));
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && point(name));
    button.addEventListener("pointerleave", () => point(null));
    item.append(button);
    return item;
  }));
}

function markLegend() {
  const bright = prominent(last.charts);
  for (const button of document.querySelectorAll("#legend button")) {
    button.setAttribute("aria-pressed", String(chosen.has(button.dataset.agent)));
    button.classList.toggle("faint", !bright.has(button.dataset.agent));
  }
  const note = document.getElementById("legend-note");
  note.hidden = last.charts.agents.length <= MOST_IN_COLOUR;
  note.textContent = chosen.size ? "The others are grey. Choose again to let go." : `In colour: the ${MOST_IN_COLOUR} agents with the most decisions. Choose others here.`;
}

function fill(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = root.querySelector(`[data-part="${name}"]`);
    if (place.contains(document.activeElement)) continue; // do not take a link from under the keyboard
    const template = document.createElement("template");
    template.innerHTML = html; // written by the server, which escapes every value
    place.replaceChildren(template.content);
  }
}

async function refresh() {
  last = await ask(root.dataset.live);
  fill(last.parts);
  legend(last.charts.agents);
  again();
}

addEventListener("resize", () => last && paint(last.charts));
keepAsking(refresh, 1000);
