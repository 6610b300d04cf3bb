// Figures over time since the page was opened: never more than some points, which stand ever further apart.

const MOST = 900; // points
const FINEST = 1; // seconds between two points, at first

export class Series {
  constructor(most = MOST) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.points = [];
    this.step = FINEST;
    this.broken = false;
  }

  // A point is {t, ...}, with t in seconds. What held until now is kept as such: nothing came because nothing changed.
  add(point) {
    const last = this.points.at(-1);
    const held = last && !this.broken && point.t - last.t > 2 * this.step;
    if (held) this.#put({ ...last, t: point.t - this.step, after: false });
    this.#put({ ...point, after: this.broken });
    this.broken = false;
    while (this.points.length > this.most) this.#thin();
  }

  // The connection is lost: what was known last held until now, and what comes next does not follow from it.
  cut(t) {
    const last = this.points.at(-1);
    if (last && !this.broken) this.add({ ...last, t });
    this.broken = true;
  }

  // Of the points in a step of time the last is kept; `after` says that there is a gap before it.
  #put(point) {
    const last = this.points.at(-1);
    const same = last && Math.floor(last.t / this.step) >= Math.floor(point.t / this.step);
    if (same) this.points.pop();
    this.points.push(same ? { ...point, t: Math.max(point.t, last.t), after: point.after || last.after } : point);
  }

  #thin() {
    const all = this.points;
    this.step *= 2;
    this.points = [];
    for (const point of all) this.#put(point);
  }
}
