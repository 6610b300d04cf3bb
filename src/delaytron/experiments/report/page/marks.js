// What is drawn beside the lines of a panel: bands, error bars, markers.
"use strict";

const MARKER = 3.4; // pixels, radius
const ASIDE = 0.8; // of the room between two names is for the dots of all series side by side
const LINE_STEP = 4; // pixels between lines that share their x, so that none hides another
const LINES_SPREAD = 20; // pixels between the first and the last of them, at most

function paint(plot, draw) {
  const { left, top, width, height } = plot.bbox;
  plot.ctx.save();
  plot.ctx.beginPath();
  plot.ctx.rect(left, top, width, height);
  plot.ctx.clip();
  draw(plot.ctx);
  plot.ctx.restore();
}

// Where a value is on the canvas; below the axis where a log scale has no place for it.
function yPixel(chart, plot, value) {
  return fits(value, chart.log.y) ? plot.valToPos(value, "y", true) : plot.bbox.top + 2 * plot.bbox.height;
}

function drawBands(chart, plot, { x, columns }) {
  paint(plot, (ctx) => {
    ctx.globalAlpha = 0.16;
    for (const column of visible(chart, columns)) {
      const known = [...x.keys()].filter((i) => column.y[i] !== null);
      const across = (i) => plot.valToPos(x[i], "x", true);
      ctx.beginPath();
      for (const i of known) ctx.lineTo(across(i), yPixel(chart, plot, column.high[i]));
      for (const i of known.reverse()) ctx.lineTo(across(i), yPixel(chart, plot, column.low[i]));
      ctx.fillStyle = colourOf(column.series);
      ctx.fill();
    }
  });
}

// Always the most frequent class: the same error all along.
function drawMajority(chart, panel, plot) {
  paint(plot, (ctx) => {
    for (const error of majorityOf(chart, panel)) {
      const height = Math.round(yPixel(chart, plot, error)); // sharp
      ctx.strokeStyle = themeColour("--muted");
      ctx.lineWidth = 2 * uPlot.pxRatio;
      ctx.setLineDash([2, 3].map((part) => part * uPlot.pxRatio));
      ctx.beginPath();
      ctx.moveTo(plot.bbox.left, height);
      ctx.lineTo(plot.bbox.left + plot.bbox.width, height);
      ctx.stroke();
    }
  });
}

// Different series are drawn side by side: how many pixels this one is away from its x.
function aside(chart, plot, place, count) {
  const dots = chart.spec.kind === "dots";
  const room = dots ? (ASIDE * plot.bbox.width) / chart.spec.ticks.length : LINES_SPREAD * uPlot.pxRatio;
  const step = dots ? room / count : Math.min(LINE_STEP * uPlot.pxRatio, room / count);
  return step * (place - (count - 1) / 2);
}

// Smaller where many dots share the room between two names.
function markerRadius(chart, plot, count) {
  if (chart.spec.kind !== "dots") return MARKER;
  const room = (ASIDE * plot.over.clientWidth) / chart.spec.ticks.length / count;
  return Math.min(MARKER, Math.max(1.5, 0.6 * room));
}

function drawMarks(chart, plot, { x, columns }) {
  const shown = visible(chart, columns);
  const ratio = uPlot.pxRatio;
  const radius = ratio * markerRadius(chart, plot, shown.length);
  paint(plot, (ctx) => {
    for (const [place, column] of shown.entries()) {
      ctx.fillStyle = ctx.strokeStyle = colourOf(column.series);
      const offset = aside(chart, plot, place, shown.length);
      const outline = new Path2D(outlineOf(column.series));
      const marks = [...x.keys()].filter((i) => column.y[i] !== null).map((i) => ({
        across: plot.valToPos(x[i], "x", true) + offset,
        middle: yPixel(chart, plot, column.y[i]),
        top: yPixel(chart, plot, column.high[i]),
        bottom: yPixel(chart, plot, column.low[i]),
      }));
      if (chart.spec.kind === "bars") drawLine(ctx, marks, gapsOf(column.series));
      ctx.lineWidth = 1.3 * ratio;
      for (const mark of marks) drawMark(ctx, outline, radius, mark);
    }
  });
}

function drawLine(ctx, marks, gaps) {
  ctx.lineWidth = 1.7 * uPlot.pxRatio;
  ctx.setLineDash(gaps.map((part) => part * uPlot.pxRatio));
  ctx.beginPath();
  for (const { across, middle } of marks) ctx.lineTo(across, middle);
  ctx.stroke();
  ctx.setLineDash([]);
}

function drawMark(ctx, outline, radius, { across, middle, top, bottom }) {
  ctx.beginPath();
  ctx.moveTo(across, top);
  ctx.lineTo(across, bottom);
  ctx.stroke();
  ctx.save();
  ctx.translate(across, middle);
  ctx.scale(radius, radius);
  ctx.fill(outline);
  ctx.restore();
}
