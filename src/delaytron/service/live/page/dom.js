// Create and fill elements. Text is set as text, never parsed as HTML: names come from users.

const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const find = (selector, within = document) => within.querySelector(selector);
export const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);
export const drawn = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Unchanged text is not replaced, so that a selection survives updates.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Give a list as many children as there are rows, and fill each.
export function fillRows(parent, rows, make, fill) {
  while (parent.children.length > rows.length) parent.lastElementChild.remove();
  while (parent.children.length < rows.length) parent.append(make());
  rows.forEach((row, i) => fill(parent.children[i], row));
}

export function setShare(node, share) {
  node.style.setProperty("--share", String(share)); // set by script: the policy allows no style in attributes
}
