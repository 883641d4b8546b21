"use strict";
// Everything is put on the page as text, never as HTML: names of runs come from folders that others may have made.

const page = { axis: "labels", metric: "average loss", log: false, env: null, run: 0, hidden: new Set(), data: null };

function h(tag, given, ...children) {
  const node = tag === "svg" ? null : document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

// Four digits, thousands apart; a dash where nothing was measured.
function num(value, digits = 4) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (value !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: size >= 10000 ? 0 : 1 });
  return String(Number(value.toPrecision(digits)));
}

const whole = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");
const percent = (value, digits = 1) => (known(value) ? `${Number((100 * value).toFixed(digits))}\u00a0%` : "–");

function seconds(value) {
  if (!known(value)) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (Math.round(value) < 60) return `${value.toFixed(0)} s`;
  if (value < 600) return `${Math.floor(Math.round(value) / 60)} min ${Math.round(value) % 60} s`;
  return value < 5400 ? `${(value / 60).toFixed(0)} min` : `${(value / 3600).toFixed(1)} h`;
}

const span = (one, show = num) => (known(one[1]) ? `${show(one[1])} … ${show(one[2])}` : "");
const within = (one, show = num) => (!known(one[1]) ? "no interval" : one[1] === one[2] ? "each time" : `95 % interval: ${span(one, show)}`);
const many = (count, what) => `${whole(count)} ${what}${Math.round(count) === 1 ? "" : "s"}`;

// Names and numbers with their units are not broken at the end of a line.
function unbroken(text, name) {
  const fixed = text.replace(/([\d.]) (%|s|min|h)(?![a-z])/g, "$1\u00a0$2");
  return fixed.split(name).flatMap((one, at) => (at ? [h("span", { class: name.length <= 24 ? "unbroken" : null }, name), one] : [one]));
}

function key(colour, text, kind = "") {
  return h("span", { class: "key" }, h("i", { class: kind.startsWith("line") ? `swatch ${kind}` : `dot ${kind}`, style: { "--c": visible(colour) } }), text);
}

function section(id, title, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...children);
}

function part(title, ...children) {
  return h("div", { class: "part" }, h("h3", {}, title), ...children);
}

function note(...children) {
  return h("p", { class: "note" }, ...children);
}

// A group of buttons of which one is pressed; the arrow keys move among them.
function choice(label, options, current, choose) {
  const press = (event) => choose(event.currentTarget.dataset.value);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const able = [...event.currentTarget.parentNode.children].filter((one) => !one.disabled);
    const next = able[(able.indexOf(event.currentTarget) + step + able.length) % able.length];
    next.focus();
    next.click();
  };
  const buttons = options.map(([value, text, usable = true]) =>
    h("button", { type: "button", role: "radio", "data-value": value, "aria-checked": String(value === current),
      tabindex: value === current ? "0" : "-1", disabled: !usable, onclick: press, onkeydown: move }, text));
  return h("div", { class: "choice" }, h("span", { class: "choice-label" }, label),
    h("div", { role: "radiogroup", "aria-label": label, class: "choice-buttons" }, buttons));
}

function table(heads, rows, given = {}) {
  const cell = (tag, one, place) => h(tag, { class: place && given.numbers !== false ? "number" : null,
    scope: tag === "th" ? (place === 0 && one !== heads[0] ? "row" : "col") : null }, one);
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": given.label || "table" },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((one, place) => cell("th", one, place)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((one, place) => cell(place ? "td" : "th", one, place)))))));
}
