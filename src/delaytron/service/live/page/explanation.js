// Why a class looks best for one decision: the scores, and what each feature adds to the score of a class.

import { ask, Refused } from "./connection.js";
import { element, find, setShare, setText } from "./dom.js";
import { clock, count, percent, signed } from "./numbers.js";
import { explored, outcome } from "./tables.js";

const FIRST = 10; // bars that are shown at first

export class Explanation {
  constructor(section, chosen) {
    this.section = section;
    this.chosen = chosen;
    this.summary = find(".summary", section);
    this.why = find(".why", section);
    this.input = find("input", section);
    this.id = null;
    find("form", section).addEventListener("submit", (event) => {
      event.preventDefault();
      this.show(this.input.value);
    });
  }

  open(model) {
    this.model = model;
    this.id = null;
    this.input.value = "";
    this.why.replaceChildren();
    setText(this.summary, "Choose a recent decision, or give the id of any.");
  }

  // The status of the decision that is shown may have changed.
  update(decisions) {
    const newer = decisions.find((decision) => decision.id === this.id);
    if (newer && this.decision?.id === this.id) this.describe((this.decision = newer));
  }

  async show(id) {
    this.id = id;
    this.input.value = id;
    this.chosen(id);
    const path = (kind) => `${this.model}/${kind}/${encodeURIComponent(id)}`;
    try {
      const [decision, explained] = await Promise.all([ask(path("decisions")), ask(path("explanations"))]);
      if (id !== this.id) return; // another one was chosen meanwhile
      this.decision = decision;
      this.explained = explained;
      this.describe(decision);
      const label = String(decision.label);
      if (isBelow(this.section)) this.section.scrollIntoView();
      this.draw(Object.hasOwn(explained.scores, label) ? label : String(explained.label)); // it may be retired
    } catch (problem) {
      if (id !== this.id) return;
      this.why.replaceChildren();
      setText(this.summary, problem instanceof Refused ? problem.message : "The service cannot be reached; try again.");
    }
  }

  describe(decision) {
    const [word] = outcome(decision);
    const time = decision.decided_at ? ` at ${clock(new Date(decision.decided_at))}` : "";
    const chance = decision.prob === null ? "" : ` with a chance of ${percent(decision.prob)}`;
    const why = explored(decision) ? `, to explore: ${decision.greedy} looked best` : "";
    const among = decision.allowed ? `, among ${decision.allowed.join(", ")}` : "";
    const now = String(this.explained.label);
    const past = `${decision.label} was chosen${time}${chance}${among}${why}`;
    setText(this.summary, `${past}. Outcome: ${word}. Now ${now} looks best.`);
  }

  draw(label) {
    const ranked = Object.entries(this.explained.scores).sort((a, b) => b[1] - a[1]);
    this.parts = element("section");
    this.why.replaceChildren(element("h3", {}, "Scores now"), barList(ranked, (name) => this.choose(name)), this.parts);
    this.choose(label);
  }

  choose(label) {
    for (const button of this.why.querySelectorAll("li > button")) {
      button.setAttribute("aria-pressed", String(find(".name", button).textContent === label));
    }
    const { constant, features } = this.explained;
    const rows = Object.entries(features).map(([name, added]) => [name, added[label]]);
    rows.push(["(constant)", constant[label]]);
    rows.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    this.parts.replaceChildren(element("h3", {}, "What makes the score of ", element("b", {}, label)), barList(rows));
  }
}

const isBelow = (part) => part.getBoundingClientRect().top > innerHeight - 120;

// Bars to both sides of zero, on one scale; with `choose` each is a button.
function barList(rows, choose = null) {
  const most = Math.max(...rows.map(([, number]) => Math.abs(number)), 1e-300);
  const list = element("ol", { class: "bars" }, ...rows.slice(0, FIRST).map((row) => barRow(row, most, choose)));
  if (rows.length <= FIRST) return list;
  const more = element("button", { type: "button", class: "quiet" }, `Show all ${count(rows.length)}`);
  more.addEventListener("click", () => {
    list.append(...rows.slice(FIRST).map((row) => barRow(row, most, choose)));
    more.remove();
  });
  return element("div", {}, list, more);
}

function barRow([name, number], most, choose) {
  const bar = element("i", { class: number < 0 ? "below" : "above", "aria-hidden": "true" });
  setShare(bar, Math.abs(number) / most);
  const label = element("span", { class: "name", title: name }, name);
  const parts = [label, element("span", { class: "both" }, bar), element("span", { class: "number" }, signed(number))];
  if (!choose) return element("li", {}, ...parts);
  const button = element("button", { type: "button", "aria-pressed": "false" }, ...parts);
  button.addEventListener("click", () => choose(name));
  return element("li", {}, button);
}
