// Ticks and their labels. Two ticks of an axis never have the same text: labels get as many digits as that needs.
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const DAY = 86400;

export function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) || power;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k += 1) ticks.push(k * step);
  return ticks;
}

// Moments in seconds since the epoch, at round times of the day in UTC.
export function timeTicks(low, high, count) {
  const step = SPANS.find((s) => (high - low) / s <= count) || Math.ceil((high - low) / count / DAY) * DAY;
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) ticks.push(t);
  return ticks;
}

// The shortest labels that tell all ticks apart; `format` takes a value and a number of digits.
export function labels(ticks, format) {
  for (let digits = 0; digits < 9; digits += 1) {
    const found = ticks.map((t) => format(t, digits));
    const exact = ticks.every((t) => Math.abs(t * 10 ** digits - Math.round(t * 10 ** digits)) < 1e-6 * Math.max(1, Math.abs(t * 10 ** digits)));
    if ((exact || digits >= 4) && new Set(found).size === ticks.length) return found;
  }
  return ticks.map(String);
}

const at = (t) => new Date(Math.round(t * 1000));
const two = (n) => String(n).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function dateOf(t) {
  return `${MONTHS[at(t).getUTCMonth()]} ${at(t).getUTCDate()}`;
}

export function timeOf(t, withSeconds) {
  const d = at(t);
  return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}${withSeconds ? `:${two(d.getUTCSeconds())}` : ""}`;
}

export function spansDays(low, high) {
  return Math.floor(low / DAY) !== Math.floor((high - 0.001) / DAY);
}

// One or two lines per tick: the time of day, and the date where the axis spans more than one day.
export function timeLabels(ticks, low, high) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
  const dated = spansDays(low, high);
  return ticks.map((t) => {
    if (step >= DAY) return [dateOf(t)];
    const time = timeOf(t, step < 60);
    return dated ? [time, dateOf(t)] : [time];
  });
}

export function fixed(value, digits) {
  return value.toFixed(digits).replace("-", "−");
}

export function short(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3;
  return fixed(value, digits);
}
