// Charts: for each one a legend, switches and a panel for every data set.
"use strict";

const MANY_NAMES = 10; // along an axis: such panels are wider

function drawAll(chart) {
  for (const panel of chart.panels) drawPanel(chart, panel);
}

function toggleSeries(chart, label, button) {
  const hide = !chart.hidden.delete(label);
  if (hide) chart.hidden.add(label);
  button.setAttribute("aria-pressed", String(!hide));
  drawAll(chart);
}

function legendButton(chart, label, sample) {
  const same = chart.spec.same[label];
  const text = same === undefined ? label : `${label} (same as ${same})`;
  const button = element("button", { type: "button", "aria-pressed": "true" }, sample, text);
  button.addEventListener("click", () => toggleSeries(chart, label, button));
  return button;
}

function legendOf(chart) {
  const first = new Map();
  for (const series of chart.spec.panels.flatMap((panel) => panel.series)) {
    if (!first.has(series.label)) first.set(series.label, series);
  }
  const buttons = [...first].map(([label, series]) => legendButton(chart, label, swatch(series, chart.spec.kind)));
  if (chart.spec.panels.some((panel) => panel.majority !== null)) {
    buttons.push(legendButton(chart, data.majority, majoritySwatch()));
  }
  return element("div", { class: "legend", role: "group", "aria-label": "Series shown" }, ...buttons);
}

function scaleSwitch(chart, side) {
  const choice = (name, log) => {
    const input = element("input", { type: "radio", name: `${chart.spec.name}-${side}`, value: name });
    input.checked = chart.log[side] === log;
    input.addEventListener("change", () => {
      chart.log[side] = log;
      drawAll(chart);
    });
    return element("label", {}, input, element("span", {}, name));
  };
  const legend = element("legend", {}, `${side} axis`);
  return element("fieldset", { class: "switch" }, legend, choice("linear", false), choice("log", true));
}

function moveCursor(chart, panel, event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const { plot } = panel;
  const x = plot.data[0];
  const next = Math.min(Math.max((plot.cursor.idx ?? -1) + step, 0), x.length - 1);
  plot.setCursor({ left: plot.valToPos(x[next], "x"), top: 10 }, true, true);
}

function newPanel(chart, { data: name, series, majority }) {
  const description = `${chart.spec.title}, ${name}`;
  const box = element("div", { class: "plot", tabindex: "0", role: "img", "aria-label": description });
  const button = { type: "button", class: "larger", "aria-pressed": "false", title: "Enlarge" };
  const larger = element("button", button, name);
  const root = element("div", { class: "panel" }, larger, box);
  const panel = { data: name, series, majority, box, root, aside: element("div", { class: "aside", hidden: "" }) };
  for (const kind of ["pointerenter", "focus"]) box.addEventListener(kind, () => (chart.active = panel));
  box.addEventListener("keydown", (event) => moveCursor(chart, panel, event));
  box.addEventListener("blur", () => (tip.hidden = true));
  larger.addEventListener("click", () => {
    larger.setAttribute("aria-pressed", String(root.classList.toggle("large")));
  });
  return panel;
}

function followWidth(chart, panel) {
  const fit = () => {
    if (panel.box.clientWidth > 0) panel.plot.setSize(sizeOf(chart, panel.box));
  };
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(panel.root);
}

function startChart(article) {
  const spec = data.charts[article.dataset.place];
  const chart = { spec, hidden: new Set(), log: { x: spec.log_x, y: spec.log_y }, active: null };
  chart.panels = spec.panels.map((panel) => newPanel(chart, panel));
  const sides = spec.kind === "dots" ? ["y"] : ["x", "y"];
  const switches = sides.map((side) => scaleSwitch(chart, side));
  const controls = element("div", { class: "controls" }, legendOf(chart), ...switches);
  const layout = spec.ticks.length > MANY_NAMES ? "panels wide" : "panels";
  const panels = element("div", { class: layout }, ...chart.panels.map((panel) => panel.root));
  article.querySelector(".live").replaceChildren(controls, panels);
  drawAll(chart);
  for (const panel of chart.panels) followWidth(chart, panel);
  article.classList.add("drawn"); // only now the figure may go
  return chart;
}

// Paper needs the figures: they are made ready one by one when all else is done.
function loadFigures([first, ...others]) {
  if (first === undefined) return;
  first.loading = "eager";
  setTimeout(loadFigures, 100, others);
}

function explainCharts() {
  const hint =
    "Point at a panel to read its values, and those of the other data sets at the same place; with the keyboard, " +
    "go to a panel and press the arrow keys. A name in the legend hides its line, a data set's name enlarges its " +
    "panel. Drag to zoom in, double-click to zoom out. Every panel has its own scale, and values that share a place " +
    "are drawn a little side by side, so that none hides another.";
  const summary = element("summary", {}, "How to read the charts");
  document.querySelector(".chart .caption")?.after(element("details", { class: "hint" }, summary, element("p", {}, hint)));
}

// Where drawing fails the figure stays, and the other charts are drawn all the same.
function tryChart(article) {
  try {
    return [startChart(article)];
  } catch (problem) {
    article.querySelector(".live").replaceChildren();
    console.error(problem);
    return [];
  }
}

explainCharts();
const charts = [...document.querySelectorAll(".chart")].flatMap(tryChart);
addEventListener("scroll", () => (tip.hidden = true), { passive: true });
addEventListener("load", () => loadFigures([...document.images]));
darkMode.addEventListener("change", () => charts.forEach(drawAll));
