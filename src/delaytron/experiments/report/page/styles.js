// Styles: colours, markers, dashes, numbers. The lists come from the page's data, so that the charts look like the
// figures.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const darkMode = matchMedia("(prefers-color-scheme: dark)");

// Outlines around 0 with a radius of about 1, by the letters of the plotting library that draws the figures.
const OUTLINES = {
  o: "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  s: "M-.9-.9H.9V.9H-.9Z",
  "^": "M0-1.1L1.1.9H-1.1Z",
  D: "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
  v: "M0 1.1L1.1-.9H-1.1Z",
  P: "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
  X: "M-1.1-.6L-.6-1.1L0-.5L.6-1.1L1.1-.6L.5 0L1.1.6L.6 1.1L0 .5L-.6 1.1L-1.1.6L-.5 0Z",
  "*": "M0-1.3L.33-.43L1.24-.4L.52.16L.76 1.05L0 .55L-.76 1.05L-.52.16L-1.24-.4L-.33-.43Z",
};
const WIDE_GAPS = [6, 6]; // so that the line below is visible
const GAPS = { "-": [], "--": [7, 4], "-.": [8, 3, 2, 3], ":": [2, 3] };

function listed(series) {
  return data.colours[series.style % data.colours.length];
}

function isBlack(series) {
  return listed(series) === "#000000";
}

// Black is invisible on a dark page.
function colourOf(series) {
  return isBlack(series) && darkMode.matches ? "#ffffff" : listed(series);
}

function outlineOf(series) {
  return OUTLINES[data.markers[series.style % data.markers.length]];
}

function gapsOf(series) {
  const dash = Math.floor(series.style / data.colours.length) % data.dashes.length;
  return series.dashed ? WIDE_GAPS : GAPS[data.dashes[dash]];
}

function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A small sample of the line and marker, for legends.
function swatch(series, kind) {
  const colour = isBlack(series) ? "currentColor" : colourOf(series);
  const line = { d: "M-14 0H14", stroke: colour, "stroke-width": 2, "stroke-dasharray": gapsOf(series).join(" ") };
  const marker = { d: outlineOf(series), transform: "scale(4)", fill: colour };
  return drawingOf([...(kind === "dots" ? [] : [line]), ...(kind === "band" ? [] : [marker])]);
}

function majoritySwatch() {
  return drawingOf([{ d: "M-14 0H14", stroke: "var(--muted)", "stroke-width": 2, "stroke-dasharray": "2 3" }]);
}

function drawingOf(paths) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "-14 -6 28 12");
  drawing.setAttribute("class", "swatch");
  drawing.setAttribute("aria-hidden", "true");
  for (const attributes of paths) {
    const shape = drawing.appendChild(document.createElementNS(space, "path"));
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  }
  return drawing;
}

// All digits that the page's data have.
function exact(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 7 });
}

// A fixed number of significant digits, with trailing zeros, so that the numbers of a column align.
function short(value, digits = 4) {
  return Math.abs(value) < 1000 ? value.toPrecision(digits) : exact(Number(value.toPrecision(digits)));
}

// Along an axis: 1k, 100k, 1M.
function tickName(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return Number((value / size).toPrecision(4)) + letter;
  }
  return Number(value.toPrecision(4)).toString();
}

// Names often differ at their ends, so the middle is left out.
function shortened(name, most) {
  const end = Math.floor((most - 1) / 2);
  return name.length > most ? `${name.slice(0, most - 1 - end)}…${name.slice(-end)}` : name;
}
