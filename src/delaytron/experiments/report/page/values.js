// Values under the cursor: all of them where the pointer is, means alone in the other panels of the chart.
"use strict";

const tip = document.body.appendChild(element("div", { class: "tip", role: "status", hidden: "" }));

function rowsAt(chart, drawn, i) {
  return visible(chart, drawn.columns).filter((column) => column.y[i] !== null).sort((a, b) => b.y[i] - a.y[i]);
}

function showValues(chart, panel, plot, drawn) {
  const { idx, left } = plot.cursor;
  const inside = left >= 0 && idx !== null && idx !== undefined;
  const active = chart.active === panel;
  panel.aside.hidden = !inside || active;
  if (active) tip.hidden = !inside;
  if (!inside) return;
  const rows = rowsAt(chart, drawn, idx);
  if (active) showTip(chart, panel, plot, valueTable(chart, panel, drawn, rows, idx));
  else showAside(chart, panel, plot, rows, idx);
}

function nameOfX(chart, x) {
  return chart.spec.kind === "dots" ? chart.spec.ticks[x] : `${chart.spec.x} ${exact(x)}`;
}

function valueTable(chart, panel, drawn, rows, i) {
  const line = (column) =>
    element("tr", {},
      element("td", {}, swatch(column.series, chart.spec.kind), column.series.label),
      element("td", {}, short(column.y[i])),
      element("td", {}, spreadAt(column, i)),
      element("td", {}, column.runs[i] ?? ""));
  const names = [chart.spec.y, "mean", chart.spec.spread, "runs"];
  const head = element("tr", {}, ...names.map((title) => element("th", {}, title)));
  const title = element("caption", {}, element("b", {}, panel.data), ` ${nameOfX(chart, drawn.x[i])}`);
  return element("table", {}, title, head, ...rows.map(line), ...majorityOf(chart, panel).map(majorityLine));
}

// A single run has no interval.
function spreadAt(column, i) {
  return column.runs[i] === 1 ? "" : `${short(column.low[i])} .. ${short(column.high[i])}`;
}

function majorityLine(error) {
  const name = element("td", {}, majoritySwatch(), data.majority);
  return element("tr", {}, name, element("td", {}, short(error)), element("td"), element("td"));
}

function showTip(chart, panel, plot, table) {
  tip.replaceChildren(table);
  const area = plot.over.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  const cursor = area.left + plot.cursor.left;
  const left = [cursor + 16, cursor - width - 16].find((start) => start > 4 && start + width < innerWidth - 4);
  const below = area.bottom + 44; // of the names along the axis
  const top = left !== undefined ? area.top + 4 : below + height < innerHeight ? below : area.top - height - 8;
  tip.style.left = `${left ?? Math.max(4, (innerWidth - width) / 2)}px`;
  tip.style.top = `${Math.max(4, Math.min(top, innerHeight - height - 4))}px`;
}

// The other panels of the chart show their means only, on the side where the cursor is not.
function showAside(chart, panel, plot, rows, i) {
  const lines = rows.map((column) => element("div", {}, swatch(column.series, chart.spec.kind), short(column.y[i], 3)));
  panel.aside.replaceChildren(...lines);
  panel.aside.classList.toggle("left", plot.cursor.left > plot.over.clientWidth - panel.aside.offsetWidth - 12);
}
