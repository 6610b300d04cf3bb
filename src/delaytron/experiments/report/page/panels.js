// One panel: a data set, drawn by uPlot.
"use strict";

const FONT = "11px system-ui, sans-serif";
const LETTER = 6; // pixels, width of one in this font, rather more than less
const LONGEST_NAME = 30;
const FEW_NAMES = 6; // are slanted, more of them vertical
const LONGEST_TICK = 5; // letters of a number along the x axis

function axisOptions(chart, side, label) {
  const line = { stroke: themeColour("--line"), width: 1 };
  return {
    label: label || null, font: FONT, labelFont: FONT, labelSize: 16, labelGap: 0, gap: 3,
    size: side === "x" ? 24 : (plot, names) => widthOf(names),
    stroke: themeColour("--muted"), grid: line, ticks: { ...line, size: 4 },
    splits: (plot, axis, low, high) => ticksBetween(chart.log[side], low, high),
    values: (plot, ticks) => ticks.map(tickName),
    filter: (plot, ticks) => ticks,
  };
}

function widthOf(names) {
  return 12 + LETTER * Math.max(4, ...(names ?? []).map((name) => name.length));
}

function slantOf(chart) {
  return chart.spec.ticks.length > FEW_NAMES ? 90 : 45;
}

function namedAxis(chart) {
  const names = chart.spec.ticks.map((name) => shortened(name, LONGEST_NAME));
  const slant = slantOf(chart);
  return {
    ...axisOptions(chart, "x", chart.spec.x), rotate: slant,
    size: Math.round(widthOf(names) * Math.sin((slant * Math.PI) / 180)),
    splits: () => [...names.keys()],
    values: (plot, ticks) => ticks.map((i) => names[i]),
  };
}

function seriesOptions(chart, column) {
  const bare = chart.spec.kind === "band" ? {} : { paths: () => null }; // others are drawn beside their marks
  return {
    label: column.series.label, stroke: colourOf(column.series), dash: gapsOf(column.series), width: 1.7,
    spanGaps: true, points: { show: false }, show: !chart.hidden.has(column.series.label), ...bare,
  };
}

function plotOptions(chart, panel, drawn) {
  const scale = (side) => ({ time: false, distr: chart.log[side] ? LOG : LINEAR });
  const dots = chart.spec.kind === "dots";
  const band = chart.spec.kind === "band";
  return {
    ...sizeOf(chart, panel.box),
    padding: [8, dots ? 10 : 2 + (LETTER * LONGEST_TICK) / 2, 0, dots ? roomForFirstName(chart, panel) : 0],
    legend: { show: false },
    scales: {
      x: { ...scale("x"), range: (plot, low, high) => xRange(chart, low, high) },
      y: { ...scale("y"), range: (plot) => yRange(chart, panel, drawn.columns, plot.series[0].idxs) },
    },
    axes: [dots ? namedAxis(chart) : axisOptions(chart, "x", chart.spec.x), axisOptions(chart, "y", chart.spec.y)],
    series: [{}, ...drawn.columns.map((column) => seriesOptions(chart, column))],
    cursor: {
      y: false, move: snapped, sync: { key: chart.spec.name }, drag: { x: !dots, y: false },
      points: band ? { size: 7 } : { show: false },
    },
    hooks: {
      drawAxes: [(plot) => drawMajority(chart, panel, plot), (plot) => band && drawBands(chart, plot, drawn)],
      draw: [(plot) => band || drawMarks(chart, plot, drawn)],
      setCursor: [(plot) => showValues(chart, panel, plot, drawn)],
    },
  };
}

// A slanted name ends below its tick and begins further left: the first one must not begin outside.
function roomForFirstName(chart, panel) {
  const width = (LETTER * Math.min(chart.spec.ticks[0]?.length ?? 0, LONGEST_NAME)) / Math.SQRT2;
  const halfStep = (panel.box.clientWidth - 60) / chart.spec.ticks.length / 2;
  return slantOf(chart) === 45 ? Math.max(0, width - halfStep - 36) : 0;
}

// The cursor moves to the nearest values.
function snapped(plot, left, top) {
  const x = plot.data[0];
  return left < 0 || x.length === 0 ? [left, top] : [plot.valToPos(x[plot.posToIdx(left)], "x"), top];
}

function sizeOf(chart, box) {
  const width = Math.max(200, box.clientWidth);
  const names = chart.spec.kind === "dots" ? namedAxis(chart).size : 0;
  const flatness = names > 0 ? 0.45 : 0.72;
  return { width, height: Math.round(Math.min(Math.max(210, flatness * width), 420) + 0.8 * names) };
}

function drawPanel(chart, panel) {
  panel.plot?.destroy();
  const x = commonX(chart, panel);
  const drawn = { x, columns: panel.series.map((series) => columnOf(chart, series, x)) };
  panel.plot = new uPlot(plotOptions(chart, panel, drawn), [x, ...drawn.columns.map((column) => column.y)], panel.box);
  panel.plot.over.append(panel.aside);
  panel.box.plot = panel.plot;
}
