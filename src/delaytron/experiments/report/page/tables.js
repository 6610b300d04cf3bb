// Tables that are sorted by a click on a header and, where they are long, filtered by words.
"use strict";

const LONG_TABLE = 30; // rows from which on a table gets a filter
const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Missing values are last in both directions.
function compareCells(a, b, direction) {
  const missing = ("missing" in a.dataset) - ("missing" in b.dataset);
  if (missing !== 0) return missing;
  if ("missing" in a.dataset) return 0;
  const numbers = "value" in a.dataset && "value" in b.dataset;
  const order = numbers ? a.dataset.value - b.dataset.value : words.compare(a.textContent, b.textContent);
  return direction * order;
}

function sortTable(table, header) {
  const direction = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const body = table.tBodies[0];
  const column = header.cellIndex;
  const rows = [...body.rows].sort((a, b) => compareCells(a.cells[column], b.cells[column], direction));
  body.append(...rows);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
}

function makeSortable(table) {
  for (const header of table.tHead.rows[0].cells) {
    const button = element("button", { type: "button", title: "Sort by this column" }, ...header.childNodes);
    button.addEventListener("click", () => sortTable(table, header));
    header.append(button);
  }
}

function showMatches(table, typed, count) {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const cells = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !wanted.every((word) => cells.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
}

function makeFilter(table) {
  const input = element("input", { type: "search", placeholder: "filter by words", "aria-label": "Filter rows" });
  const count = element("span", { role: "status" });
  input.addEventListener("input", () => showMatches(table, input.value, count));
  showMatches(table, "", count);
  table.closest(".box").before(element("div", { class: "filter" }, input, count));
}

for (const table of document.querySelectorAll("main table")) {
  makeSortable(table);
  if (table.tBodies[0].rows.length > LONG_TABLE) makeFilter(table);
}
