// Asks for new numbers every second while somebody looks, and draws them.
import { color, draw, short } from "./charts.js";

const root = document.getElementById("dashboard");
const pulse = document.getElementById("pulse");
const connection = document.getElementById("connection");
const percent = (value) => `${Math.round(value * 100)} %`;
const dollars = (value) => `$${value >= 10 ? value.toFixed(0) : value.toFixed(2)}`;
const seconds = (value) => (value < 1 ? `${short(value * 1000)} ms` : value < 120 ? `${short(value)} s` : `${short(value / 60)} min`);
let last = null;

function ago(t) {
  const s = Math.round(-t);
  return s < 1 ? "now" : s < 120 ? `−${s} s` : s < 7200 ? `−${short(s / 60)} min` : `−${short(s / 3600)} h`;
}

function overTime(charts, rows) {
  return charts.agents.map((name, i) => ({ name, className: color(i), points: charts.t.map((t, k) => [t, rows[i]?.[k] ?? null]) }));
}

// One moment alone would be an invisible line: show it as a stretch of time.
function twice(charts) {
  const both = (row) => [row[0], row[0]];
  const doubled = { ...charts, t: [-charts.width_s, 0], regret: both(charts.regret) };
  for (const name of ["share", "propensity", "reward", "distance", "cost"]) doubled[name] = charts[name].map(both);
  return doubled;
}

function survival(charts) {
  const curves = charts.survival.map((steps, i) => ({ name: charts.agents[i], className: color(i), steps })).filter((c) => c.steps);
  const times = curves.flatMap((c) => c.steps.map((s) => s[0])).filter((t) => t > 0);
  if (!times.length) return { curves: [], low: 0.001 };
  const low = 10 ** Math.floor(Math.log10(Math.min(...times)));
  const high = Math.max(...times);
  return {
    low: Math.max(low, 1e-4),
    curves: curves.map((c) => ({ ...c, points: [[low, 1], ...c.steps, [high, c.steps[c.steps.length - 1][1]]] })),
  };
}

function paint(charts) {
  const end = charts.t.length ? charts.t[charts.t.length - 1] : 0;
  charts = { ...charts, t: charts.t.map((t) => t - end) };
  if (charts.t.length === 1) charts = twice(charts);
  const time = { xFormat: ago };
  const marks = charts.alarms.map((a) => ({ x: Math.min(a.t - end, 0), className: color(charts.agents.indexOf(a.agent)) }));
  const figure = (name) => root.querySelector(`[data-chart="${name}"]`);
  draw(figure("share"), overTime(charts, charts.share), { ...time, stacked: true, yMin: 0, yMax: 1, yFormat: percent });
  draw(figure("propensity"), overTime(charts, charts.propensity), { ...time, yMin: 0, yMax: 1 });
  draw(figure("reward"), overTime(charts, charts.reward), { ...time, yMin: 0, yMax: 1 });
  draw(figure("regret"), [{ name: "regret", className: "c4", points: charts.t.map((t, k) => [t, charts.regret[k]]) }], { ...time, fill: true, ySpan: 1 });
  draw(figure("distance"), overTime(charts, charts.distance), { ...time, yMin: 0, ySpan: 0.1, marks });
  draw(figure("cost"), overTime(charts, charts.cost), { ...time, stacked: true, yMin: 0, ySpan: 0.01, yFormat: dollars });
  const { curves, low } = survival(charts);
  draw(figure("survival"), curves, { xFormat: seconds, logX: true, xMin: low, step: true, yMin: 0, yMax: 1, yFormat: percent });
}

function legend(agents) {
  document.getElementById("legend").replaceChildren(...agents.map((name, index) => {
    const item = document.createElement("li");
    const dot = document.createElement("i");
    dot.className = `dot ${color(index)}`;
    item.append(dot, name);
    return item;
  }));
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
  const answer = await fetch(root.dataset.live, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  last = await answer.json();
  fill(last.parts);
  legend(last.charts.agents);
  paint(last.charts);
}

async function loop() {
  if (!document.hidden) {
    try {
      await refresh();
      connection.textContent = "live";
      pulse.classList.remove("off");
    } catch {
      connection.textContent = "no connection, trying again";
      pulse.classList.add("off");
    }
  }
  setTimeout(loop, 1000);
}

addEventListener("resize", () => last && paint(last.charts));
loop();
