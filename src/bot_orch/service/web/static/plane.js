// Cost and quality: a point per agent with error bars, the hull of fixed mixes, and the router's own point.
import { PAD, axes, canvas, cut, look, node, nothing, place } from "./charts.js";
import { fixed, labels, logTicks, niceTicks, short } from "./ticks.js";

const WIDE = 30; // from this ratio of prices on the axis is logarithmic
const LETTERS = 14;
const dollars = (value, digits) => `$${fixed(value, digits)}`;
const exact = (value) => dollars(value, value === 0 || value >= 1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(value))));

// Both axes: rewards from zero, dollars from zero or, if prices differ widely, on a logarithmic scale.
function scales(points, width, height, right) {
  const usd = points.map((p) => p.usd);
  const log = Math.min(...usd) > 0 && Math.max(...usd) / Math.min(...usd) > WIDE;
  const ys = points.map((p) => p.reward); // bars end at the axes
  const levels = niceTicks(Math.min(0, ...ys), Math.max(1e-9, ...ys), 4);
  const step = levels[1] - levels[0];
  const box = { y0: Math.floor(Math.min(0, ...ys) / step + 1e-9) * step, y1: Math.ceil(Math.max(...ys, step) / step - 1e-9) * step };
  const scale = log ? Math.log10 : (v) => v;
  [box.x0, box.x1] = log ? [Math.min(...usd) / 1.6, Math.max(...usd) * 1.6] : [0, Math.max(...points.map((p) => p.usd + (p.usd_error ?? 0)), 1e-9) * 1.06];
  const span = scale(box.x1) - scale(box.x0);
  const x = (v) => PAD.left + ((scale(log ? Math.max(v, box.x0) : Math.max(v, 0)) - scale(box.x0)) / span) * (width - PAD.left - right);
  const y = (value) => height - PAD.bottom - ((Math.min(Math.max(value, box.y0), box.y1) - box.y0) / (box.y1 - box.y0)) * (height - PAD.top - PAD.bottom);
  const xTicks = log ? logTicks(box.x0, box.x1) : niceTicks(box.x0, box.x1, 4);
  const xLabels = log ? xTicks.map((t) => [dollars(t, Math.max(0, -Math.floor(Math.log10(t) + 1e-9)))]) : labels(xTicks, dollars).map((t) => [t]);
  return { box, x, y, log, xTicks, xLabels };
}

// Mixes of two neighbours lie on a straight line in dollars, which a logarithmic axis bends.
function hullPath(hull, { x, y, log, box }) {
  const parts = log ? 24 : 1;
  const line = hull.slice(1).flatMap((to, k) => [...Array(parts).keys()].map((j) => {
    const share = (j + 1) / parts;
    return [hull[k][0] + share * (to[0] - hull[k][0]), hull[k][1] + share * (to[1] - hull[k][1])];
  }));
  const all = [hull[0], ...line, [box.x1, hull[hull.length - 1][1]]];
  return `M${all.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L")}`;
}

function bars(svg, point, { x, y }, className) {
  const [a, b] = [point.usd_error ?? 0, point.reward_error ?? 0];
  const d = `M${x(point.usd - a).toFixed(1)} ${y(point.reward).toFixed(1)}H${x(point.usd + a).toFixed(1)}M${x(point.usd).toFixed(1)} ${y(point.reward - b).toFixed(1)}V${y(point.reward + b).toFixed(1)}`;
  if (point.corrected) node("path", { class: `bar ${className}`, d }, svg);
}

// Names beside their points, those in colour only, and none over another; agents below the hull, the router above.
function names(svg, marks, width) {
  const taken = [];
  for (const { point, router, px, py, className } of marks) {
    const offsets = router ? [-8, 4, -21, 17, 30] : [16, 4, -8, 29, -21];
    const text = cut(point.name, LETTERS);
    const room = 6.4 * text.length;
    const left = px + 8 + room > width - 2 ? px - 8 - room : px + 8;
    const at = offsets.map((v) => py + v).find((v) => v > 10 && taken.every((t) => left > t.right || left + room < t.left || Math.abs(v - t.at) >= 12));
    if (at === undefined) continue;
    taken.push({ left, right: left + room, at });
    node("text", { class: `name ${className}`, x: left.toFixed(1), y: at.toFixed(1) }, svg).textContent = text;
  }
}

export function drawPlane(figure, plane, agents, bright) {
  const area = canvas(figure, pointAt);
  const points = [...plane.points, ...(plane.router ? [plane.router] : [])];
  if (!plane.points.length) {
    nothing(figure, area);
    return;
  }
  const { svg, width, height } = area;
  const found = scales(points, width, height, PAD.right);
  axes(svg, found.box, found.x, found.y, { xTicks: found.xTicks, xLabels: found.xLabels, plotRight: width - PAD.right, height });
  if (plane.hull.length) node("path", { class: "hull", d: hullPath(plane.hull, found) }, svg);
  const marks = points.map((point) => {
    const router = point === plane.router;
    const shown = router || bright.has(point.name);
    return { point, router, shown, className: router ? "router" : shown ? look(agents.indexOf(point.name)) : "other", px: found.x(point.usd), py: found.y(point.reward) };
  }).sort((a, b) => Number(a.shown) - Number(b.shown));
  for (const { point, router, className, px, py } of marks) {
    if (router) node("path", { class: "dot router", d: `M${px} ${py - 6}l6 6l-6 6l-6 -6z` }, svg);
    else {
      bars(svg, point, found, className);
      node("circle", { class: `dot ${className}${point.corrected ? "" : " plain"}`, "data-name": point.name, cx: px.toFixed(1), cy: py.toFixed(1), r: 4.5 }, svg);
    }
  }
  names(svg, marks.filter((m) => m.shown).reverse(), width);
  figure.chart = { svg, width, height, marks, above: plane.above };
}

function row(name, value) {
  const line = document.createElement("div");
  line.append(...[name, value].map((text) => {
    const part = document.createElement("span");
    part.textContent = text;
    return part;
  }));
  return line;
}

// The values of the point that is nearest to the pointer.
function pointAt(figure, tip, event) {
  const chart = figure.chart;
  if (!chart) return;
  const rect = chart.svg.getBoundingClientRect();
  const at = [((event.clientX - rect.left) / rect.width) * chart.width, ((event.clientY - rect.top) / rect.height) * chart.height];
  const far = (m) => Math.hypot(m.px - at[0], m.py - at[1]);
  const { point, router } = chart.marks.reduce((best, m) => (far(m) < far(best) ? m : best));
  const head = document.createElement("b");
  head.textContent = router ? "the router" : point.name;
  const within = (error, format) => (error === null ? "" : ` ± ${format(error)}`);
  const rows = [row("reward", short(point.reward) + within(point.reward_error, short)), row("each", exact(point.usd) + within(point.usd_error, exact))];
  if (router && chart.above !== null) rows.push(row("above the hull", fixed(chart.above, 3)));
  if (!router && !point.corrected) rows.push(row("own decisions only", ""));
  tip.replaceChildren(head, ...rows);
  place(figure, tip, event.clientX - rect.left, rect.width);
}
