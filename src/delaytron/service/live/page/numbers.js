// Numbers, times and durations as text.

const NARROW = "\u202f"; // a narrow space that does not break
const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

export const count = (number) => counts.format(number);
export const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}${NARROW}%`);
export const several = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

// At least three significant digits from 1 on, without an exponent.
export function rate(number) {
  return number >= 100 ? count(number) : number.toFixed(number >= 10 ? 1 : 2);
}

export function signed(number) {
  const size = Math.abs(number);
  const text = size >= 1000 || (size < 0.001 && size > 0) ? size.toExponential(1) : size.toFixed(size >= 100 ? 1 : 3);
  return (number < 0 ? "\u2212" : "+") + text;
}

export function duration(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)}${NARROW}µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(0)}${NARROW}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}${NARROW}s`;
  if (seconds < 60) return `${seconds.toFixed(0)}${NARROW}s`;
  const [size, name, part, partName] = UNITS.find(([unit]) => seconds >= unit);
  const rest = Math.floor((seconds % size) / part);
  return `${count(Math.floor(seconds / size))}${NARROW}${name}` + (rest ? `\u00a0${rest}${NARROW}${partName}` : "");
}

const two = (number) => String(number).padStart(2, "0");

// The time of day here; of other days with the date.
export function clock(date, now = new Date()) {
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return date.toDateString() === now.toDateString() ? time : `${day(date)} ${time.slice(0, 5)}`;
}

export const day = (date) => date.toLocaleDateString("en", { day: "numeric", month: "short" });
export const hour = (date) => `${two(date.getHours())}:${two(date.getMinutes())}`;

const STEPS = [1, 2, 5, 10];

// Round numbers in about `most` steps that cover the range from low to high.
export function roundNumbers(low, high, most, smallest = 0) {
  const raw = Math.max((high - low) / most, smallest, 1e-12);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(size * STEPS.find((times) => times * size >= raw * (1 - 1e-9)), smallest);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(Math.ceil(high / step - 1e-9), first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
