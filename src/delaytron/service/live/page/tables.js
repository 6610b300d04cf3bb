// The classes, and the recent decisions.

import { element, fillRows, find, setShare, setText } from "./dom.js";
import { clock, count, percent } from "./numbers.js";

// Classes by how often they were chosen.
export function showClasses(section, classes) {
  const chosen = classes.reduce((sum, one) => sum + one.played, 0);
  const rows = [...classes].sort((a, b) => a.retired - b.retired || b.played - a.played);
  fillRows(find("tbody", section), rows, classRow, (row, one) => fillClass(row, one, chosen));
}

function classRow() {
  const part = (name, ...text) => element("span", { class: name }, ...text);
  const cell = (...bar) => element("td", {}, part("number"), ...bar);
  const bar = () => element("i", { class: "share", "aria-hidden": "true" });
  const name = element("th", { scope: "row" }, part("name"), part("tag", "retired"));
  return element("tr", {}, name, cell(bar()), cell(), cell(bar()));
}

function fillClass(row, one, chosen) {
  const [name, played, answered, reward] = row.cells;
  setText(name.firstChild, String(one.name));
  name.firstChild.title = String(one.name);
  name.lastChild.hidden = !one.retired;
  setText(played.firstChild, count(one.played));
  setShare(played.lastChild, chosen ? one.played / chosen : 0);
  setText(answered.firstChild, count(one.answered));
  setText(reward.firstChild, percent(one.mean_reward));
  setShare(reward.lastChild, one.mean_reward ?? 0);
}

// The outcome of a decision, in a word, and how it is shown.
export function outcome(decision) {
  if (decision.status !== "answered" && decision.value === null) return [decision.status, decision.status];
  if (decision.value === 1) return ["right", "right"];
  if (decision.value === 0) return ["wrong", "wrong"];
  return [`reward ${Number(decision.value.toFixed(3))}`, "reward"];
}

export const explored = (decision) => decision.greedy !== null && decision.label !== decision.greedy;

// The list is not updated while it is paused, hovered or focused: a row would move away under the pointer.
export class RecentDecisions {
  constructor(section, choose) {
    this.list = find("ol", section);
    this.none = find(".none", section);
    this.button = find("button", section);
    this.isPaused = false;
    this.isPointedAt = false;
    this.decisions = [];
    this.waiting = null;
    this.chosen = null;
    this.button.addEventListener("click", () => this.toggle());
    this.list.addEventListener("pointerover", (event) => (this.isPointedAt = event.pointerType === "mouse"));
    this.list.addEventListener("pointerleave", () => {
      this.isPointedAt = false;
      this.release();
    });
    this.list.addEventListener("focusout", () => setTimeout(() => this.release()));
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("button");
      if (row) choose(this.decisions[[...this.list.children].indexOf(row.parentNode)]);
    });
  }

  get isHeld() {
    return this.isPaused || this.isPointedAt || find(":focus-visible", this.list) !== null;
  }

  toggle() {
    this.isPaused = !this.isPaused;
    setText(this.button, this.isPaused ? "Go on" : "Pause");
    this.release();
  }

  clear() {
    this.waiting = [];
    this.chosen = null;
    this.show();
  }

  update(decisions) {
    this.waiting = decisions;
    this.release();
  }

  release() {
    if (this.waiting && !this.isHeld) this.show();
  }

  show() {
    this.decisions = this.waiting;
    this.waiting = null;
    this.none.hidden = this.decisions.length > 0;
    this.mark(this.chosen);
  }

  mark(id) {
    this.chosen = id;
    fillRows(this.list, this.decisions, recentRow, (row, decision) => fillRecent(row.firstChild, decision, id));
  }
}

function recentRow() {
  const parts = ["time", "class", "chance", "outcome", "id"].map((name) => element("span", { class: name }));
  return element("li", {}, element("button", { type: "button" }, ...parts));
}

function fillRecent(button, decision, chosen) {
  const [time, label, chance, result, id] = button.children;
  const [word, kind] = outcome(decision);
  setText(time, decision.decided_at ? clock(new Date(decision.decided_at)) : "–");
  setText(label, String(decision.label));
  setText(chance, percent(decision.prob));
  chance.classList.toggle("explored", explored(decision));
  chance.title = explored(decision) ? `explored: ${decision.greedy} looked best` : "looked best";
  setText(result, word);
  result.dataset.kind = kind;
  setText(id, decision.id);
  id.title = decision.id;
  button.setAttribute("aria-current", String(decision.id === chosen));
}
