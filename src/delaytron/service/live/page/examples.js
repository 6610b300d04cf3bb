// Example calls for a service without models, and for a model without decisions.

import { key } from "./connection.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`; // for a shell

// JSON with spaces, as people write it.
function json(value) {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${json(inner)}`).join(", ")}}`;
}

function call(path, body) {
  const header = key.get() === null ? "" : ' -H "Authorization: Bearer $KEY"';
  return `curl -X POST${header} ${new URL(path, document.baseURI)} -d ${quoted(json(body))}`;
}

export const makeModel = () => call("v1/models", { name: "router", classes: ["small", "medium", "large"] });

export function decide(model) {
  const decision = call(`v1/models/${model.name}/decisions`, { features: featuresOf(model) });
  const answer = call(`v1/models/${model.name}/feedback`, { id: "ID", correct: true });
  return `${decision}\n\n${answer}`;
}

function featuresOf({ features }) {
  if (Array.isArray(features)) return Object.fromEntries(features.slice(0, 3).map((name) => [name, 1]));
  if (typeof features !== "number") return { prompt: "Translate this letter", tokens: 512 };
  return features <= 8 ? Array(features).fill(0.5) : [[0, 1], [features - 1, 0.5]];
}
