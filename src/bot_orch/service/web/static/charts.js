// Small charts in SVG: lines, steps and stacked areas on a linear or logarithmic x axis. No styles are set here; the
// stylesheet does that by class, so that a strict content policy holds.
const SVG = "http://www.w3.org/2000/svg";
const PAD = { left: 42, right: 10, top: 8, bottom: 22 };

function node(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

export function color(index) {
  return `c${index % 8}`;
}

function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-6; t += step) ticks.push(t);
  return ticks;
}

const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

export function timeTicks(low, high, count) {
  const step = SPANS.find((s) => (high - low) / s <= count) || Math.ceil((high - low) / count / 86400) * 86400;
  const ticks = [];
  for (let t = 0; t >= low; t -= step) ticks.push(t);
  return ticks;
}

function digitsOf(ticks) {
  return [0, 1, 2, 3, 4].find((d) => ticks.every((t) => Math.abs(t * 10 ** d - Math.round(t * 10 ** d)) < 1e-6)) ?? 4;
}

function logTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    if (10 ** e >= low * 0.999 && 10 ** e <= high * 1.001) ticks.push(10 ** e);
  }
  return ticks;
}

export function short(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
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
  const xs = series.flatMap((s) => s.points.map((p) => p[0]));
  const ys = series.flatMap((s) => s.points.map((p) => p[1])).filter((y) => y !== null);
  if (!xs.length || !ys.length) return null;
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [options.yMin ?? Math.min(...ys), options.yMax ?? Math.max(...ys)];
  if (options.xMin !== undefined) x0 = options.xMin;
  if (x1 <= x0) x1 = options.logX ? x0 * 10 : x0 + 1;
  if (y1 - y0 < (options.ySpan ?? 1e-9)) y1 = y0 + (options.ySpan ?? 1);
  return { x0, x1, y0, y1 };
}

function linePath(points, x, y, step) {
  let path = "";
  let drawing = false;
  points.forEach(([px, py], index) => {
    if (py === null) { drawing = step ? drawing : false; return; }
    if (step && drawing) path += `H${x(px).toFixed(1)}V${y(py).toFixed(1)}`;
    else path += `${drawing ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
    const alone = !drawing && (index + 1 >= points.length || points[index + 1][1] === null);
    if (alone) path += "h.1";
    drawing = true;
  });
  return path;
}

function areaPath(points, x, y) {
  const known = points.filter((p) => p[1] !== null);
  if (!known.length) return "";
  if (known.length === 1) { // one moment between others without data: a bar, where an area would have no width
    const [px, py, base] = known[0];
    return `M${x(px).toFixed(1)} ${y(py).toFixed(1)}h3V${y(base).toFixed(1)}h-3Z`;
  }
  const top = known.map(([px, py]) => `${x(px).toFixed(1)} ${y(py).toFixed(1)}`);
  const bottom = known.map(([px, , base]) => `${x(px).toFixed(1)} ${y(base).toFixed(1)}`).reverse();
  return `M${top.join("L")}L${bottom.join("L")}Z`;
}

export function draw(figure, data, options = {}) {
  const width = Math.max(figure.clientWidth - 28, 200);
  const height = 200;
  let svg = figure.querySelector("svg");
  if (!svg) {
    svg = node("svg", { role: "img", preserveAspectRatio: "none" });
    figure.append(svg);
    watchPointer(figure, svg);
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
  svg.replaceChildren();
  const series = options.stacked ? stack(data) : data;
  const box = bounds(series, options);
  if (!box) {
    node("text", { class: "none", x: width / 2, y: height / 2, "text-anchor": "middle" }, svg).textContent = "nothing yet";
    figure.chart = null;
    return;
  }
  const scale = options.logX ? Math.log10 : (v) => v;
  const span = scale(box.x1) - scale(box.x0);
  const x = (v) => PAD.left + ((scale(Math.max(v, options.logX ? box.x0 : -Infinity)) - scale(box.x0)) / span) * (width - PAD.left - PAD.right);
  const y = (v) => height - PAD.bottom - ((v - box.y0) / (box.y1 - box.y0)) * (height - PAD.top - PAD.bottom);
  axes(svg, box, x, y, width, height, options);
  series.forEach((each) => {
    if (options.stacked) node("path", { class: `area ${each.className}`, d: areaPath(each.points, x, y) }, svg);
    else {
      if (options.fill) node("path", { class: `fill ${each.className}`, d: areaPath(each.points.map(([a, b]) => [a, b, Math.max(box.y0, 0)]), x, y) }, svg);
      node("path", { class: `line ${each.className}`, d: linePath(each.points, x, y, options.step) }, svg);
    }
  });
  (options.marks || []).forEach((mark) => {
    const mx = x(mark.x);
    node("path", { class: `mark ${mark.className}`, d: `M${mx - 5} ${PAD.top - 6}h10l-5 8z` }, svg);
    node("path", { class: `cross ${mark.className}`, d: `M${mx} ${PAD.top}V${height - PAD.bottom}` }, svg);
  });
  figure.chart = { data, series, options, x, y, width, height, svg };
}

function axes(svg, box, x, y, width, height, options) {
  const levels = niceTicks(box.y0, box.y1, 4);
  const format = options.yFormat || ((v) => v.toFixed(digitsOf(levels)).replace("-", "−"));
  for (const tick of levels) {
    node("path", { class: "grid", d: `M${PAD.left} ${y(tick)}H${width - PAD.right}` }, svg);
    node("text", { class: "axis", x: PAD.left - 7, y: y(tick) + 4, "text-anchor": "end" }, svg).textContent = format(tick);
  }
  const ticks = options.logX ? logTicks(box.x0, box.x1) : timeTicks(box.x0, box.x1, Math.min(5, width / 80));
  for (const tick of ticks) {
    const at = x(tick);
    const anchor = at > width - 30 ? "end" : at < PAD.left + 12 ? "start" : "middle";
    node("text", { class: "axis", x: at, y: height - 5, "text-anchor": anchor }, svg).textContent = options.xFormat(tick);
  }
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

function show(figure, tip, event) {
  const chart = figure.chart;
  if (!chart) return;
  const rect = chart.svg.getBoundingClientRect();
  const at = ((event.clientX - rect.left) / rect.width) * chart.width;
  const xs = [...new Set(chart.data.flatMap((s) => s.points.map((p) => p[0])))];
  const near = xs.reduce((best, v) => (Math.abs(chart.x(v) - at) < Math.abs(chart.x(best) - at) ? v : best), xs[0]);
  chart.svg.querySelector(".cross.hover")?.remove();
  node("path", { class: "cross hover", d: `M${chart.x(near)} ${PAD.top}V${chart.height - PAD.bottom}` }, chart.svg);
  const head = document.createElement("b");
  head.textContent = chart.options.xFormat(near);
  const format = chart.options.yFormat || short;
  const rows = chart.data.map((each) => {
    const before = each.points.filter((p) => (chart.options.step ? p[0] <= near : p[0] === near));
    const value = before.length ? before[before.length - 1][1] : null;
    if (value === null || value === undefined) return null;
    const row = document.createElement("div");
    const name = document.createElement("span");
    const dot = document.createElement("i");
    dot.className = `dot ${each.className}`;
    name.append(dot, each.name);
    const number = document.createElement("span");
    number.textContent = format(value);
    row.append(name, number);
    return row;
  });
  tip.replaceChildren(head, ...rows.filter(Boolean));
  tip.hidden = false;
  const left = event.clientX - rect.left;
  tip.style.left = `${left > rect.width / 2 ? left - tip.offsetWidth : left + 28}px`;
  tip.style.top = "3rem";
}
