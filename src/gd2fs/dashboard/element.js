// Elements: made once, changed only where what they say has changed. Text is always text.
const SVG = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  fit(made, properties);
  made.append(...children);
  return made;
}

function drawn(tag, properties = {}) {
  const made = document.createElementNS(SVG, tag);
  fit(made, properties);
  return made;
}

function fit(made, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
}

function say(at, text) {
  if (at.textContent !== text) at.textContent = text;
}

function mark(at, name, value) {
  if (at.getAttribute(name) !== String(value)) at.setAttribute(name, value);
}

// A number: exact in `value`, and as people read it.
function number(value, text) {
  return element("data", { value: value ?? "" }, text);
}

function tell(at, value, text) {
  let data = at.firstElementChild;
  if (data?.tagName !== "DATA") {
    data = number(value, text);
    at.replaceChildren(data);
  }
  mark(data, "value", value ?? "");
  say(data, text);
}

// How full something is: a bar whose number stands beside it, so that it is for the eye alone.
function meter(at, part) {
  let inner = at.firstElementChild;
  if (!inner) {
    inner = element("i");
    at.setAttribute("aria-hidden", "true");
    at.append(inner);
  }
  const width = `${(100 * Math.min(1, part ?? 0)).toFixed(1)}%`;
  if (inner.style.width !== width) inner.style.width = width;
}
