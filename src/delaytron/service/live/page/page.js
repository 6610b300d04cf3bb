// The live page: chooses the model, shows the status of the connection, and examples where there is no data yet.

import { ask, key, Refused, watch } from "./connection.js";
import { element, fillRows, find, setText } from "./dom.js";
import { decide, makeModel } from "./examples.js";
import { Explanation } from "./explanation.js";
import { Figures } from "./figures.js";
import { clock, duration, several } from "./numbers.js";
import { RecentDecisions } from "./tables.js";

const OFTEN = 3_000; // milliseconds until the models are listed again, while none is watched
const SELDOM = 15_000; // while one is watched

const figures = new Figures(find("#figures"));
const explanation = new Explanation(find("#explanation"), (id) => recent.mark(id));
const recent = new RecentDecisions(find("#recent"), (decision) => explanation.show(decision.id));
const chooser = find("#model select");

let models = [];
let watched = null; // the model
let watching = new AbortController();
let timer = null;
let lostAt = null;

function setStatus(kind, text) {
  find("#status").dataset.kind = kind;
  setText(find("#status"), text);
}

function show(id) {
  for (const part of ["#key", "#empty", "#figures"]) find(part).hidden = part !== id;
  find("#forget").hidden = key.get() === null;
}

function connected() {
  lostAt = null;
  setStatus("live", "Live");
}

function disconnected(problem) {
  lostAt ??= new Date();
  const why = problem instanceof Refused ? `: ${problem.message}` : "; trying again";
  setStatus("lost", `Disconnected since ${clock(lostAt)}${why}`);
  figures.cut();
}

// List the models again: new ones may be created while the page is open.
async function refresh() {
  clearTimeout(timer);
  try {
    models = (await ask("v1/models")).models;
  } catch (problem) {
    return unlisted(problem);
  }
  if (watched === null) connected();
  settle();
  refreshLater();
}

function unlisted(problem) {
  if (problem.status === 401) return askForKey();
  if (watched === null) disconnected(problem);
  refreshLater();
}

function refreshLater() {
  clearTimeout(timer);
  timer = setTimeout(refresh, watched === null ? OFTEN : SELDOM);
}

// Watch the model that the address names, or the first.
function settle() {
  const named = (name) => models.find((model) => model.name === name);
  const wanted = named(location.hash.slice(1)) ?? models[0];
  showModel(wanted);
  if (wanted === undefined) return showEmpty("No model yet", "Make one, and watch it here:", makeModel());
  if (wanted.name !== watched?.name) begin(wanted);
}

function showModel(model) {
  find("#model").hidden = model === undefined;
  document.title = model === undefined ? "Delaytron" : `${model.name} · Delaytron`;
  if (model === undefined) return setText(find("#facts"), "");
  setText(find("#model b"), models.length > 1 ? "" : model.name);
  chooser.hidden = models.length < 2;
  fillRows(chooser, models, () => element("option"), (option, { name }) => setText(option, name));
  if (chooser.value !== model.name) chooser.value = model.name;
}

function showFacts(model, staleness) {
  const parameters = Object.entries(model.parameters).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const lag = staleness ? `${duration(staleness.seconds)} behind the learner` : "";
  const facts = [[model.learner, ...parameters].join(" "), featuresOf(model), expiryOf(model), lag];
  setText(find("#facts"), facts.filter(Boolean).join(" · "));
}

function featuresOf({ features }) {
  if (typeof features === "string") return `${features} features`;
  return several(typeof features === "number" ? features : features.length, "feature", "features");
}

function expiryOf({ expire_after: limit, on_expiry: meaning }) {
  if (limit === null) return "no decision expires";
  const time = typeof limit === "number" ? several(limit, "decision", "decisions") : duration(parseFloat(limit));
  return `decisions expire after ${time}${meaning === "wrong" ? ", as wrong" : ""}`;
}

function showEmpty(title, text, calls) {
  const [heading, paragraph, code] = ["h2", "p", "code"].map((tag) => find(`#empty ${tag}`));
  setText(heading, title);
  setText(paragraph, text);
  setText(code, calls);
  show("#empty");
}

function begin(model) {
  stop();
  watched = model;
  history.replaceState(null, "", `#${model.name}`);
  explanation.open(`v1/models/${model.name}`);
  setStatus("connecting", "Connecting");
  watch(`v1/models/${model.name}/events`, watching.signal, { take, lost });
}

function stop() {
  watching.abort();
  watching = new AbortController();
  watched = null;
  figures.clear();
  recent.clear();
}

function take({ kind, data }) {
  connected();
  if (kind === "stats") takeStats(data);
  if (kind === "decisions") {
    recent.update(data.decisions);
    explanation.update(data.decisions);
  }
}

function takeStats(stats) {
  figures.update(stats);
  showFacts(watched, stats.staleness);
  if (stats.decisions > 0) return show("#figures");
  showEmpty("No decision yet", "Ask for one, and give the answer when you know it:", decide(watched));
}

// Return whether to retry.
function lost(problem) {
  if (problem?.status === 401) return askForKey();
  if (problem?.status === 404) {
    stop();
    refresh();
    return false;
  }
  disconnected(problem);
  return true;
}

function askForKey() {
  const isWrong = key.get() !== null;
  clearTimeout(timer);
  stop();
  key.set(null);
  showModel();
  setStatus("key", "Needs a key");
  setText(find("#key .problem"), isWrong ? "This key is not known here; check it, or ask who runs the service." : "");
  show("#key");
  find("#key input").focus();
  return false;
}

find("#key").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = find("#key input").value.trim();
  if (!/^[!-~]+$/.test(given)) return setText(find("#key .problem"), "A key must be ASCII without spaces; check what you pasted.");
  find("#key input").value = "";
  key.set(given);
  setStatus("connecting", "Connecting");
  refresh();
});
find("#forget").addEventListener("click", () => {
  key.set(null);
  askForKey();
});
chooser.addEventListener("change", () => (location.hash = chooser.value));
addEventListener("hashchange", () => find("#key").hidden && settle());
document.addEventListener("visibilitychange", () => figures.tick());
setInterval(() => document.hidden || figures.tick(), 1000);
refresh();
