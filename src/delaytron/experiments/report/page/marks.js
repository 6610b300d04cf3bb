// What is drawn beside the lines of a panel: bands, error bars, markers.
"use strict";

const MARKER = 3.4; // pixels, radius
const ASIDE = 0.8; // of the room between two names is for the dots of all series side by side

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

// Dots of different series stand side by side, lines do not.
function aside(chart, column, shown) {
  if (chart.spec.kind !== "dots") return 0;
  return ASIDE * ((shown.indexOf(column) + 0.5) / shown.length - 0.5);
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
    for (const column of shown) {
      ctx.fillStyle = ctx.strokeStyle = colourOf(column.series);
      ctx.lineWidth = 1.3 * ratio;
      const outline = new Path2D(outlineOf(column.series));
      for (const i of x.keys()) {
        if (column.y[i] === null) continue;
        drawMark(ctx, outline, radius, {
          across: plot.valToPos(x[i] + aside(chart, column, shown), "x", true),
          middle: yPixel(chart, plot, column.y[i]),
          top: yPixel(chart, plot, column.high[i]),
          bottom: yPixel(chart, plot, column.low[i]),
        });
      }
    }
  });
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
