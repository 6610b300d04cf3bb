// A time series since the page was opened. When it has too many points, it is thinned and the time step doubles.

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

  // A point is {t, ...}, with t in seconds. After a pause the last values are repeated: no event means no change.
  add(point) {
    const last = this.points.at(-1);
    const held = last && !this.broken && point.t - last.t > 2 * this.step;
    if (held) this.#put({ ...last, t: point.t - this.step, after: false });
    this.#put({ ...point, after: this.broken });
    this.broken = false;
    while (this.points.length > this.most) this.#thin();
  }

  // The connection was lost: the last values are repeated at t, and a gap follows.
  cut(t) {
    const last = this.points.at(-1);
    if (last && !this.broken) this.add({ ...last, t });
    this.broken = true;
  }

  // Only the last point of a time step is kept; `after` marks a gap before it.
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
