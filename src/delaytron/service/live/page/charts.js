// Charts as SVG: what all of them share, and lines with a band over time. The style sheet has the colours.

import { drawn, element, find, setText } from "./dom.js";
import { clock, day, hour } from "./numbers.js";

export const LEFT = 46; // pixels for the numbers of the axis
export const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
const SHORTEST = 30; // seconds that an axis of time shows at least
const TICK_WIDTH = 76; // pixels
const LETTER = 6; // pixels, about, of a word beside an event
const EVENT_ROWS = 3;
const EVENT_HEIGHT = 13; // pixels
const TIME_STEPS = [5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];

// The size, the axes, and a place that is pointed at by the mouse or with the arrow keys.
export class Chart {
  constructor(figure) {
    this.title = find("h2", figure).textContent;
    this.output = find("output", figure);
    this.svg = drawn("svg", { role: "img", tabindex: "0", "aria-label": this.title });
    this.plot = element("div", { class: "plot" }, this.svg);
    figure.append(this.plot);
    this.pointed = null; // pixels from the left
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => this.redraw()).observe(this.plot);
  }

  move(event) {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.point(null);
    if (!direction) return;
    event.preventDefault();
    this.output.ariaLive = "polite"; // screen readers announce it
    const from = this.pointed ?? (direction < 0 ? this.width - RIGHT : LEFT);
    this.point(Math.min(Math.max(from + direction * this.stride(), LEFT), this.width - RIGHT - 1));
  }

  leave() {
    this.output.ariaLive = "off";
    this.point(null);
  }

  point(x) {
    this.pointed = x;
    this.redraw();
  }

  redraw() {
    const { clientWidth, clientHeight } = this.plot;
    if (!clientWidth || !this.data) return;
    this.width = clientWidth;
    this.height = clientHeight;
    this.svg.setAttribute("viewBox", `0 0 ${clientWidth} ${clientHeight}`);
    this.svg.replaceChildren(...this.shapes());
  }

  // `whole` is for screen readers, `here` is about the point under the pointer.
  say(whole, here) {
    const label = `${this.title}: ${whole}`;
    if (this.svg.getAttribute("aria-label") !== label) this.svg.setAttribute("aria-label", label);
    setText(this.output, here);
  }

  y(value) {
    const [low, high] = this.range;
    return TOP + (1 - (value - low) / (high - low)) * (this.height - TOP - BOTTOM);
  }

  levels(values, format) {
    this.range = [values[0], values.at(-1)];
    return values.flatMap((value) => {
      const y = this.y(value).toFixed(1);
      const text = drawn("text", { x: LEFT - 6, y, class: "level" }, format(value));
      return [drawn("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y, class: "grid" }), text];
    });
  }

  tick(x, text) {
    const anchor = x > this.width - TICK_WIDTH / 2 ? "end" : "middle";
    const place = anchor === "end" ? this.width - 2 : x;
    return drawn("text", { x: place.toFixed(1), y: this.height - 4, class: "tick", "text-anchor": anchor }, text);
  }
}

// `line` and `band` name numbers of a point; `axis` makes the levels of a range, `format` prints one, `describe` a point.
// `between` returns the words for what happened from one point to the next; it is marked where the second one is.
export class TimeChart extends Chart {
  constructor(figure, { line, band = [], axis, format, describe, between = () => [] }) {
    super(figure);
    Object.assign(this, { line, band, axis, format, describe, between });
  }

  draw(points, now) {
    this.data = points;
    this.now = now;
    this.start = Math.min(points[0]?.t ?? now, now - SHORTEST);
    this.redraw();
  }

  stride() {
    return 8;
  }

  x(t) {
    return LEFT + ((t - this.start) / (this.now - this.start)) * (this.width - LEFT - RIGHT);
  }

  shapes() {
    const names = [this.line, ...this.band];
    const values = this.data.flatMap((point) => names.map((name) => point[name])).filter(isKnown);
    const levels = this.axis(Math.min(...values, Infinity), Math.max(...values, -Infinity));
    const drawings = [this.levels(levels, this.format), this.times(), this.areas(), this.lines(), this.events()];
    return [...drawings.flat(), ...this.marks()];
  }

  place(point, name) {
    return `${this.x(point.t).toFixed(1)},${this.y(point[name]).toFixed(1)}`;
  }

  areas() {
    const [low, high] = this.band;
    if (!low) return [];
    const along = (run, name) => run.map((point) => this.place(point, name));
    const around = (run) => `M${[...along(run, low), ...along(run, high).reverse()].join("L")}Z`;
    return [drawn("path", { d: runs(this.data, low).map(around).join(""), class: "band" })];
  }

  lines() {
    const along = (run) => `M${run.map((point) => this.place(point, this.line)).join("L")}h0.01`; // a single point, too
    return [drawn("path", { d: runs(this.data, this.line).map(along).join(""), class: "line" })];
  }

  // Words that would overlap those before stand one line lower.
  events() {
    const [lines, texts] = [[], []];
    let free = -Infinity;
    let row = 0;
    for (const [point, text] of this.happened()) {
      const x = this.x(point.t);
      const width = LETTER * text.length + 8;
      const isLeft = x + width > this.width - RIGHT;
      const begin = isLeft ? x - width : x;
      row = begin < free ? (row + 1) % EVENT_ROWS : 0;
      free = Math.max(free, begin + width);
      const place = { x: (x + (isLeft ? -4 : 4)).toFixed(1), y: TOP + 10 + EVENT_HEIGHT * row };
      const line = { x1: x.toFixed(1), x2: x.toFixed(1), y1: TOP, y2: this.height - BOTTOM, class: "event" };
      const words = { ...place, class: "event", "text-anchor": isLeft ? "end" : "start" };
      lines.push(drawn("line", line));
      texts.push(drawn("text", words, text));
    }
    return [...lines, ...texts];
  }

  happened() {
    const pairs = this.data.slice(1).map((point, i) => [point, this.between(this.data[i], point).join(", ")]);
    return pairs.filter(([, text]) => text);
  }

  times() {
    const seconds = (TICK_WIDTH / (this.width - LEFT - RIGHT)) * (this.now - this.start);
    const step = TIME_STEPS.find((size) => size >= seconds) ?? 604800 * Math.ceil(seconds / 604800);
    const offset = -60 * new Date(1000 * this.now).getTimezoneOffset();
    const first = Math.ceil((this.start + offset) / step) * step - offset;
    const label = step < 60 ? clock : step < 86400 ? hour : day;
    const ticks = [];
    for (let t = first; t <= this.now; t += step) ticks.push(this.tick(this.x(t), label(new Date(1000 * t))));
    return ticks;
  }

  marks() {
    const last = this.data.at(-1);
    const shown = this.pointed === null ? last : this.nearest();
    if (!shown) {
      this.say("nothing yet", "");
      return [];
    }
    const time = this.pointed === null ? "" : `${clock(new Date(1000 * shown.t))} · `;
    const events = this.pointed === null ? [] : this.happened().filter(([point]) => point === shown);
    this.say(this.describe(last), [time + this.describe(shown), ...events.map(([, text]) => text)].join(" · "));
    return this.pointed === null ? [] : this.pointer(shown);
  }

  pointer(point) {
    const x = this.x(point.t).toFixed(1);
    const line = drawn("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM, class: "pointer" });
    if (!isKnown(point[this.line])) return [line];
    return [line, drawn("circle", { cx: x, cy: this.y(point[this.line]).toFixed(1), r: 3.5, class: "dot" })];
  }

  nearest() {
    const distance = (point) => Math.abs(this.x(point.t) - this.pointed);
    return this.data.reduce((best, point) => (best && distance(best) <= distance(point) ? best : point), null);
  }
}

const isKnown = (value) => value !== null && value !== undefined;

// Points that follow each other: a new run begins after a gap, and where a number is not known.
function runs(points, name) {
  const found = [];
  let current = null;
  for (const point of points) {
    if (point.after || !isKnown(point[name])) current = null;
    if (!isKnown(point[name])) continue;
    if (!current) found.push((current = []));
    current.push(point);
  }
  return found;
}
