// Small charts in SVG: lines and stacked areas over time. No styles are set here; the stylesheet does that by class, so
// that a strict content policy holds.
import { dateOf, fixed, labels, niceTicks, short, spansDays, timeLabels, timeOf, timeTicks } from "./ticks.js";

const SVG = "http://www.w3.org/2000/svg";
const PAD = { left: 46, right: 10, top: 10, bottom: 34 };
const LABEL_HEIGHT = 13;
const MOST_ROWS = 10;

function node(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

// Colour and line style of an agent: 8 colours times 7 styles.
export function look(index) {
  return index < 0 ? "other" : `c${index % 8} d${Math.floor(index / 8) % 7}`;
}

// Points of every series, stacked if asked for: [{name, className, points: [[x, y, base]]}]
function stack(series) {
  const base = new Map();
  return series.map((each) => ({
    ...each,
    points: each.points.map(([x, y]) => {
      const from = base.get(x) || 0;
      base.set(x, from + (y ?? 0));
      return [x, y === null ? null : from + y, from];
    }),
  }));
}

function bounds(series, options) {
  const points = series.flatMap((s) => s.points).filter((p) => p[1] !== null);
  if (!points.length) return null;
  const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
  const x0 = options.xMin ?? Math.min(...xs);
  const x1 = Math.max(options.xMax ?? Math.max(...xs), x0 + 1);
  const y0 = Math.min(0, ...ys); // every axis has its zero
  const most = Math.max(0, ...ys);
  const y1 = options.yMax !== undefined && most < options.yMax * 1.005 ? options.yMax : most; // a sum of rounded shares
  const ticks = niceTicks(y0, y1 - y0 < (options.ySpan ?? 1e-9) ? y0 + (options.ySpan ?? 1) : y1, 4);
  const step = ticks[1] - ticks[0];
  const round = (v, up) => (up ? Math.ceil(v / step - 1e-9) : Math.floor(v / step + 1e-9)) * step;
  return { x0, x1, y0: round(y0, false), y1: Math.max(round(y1, true), ticks[ticks.length - 1]) };
}

// Stretches of points that belong together: nothing is drawn across a time without data.
function runs(points, gap) {
  const found = [];
  for (const point of points) {
    if (point[1] === null) continue;
    const last = found[found.length - 1];
    if (last && point[0] - last[last.length - 1][0] <= gap) last.push(point);
    else found.push([point]);
  }
  return found;
}

function linePath(points, x, y, options) {
  return runs(points, options.gap ?? Infinity).map((run) => {
    const [first, ...rest] = run.map(([px, py]) => [x(px).toFixed(1), y(py).toFixed(1)]);
    if (!rest.length) return `M${first[0] - 1.5} ${first[1]}h3`; // one point alone: a short dash
    return `M${first.join(" ")}${rest.map(([px, py]) => `L${px} ${py}`).join("")}`;
  }).join("");
}

function areaPath(points, x, y, options) {
  return runs(points, options.gap ?? Infinity).map((run) => {
    if (run.length === 1) { // one interval alone: a bar as wide as the interval
      const [px, py, base] = run[0];
      const half = Math.max(1.5, (x(px + (options.width ?? 0)) - x(px)) / 2);
      return `M${(x(px) - half).toFixed(1)} ${y(py).toFixed(1)}h${(2 * half).toFixed(1)}V${y(base).toFixed(1)}h${(-2 * half).toFixed(1)}Z`;
    }
    const top = run.map(([px, py]) => `${x(px).toFixed(1)} ${y(py).toFixed(1)}`);
    const bottom = run.map(([px, , base]) => `${x(px).toFixed(1)} ${y(base).toFixed(1)}`).reverse();
    return `M${top.join("L")}L${bottom.join("L")}Z`;
  }).join("");
}

// Names of agents often differ at their ends only: leave out the middle.
function cut(name, most) {
  const tail = Math.floor(most / 2) - 1;
  return name.length > most ? `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}` : name;
}

export function draw(figure, data, options = {}) {
  const width = Math.max(figure.clientWidth - 28, 200);
  const height = 212;
  let svg = figure.querySelector("svg");
  if (!svg) {
    svg = node("svg", { role: "img", preserveAspectRatio: "none" });
    figure.append(svg);
    watchPointer(figure, svg);
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", figure.querySelector("figcaption").firstChild.textContent.trim());
  svg.replaceChildren();
  const series = options.stacked ? stack(data) : data;
  const box = bounds(series, options);
  if (!box) {
    node("text", { class: "none", x: width / 2, y: height / 2, "text-anchor": "middle" }, svg).textContent = "nothing in this range";
    figure.chart = null;
    return;
  }
  const letters = width < 340 ? 11 : 14;
  const named = series.filter((s) => s.label && s.points.some((p) => p[1] !== null));
  const right = named.length > 1 ? 12 + 6.2 * Math.min(letters, Math.max(...named.map((s) => s.name.length))) : PAD.right;
  const x = (v) => PAD.left + ((v - box.x0) / (box.x1 - box.x0)) * (width - PAD.left - right);
  const y = (v) => height - PAD.bottom - ((v - box.y0) / (box.y1 - box.y0)) * (height - PAD.top - PAD.bottom);
  axes(svg, box, x, y, { ...options, plotRight: width - right, height });
  const drawn = [...series].sort((a, b) => Number(Boolean(a.label)) - Number(Boolean(b.label))); // those in colour on top
  for (const each of options.stacked ? series : drawn) {
    if (options.stacked) node("path", { class: `area ${each.className}`, d: areaPath(each.points, x, y, options) }, svg);
    else node("path", { class: `line ${each.className}`, "data-name": each.name, d: linePath(each.points, x, y, options) }, svg);
  }
  (options.marks || []).forEach((mark) => {
    const mx = x(mark.x);
    node("path", { class: `mark ${mark.className}`, d: `M${mx - 5} ${PAD.top - 8}h10l-5 8z` }, svg);
    node("path", { class: `cross ${mark.className}`, d: `M${mx} ${PAD.top}V${height - PAD.bottom}` }, svg);
  });
  if (named.length > 1) nameLines(svg, named, { x: width - right + 5, y, letters, low: PAD.top, high: height - PAD.bottom, stacked: options.stacked });
  figure.chart = { data, series, options, box, x, y, width, height, svg, right };
}

// Names at the right end, next to their lines; the most important first if there is not room for all.
function nameLines(svg, series, { x, y, letters, low, high, stacked }) {
  const most = Math.floor((high - low) / LABEL_HEIGHT) + 1;
  const wanted = series.map((each) => {
    const [, top, base] = each.points.filter((p) => p[1] !== null).pop();
    return { each, at: stacked ? (y(top) + y(base)) / 2 : y(top), room: stacked ? y(base) - y(top) : Infinity };
  });
  const placed = wanted.filter((w) => w.room >= 7).slice(0, most).sort((a, b) => a.at - b.at);
  placed.forEach((w, k) => { w.at = Math.max(w.at, k ? placed[k - 1].at + LABEL_HEIGHT : low); });
  for (let k = placed.length - 1; k >= 0; k -= 1) {
    placed[k].at = Math.min(placed[k].at, k === placed.length - 1 ? high : placed[k + 1].at - LABEL_HEIGHT);
  }
  for (const { each, at } of placed) {
    node("text", { class: `name ${each.className}`, x, y: (at + 4).toFixed(1) }, svg).textContent = cut(each.name, letters);
  }
}

function axes(svg, box, x, y, options) {
  const { plotRight, height } = options;
  const levels = niceTicks(box.y0, box.y1, 4);
  const texts = labels(levels, options.yFormat || fixed);
  levels.forEach((tick, k) => {
    node("path", { class: tick === 0 ? "grid zero" : "grid", d: `M${PAD.left} ${y(tick)}H${plotRight}` }, svg);
    node("text", { class: "axis y", x: PAD.left - 7, y: y(tick) + 4, "text-anchor": "end" }, svg).textContent = texts[k];
  });
  const room = Math.max(2, Math.min(5, Math.floor((plotRight - PAD.left) / 58)));
  const ticks = timeTicks(box.x0, box.x1, room);
  const lines = timeLabels(ticks, box.x0, box.x1);
  ticks.forEach((tick, k) => {
    const at = x(tick);
    const anchor = at > plotRight - 12 ? "end" : at < PAD.left + 12 ? "start" : "middle";
    node("path", { class: "grid", d: `M${at} ${height - PAD.bottom}v4` }, svg);
    const text = node("text", { class: "axis x", y: height - PAD.bottom + 16, "text-anchor": anchor }, svg);
    lines[k].forEach((line, row) => { node("tspan", { x: at, dy: row ? 13 : 0 }, text).textContent = row ? ` ${line}` : line; });
  });
}

// A vertical line under the pointer, and the values it meets.
function watchPointer(figure, svg) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  figure.append(tip);
  svg.addEventListener("pointermove", (event) => show(figure, tip, event));
  svg.addEventListener("pointerleave", () => { tip.hidden = true; svg.querySelector(".cross.hover")?.remove(); });
}

function headOf(chart, value) {
  const time = timeOf(value, (chart.options.width ?? 60) < 60);
  return spansDays(chart.box.x0, chart.box.x1) ? `${dateOf(value)} ${time} UTC` : `${time} UTC`;
}

function show(figure, tip, event) {
  const chart = figure.chart;
  if (!chart) return;
  const rect = chart.svg.getBoundingClientRect();
  const at = ((event.clientX - rect.left) / rect.width) * chart.width;
  const xs = [...new Set(chart.data.flatMap((s) => s.points.filter((p) => p[1] !== null).map((p) => p[0])))];
  const near = xs.reduce((best, v) => (Math.abs(chart.x(v) - at) < Math.abs(chart.x(best) - at) ? v : best), xs[0]);
  chart.svg.querySelector(".cross.hover")?.remove();
  node("path", { class: "cross hover", d: `M${chart.x(near)} ${PAD.top}V${chart.height - PAD.bottom}` }, chart.svg);
  const head = document.createElement("b");
  head.textContent = headOf(chart, near);
  const format = chart.options.tipFormat || short;
  const values = chart.data.map((each) => {
    const found = each.points.find((p) => p[0] === near);
    return { each, value: found ? found[1] : null };
  }).filter((v) => v.value !== null);
  const shown = values.length > MOST_ROWS ? values.filter((v) => v.each.label).sort((a, b) => b.value - a.value).slice(0, MOST_ROWS) : values;
  const rows = shown.map(({ each, value }) => {
    const row = document.createElement("div");
    const name = document.createElement("span");
    const mark = document.createElement("i");
    mark.className = `swatch ${each.className}`;
    name.append(mark, each.name);
    const number = document.createElement("span");
    number.textContent = format(value);
    row.append(name, number);
    return row;
  });
  if (values.length > shown.length) {
    const rest = document.createElement("div");
    rest.textContent = `and ${values.length - shown.length} others`;
    rows.push(rest);
  }
  tip.replaceChildren(head, ...rows);
  place(figure, tip, event.clientX - rect.left, rect.width);
}

// Show a tip beside the pointer, inside the figure.
function place(figure, tip, left, width) {
  tip.hidden = false;
  const room = figure.clientWidth - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(4, Math.min(room, left > width / 2 ? left - tip.offsetWidth : left + 28))}px`;
  tip.style.top = "3rem";
}
