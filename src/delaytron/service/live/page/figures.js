// All figures of one model: the tiles, the charts and the table of classes.

import { TimeChart } from "./charts.js";
import { find, setText } from "./dom.js";
import { clock, count, duration, percent, rate, roundNumbers, several } from "./numbers.js";
import { Series } from "./series.js";
import { showClasses } from "./tables.js";
import { WaitsChart } from "./waits.js";

const rounded = (number) => (number < 10 ? String(Number(number.toFixed(3))) : count(number));
const now = () => Date.now() / 1000;
const amounts = (low, high) => roundNumbers(0, Math.max(high, 1), 3);

// The range is at least 0.1, so that a small change does not look like a large one.
function shares(low, high) {
  if (low > high) return roundNumbers(0, 1, 4);
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, 0.05);
  return roundNumbers(Math.max(middle - half, 0), Math.min(middle + half, 1), 4).filter((share) => share < 1.0001);
}

function accuracyOf({ accuracy, low, high }) {
  if (low === null) return "nothing yet";
  return `${accuracy === null ? "no answer yet" : percent(accuracy)}, between ${percent(low)} and ${percent(high)}`;
}

const CHANGES = ["born", "won", "dropped"];

// What happened to challengers from one point to the next.
function changesBetween(before, point) {
  return before.drift && point.drift ? CHANGES.filter((what) => point.drift[what] > before.drift[what]) : [];
}

const CHARTS = {
  "#accuracy-chart": {
    line: "accuracy",
    band: ["low", "high"],
    axis: shares,
    format: (share) => `${Math.round(100 * share)} %`,
    describe: accuracyOf,
    between: (before, point) => changesBetween(before, point).map((what) => `challenger ${what}`),
  },
  "#rate-chart": { line: "rate", axis: amounts, format: rounded, describe: (point) => `${rate(point.rate)} per second` },
  "#open-chart": { line: "open", axis: amounts, format: rounded, describe: (point) => `${count(point.open)} open` },
};

export class Figures {
  constructor(root) {
    this.root = root;
    this.series = new Series();
    this.isLive = false;
    this.stats = null;
    this.charts = Object.entries(CHARTS).map(([id, options]) => new TimeChart(find(id, root), options));
    this.waits = new WaitsChart(find("#waits-chart", root));
  }

  clear() {
    this.series.clear();
    this.stats = null;
    this.isLive = false;
  }

  update(stats) {
    this.stats = stats;
    this.since = now();
    this.isLive = true;
    const { accuracy: { mean: accuracy, low, high }, decisions_per_second: rate, open, drift } = stats;
    this.series.add({ t: this.since, accuracy, low, high, rate, open, drift });
    this.waits.draw(stats.waits);
    showClasses(find("#classes", this.root), stats.classes);
    this.showTiles(stats);
    this.tick();
  }

  cut() {
    if (this.isLive) this.series.cut(now());
    this.isLive = false;
  }

  // Called every second: the time axis moves even without events.
  tick() {
    if (!this.stats) return;
    const { points } = this.series;
    const t = now();
    const held = this.isLive ? [...points, { ...points.at(-1), t, after: false }] : points;
    for (const chart of this.charts) chart.draw(held, t);
    if (this.isLive) this.showOldest(this.stats, t - this.since);
  }

  tile(id, figure, note) {
    const tile = find(id, this.root);
    setText(find(".figure", tile), figure);
    setText(find(".note", tile), note);
  }

  showTiles(stats) {
    const { mean, low, high } = stats.accuracy;
    const range = `${percent(low)} to ${percent(high)} with the open ones`;
    this.tile("#accuracy", percent(mean), high > low ? range : mean === null ? "no answer yet" : "nothing is open");
    this.tile("#rate", rate(stats.decisions_per_second), `${several(stats.decisions, "decision", "decisions")} in all`);
    const recent = stats.exploration === null ? "no decision in the last minute" : "in the last minute";
    this.tile("#exploration", percent(stats.exploration), recent);
    this.tile("#answered", count(stats.answered), othersOf(stats));
    find("#drift", this.root).hidden = !stats.drift;
    if (stats.drift) this.tile("#drift", stats.drift.challenger ? "learning" : "none", changesOf(stats.drift));
  }

  showOldest(stats, seconds) {
    const oldest = stats.oldest_seconds;
    const age = oldest === null ? "nothing waits" : `oldest: ${duration(oldest + seconds)}`;
    this.tile("#open", count(stats.open), age);
  }
}

function changesOf(drift) {
  if (drift.changed_at === null) return "none was born yet";
  const counts = CHANGES.map((what) => `${count(drift[what])} ${what}`).join(", ");
  return `${counts}; last change ${clock(new Date(drift.changed_at))}`;
}

function othersOf(stats) {
  const others = [
    [stats.expired, "expired"],
    [stats.cancelled, "cancelled"],
    [stats.corrected, "corrected after expiry"],
    [stats.late, "answered too late"],
  ];
  const shown = others.filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`);
  return shown.join(", ") || "none expired or cancelled";
}
