// How long answers took, as bars: each is for twice the time of the one before.

import { Chart, LEFT, RIGHT } from "./charts.js";
import { drawn } from "./dom.js";
import { count, duration, percent, roundNumbers, several } from "./numbers.js";

const FEWEST = 12; // bars, so that a single one does not fill the chart
const TICKS = [
  [1e-6, "1 µs"], [1e-5, "10 µs"], [1e-4, "100 µs"], [1e-3, "1 ms"], [1e-2, "10 ms"], [0.1, "0.1 s"], [1, "1 s"],
  [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "1 wk"],
  [2592000, "30 d"], [31536000, "1 yr"], [315360000, "10 yr"],
];
const exponent = (seconds) => Math.round(Math.log2(1e9 * seconds)); // bar n has those up to 2^n nanoseconds

// Add empty bars between the given ones, and around them if there are few.
export function barsOf(waits) {
  if (!waits.length) return [];
  const sizes = new Map(waits.map((wait) => [exponent(wait.seconds), wait.answers]));
  let first = Math.min(...sizes.keys());
  let last = Math.max(...sizes.keys());
  while (last - first + 1 < FEWEST) (last - first) % 2 ? (first -= 1) : (last += 1);
  return Array.from({ length: last - first + 1 }, (_, i) => ({ n: first + i, size: sizes.get(first + i) ?? 0 }));
}

const longest = (n) => 2 ** n / 1e9;

// The time within which this share of the answers came, rounded up to the end of a bar.
function within(bars, share) {
  let left = share * bars.reduce((sum, bar) => sum + bar.size, 0);
  return longest(bars.find((bar) => (left -= bar.size) <= 0).n);
}

export class WaitsChart extends Chart {
  draw(waits) {
    this.data = barsOf(waits);
    this.redraw();
  }

  stride() {
    return (this.width - LEFT - RIGHT) / Math.max(this.data.length, 1);
  }

  get total() {
    return this.data.reduce((sum, bar) => sum + bar.size, 0);
  }

  shapes() {
    const most = Math.max(...this.data.map((bar) => bar.size), 1);
    const levels = this.levels(roundNumbers(0, most, 3, 1), count);
    const place = this.pointed === null ? -1 : Math.floor((this.pointed - LEFT) / this.stride());
    this.say(this.summary(), this.data[place] ? this.describe(this.data[place]) : this.summary());
    return [...levels, ...this.data.map((bar, i) => this.bar(bar, i, i === place)), ...this.ticks()];
  }

  summary() {
    if (!this.data.length) return "no answer yet";
    const [half, most] = [0.5, 0.9].map((share) => duration(within(this.data, share)));
    return half === most ? `90 % within ${most}` : `half within ${half}, 90 % within ${most}`;
  }

  describe(bar) {
    const range = `${duration(longest(bar.n - 1))} to ${duration(longest(bar.n))}`;
    return `${range}: ${several(bar.size, "answer", "answers")}, ${percent(bar.size / this.total)}`;
  }

  bar(bar, i, pointed) {
    const width = this.stride();
    const gap = Math.min(2, width / 6);
    const height = Math.max(this.y(0) - this.y(bar.size), bar.size ? 1 : 0);
    const [x, y] = [LEFT + i * width + gap / 2, this.y(0) - height].map((number) => number.toFixed(1));
    const size = { width: (width - gap).toFixed(1), height: height.toFixed(1) };
    return drawn("rect", { x, y, ...size, class: pointed ? "bar pointed" : "bar" });
  }

  ticks() {
    if (!this.data.length) return [];
    const place = (seconds) => LEFT + (Math.log2(1e9 * seconds) - this.data[0].n + 1) * this.stride();
    const ticks = TICKS.map(([seconds, text]) => [place(seconds), text]);
    const inside = ticks.filter(([x]) => x >= LEFT && x <= this.width - RIGHT);
    return apart(inside).map(([x, text]) => this.tick(x, text));
  }
}

// Leave out ticks whose labels would overlap.
function apart(ticks) {
  const kept = [];
  for (const tick of ticks) if (!kept.length || tick[0] - kept.at(-1)[0] >= 50) kept.push(tick);
  return kept;
}
