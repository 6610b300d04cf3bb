// From the series of a panel to columns over one common x, and from columns to the ends and ticks of axes.
"use strict";

const LINEAR = 1; // the chart library's numbers for the two kinds of scale
const LOG = 3;
const MANTISSAS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];
const FEWEST_TICKS = 3.5; // steps along an axis, at least
const DEEPEST_BAND = 4; // a band may reach a quarter of the lowest mean on a log axis, then it is cut

// A log axis can only show values above 0.
function fits(value, log) {
  return value !== null && (!log || value > 0);
}

function commonX(chart, panel) {
  const all = panel.series.flatMap((series) => chart.spec.grids[series.x]);
  return [...new Set(all.filter((x) => fits(x, chart.log.x)))].sort((a, b) => a - b);
}

// Means over the common x, with null where there is none; low and high beside them.
function columnOf(chart, series, x) {
  const place = new Map(chart.spec.grids[series.x].map((value, i) => [value, i]));
  const at = (values, value) => values[place.get(value)] ?? null;
  const y = x.map((value) => at(series.y, value)).map((mean) => (fits(mean, chart.log.y) ? mean : null));
  const edge = (values) => x.map((value, i) => (y[i] === null ? null : at(values, value) ?? y[i]));
  const runs = x.map((value) => (series.runs.length === 1 ? series.runs[0] : at(series.runs, value)));
  return { series, y, low: edge(series.low), high: edge(series.high), runs };
}

function visible(chart, columns) {
  return columns.filter((column) => !chart.hidden.has(column.series.label));
}

// The error of always playing the most frequent class, where it is known and not hidden.
function majorityOf(chart, panel) {
  const known = panel.majority !== null && fits(panel.majority, chart.log.y);
  return known && !chart.hidden.has(data.majority) ? [panel.majority] : [];
}

// The ends of the y axis: all that is visible between two places of x.
function yRange(chart, panel, columns, [first, last]) {
  const within = (name) =>
    visible(chart, columns).flatMap((column) => column[name].slice(first, last + 1)).filter((value) => value !== null);
  const means = [...within("y"), ...majorityOf(chart, panel)];
  if (means.length === 0) return chart.log.y ? [0.1, 1] : [0, 1];
  const lowestMean = Math.min(...means);
  const highest = Math.max(...means, ...within("high"));
  if (!chart.log.y) return aboveZero(lowestMean, padded(Math.min(lowestMean, ...within("low")), highest));
  const low = Math.min(lowestMean, ...within("low").filter((value) => value > lowestMean / DEEPEST_BAND));
  return paddedLog(low, highest);
}

function padded(low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

// An interval around an error may reach below 0, but there is nothing to see.
function aboveZero(lowestMean, [low, high]) {
  return [lowestMean >= 0 ? Math.max(0, low) : low, high];
}

function paddedLog(low, high) {
  const room = Math.max((high / low) ** 0.06, 1.02);
  return [low / room, high * room];
}

function xRange(chart, low, high) {
  if (chart.spec.kind === "dots") return [-0.5, chart.spec.ticks.length - 0.5];
  if (low === null || low === undefined) return chart.log.x ? [1, 10] : [0, 1];
  if (chart.spec.kind === "band" && low < high) return [low, high];
  return chart.log.x ? paddedLog(low, high) : padded(low, high);
}

// Round numbers between two ends: powers of ten where they are enough, else more.
function logTicks(low, high) {
  const from = Math.floor(Math.log10(low));
  const powers = Array.from({ length: Math.ceil(Math.log10(high)) - from + 1 }, (_, i) => from + i);
  for (const mantissas of MANTISSAS) {
    const ticks = powers.flatMap((power) => mantissas.map((digit) => Number(`${digit}e${power}`)));
    const inside = ticks.filter((tick) => low <= tick && tick <= high);
    if (inside.length >= FEWEST_TICKS) return thinned(inside);
  }
  return linearTicks(low, high);
}

function thinned(ticks) {
  const step = Math.ceil(ticks.length / 9);
  return ticks.filter((_, i) => i % step === 0);
}

function linearTicks(low, high) {
  const longest = (high - low) / FEWEST_TICKS;
  const power = 10 ** Math.floor(Math.log10(longest));
  const step = [5, 2, 1].map((digit) => digit * power).find((size) => size <= longest);
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function ticksBetween(log, low, high) {
  return log ? logTicks(low, high) : linearTicks(low, high);
}
