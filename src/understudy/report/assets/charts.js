// Curves, by uPlot: colours follow the theme, sizes the page, and every chart says in words what it shows.

let charts = [];

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function channels(colour) {
  const whole = colour.replace("#", "");
  return [0, 2, 4].map((at) => parseInt(whole.slice(at, at + 2), 16));
}

function luminance(colour) {
  const [r, g, b] = channels(colour).map((one) => {
    const part = one / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The colour, moved towards white or black until it stands out from the background by 3 to 1.
function visible(colour) {
  const ground = ink("--paper");
  const light = luminance(ground) < 0.5 ? 255 : 0;
  let shown = channels(colour);
  for (let turn = 0; turn < 20; turn += 1) {
    const text = `#${shown.map((one) => Math.round(one).toString(16).padStart(2, "0")).join("")}`;
    const [a, b] = [luminance(text), luminance(ground)];
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) >= 3.2) return text;
    shown = shown.map((one) => one + 0.12 * (light - one));
  }
  return ink("--ink");
}

const faded = (colour, share) => `rgba(${channels(colour).join(",")},${share})`;

const WHOLE = Array.from({ length: 36 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
const power = (value) => (value < 1e-3 || value >= 1e5 ? value.toExponential(0).replace("e+", "e") : num(value));

function readout(given) {
  const box = h("div", { class: "readout", hidden: true });
  return {
    hooks: {
      init: (chart) => chart.over.append(box),
      setCursor: (chart) => {
        const { idx, left, top } = chart.cursor;
        if (idx === null || idx === undefined || left < 0) { box.hidden = true; return; }
        const rows = given.series.map((one, place) => [one, chart.data[given.at[place]][idx]])
          .filter(([one, value]) => known(value) && !one.silent);
        if (!rows.length) { box.hidden = true; return; }
        const at = given.show ? given.show(chart.data[0][idx]) : num(chart.data[0][idx]);
        box.replaceChildren(h("div", { class: "readout-x" }, `${given.x} ${at}`),
          ...rows.slice(0, 10).map(([one, value]) => h("div", {},
            h("i", { style: { background: visible(one.colour) } }), `${one.label} `, h("b", {}, (given.value || num)(value)))));
        box.hidden = false;
        const right = left > chart.over.clientWidth / 2;
        box.style.left = right ? "" : `${left + 14}px`;
        box.style.right = right ? `${chart.over.clientWidth - left + 14}px` : "";
        box.style.top = `${Math.max(0, Math.min(top, chart.over.clientHeight - box.clientHeight))}px`;
      },
    },
  };
}

// given: {label, x, y, series: [{label, x, y, low, high, colour, dashes, width, dots, step, fill, silent}], log,
// height, range, value, show}. Series may have places of their own.
function chart(given) {
  const frame = h("div", { class: "chart", role: "img", "aria-label": given.label });
  frame.draw = () => {
    if (frame.chart) frame.chart.destroy();
    frame.replaceChildren();
    const drawn = given.series.filter((one) => one.x.length);
    if (!drawn.length) {
      frame.append(h("p", { class: "empty" }, given.empty || "Nothing to draw yet."));
      return;
    }
    const fix = (list) => list.map((one) => (known(one) && (!given.log || one > 0) ? one : null));
    const tables = [];
    drawn.forEach((one) => {
      const columns = [one.x, fix(one.y)];
      if (one.low) columns.push(fix(one.low), fix(one.high));
      // Places must be in order, and each there once.
      const order = one.x.map((_, at) => at).filter((at) => known(one.x[at]) && (at === 0 || one.x[at] > one.x[at - 1] || one.dots === "only"));
      tables.push(columns.map((column) => order.map((at) => column[at])));
    });
    const data = uPlot.join(tables, tables.map((one) => one.map(() => 2)));
    const series = [{}];
    const bands = [];
    const at = [];
    drawn.forEach((one) => {
      const colour = visible(one.colour);
      const paths = one.step ? uPlot.paths.stepped({ align: 1 }) : one.dots === "only" ? () => null : undefined;
      at.push(series.length);
      const single = one.x.length === 1;
      const shown = one.dots === "only" || one.dots || single;
      series.push({ label: one.label, stroke: one.dots === "only" ? undefined : colour, width: one.width || 2, dash: one.dashes, spanGaps: true, paths,
        fill: one.fill ? faded(colour, 0.22) : undefined,
        points: { show: shown, size: one.size || 6, fill: one.hollow ? "rgba(0,0,0,0)" : one.dots === "only" ? faded(colour, one.alpha || 0.55) : colour, stroke: one.hollow ? colour : one.dots === "only" ? "rgba(0,0,0,0)" : colour, width: one.hollow ? 1.5 : 0 } });
      if (one.low) {
        series.push({ stroke: faded(colour, 0.35), width: 0.7, spanGaps: true, points: { show: false } },
          { stroke: faded(colour, 0.35), width: 0.7, spanGaps: true, points: { show: false } });
        bands.push({ series: [series.length - 1, series.length - 2], fill: faded(colour, 0.16) });
      }
    });
    const axis = { stroke: ink("--soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      grid: { stroke: ink("--line"), width: 1 }, ticks: { show: false }, labelSize: 20, size: 34 };
    const ticks = (show) => (chart, places) => places.map((one) => (one === null ? "" : (show || num)(one)));
    const width = Math.max(220, frame.clientWidth);
    const options = {
      width, height: given.height || 260, series, bands, plugins: given.quiet ? [] : [readout({ ...given, series: drawn, at })],
      legend: { show: false }, padding: [12, 26, 0, 0],
      cursor: { show: !given.quiet, drag: { x: true, y: false }, points: { show: !given.quiet } },
      scales: { x: { time: false, range: given.xrange }, y: { distr: given.log ? 3 : 1, range: given.log ? undefined : given.range } },
      axes: [{ ...axis, label: given.x, size: 28, space: 60, values: ticks(given.show), incrs: given.show === whole ? WHOLE : undefined },
        { ...axis, label: given.y, size: 60, space: given.log ? 30 : 36, values: ticks(given.value || (given.log ? power : undefined)) }],
    };
    frame.chart = new uPlot(options, data, frame);
    frame.dataset.drawn = String(drawn.length);
  };
  charts.push(frame);
  return frame;
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const width = Math.max(220, target.clientWidth);
    if (target.chart && Math.abs(target.chart.width - width) > 1) target.chart.setSize({ width, height: target.chart.height });
  }
});

// Charts are drawn when they come near the window, so that a long page opens at once.
const nearby = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting && !target.chart) target.draw();
  }
}, { rootMargin: "600px" });

function begin(root) {
  charts = charts.filter((one) => one.isConnected);
  for (const frame of root.querySelectorAll(".chart")) {
    sizes.observe(frame);
    nearby.observe(frame);
  }
}

function redraw(all = false) {
  charts = charts.filter((one) => one.isConnected);
  for (const one of charts) if (one.chart || all) one.draw();
}

// Which lines cannot be seen, because another is drawn over them.
function covered(series) {
  const size = Math.max(...series.flatMap((one) => one.y.filter(known)), -Infinity) - Math.min(...series.flatMap((one) => one.y.filter(known)), Infinity);
  const said = [];
  const wide = (one) => (one.x.length ? Math.max(...one.x) - Math.min(...one.x) : 0);
  series.forEach((one, at) => {
    const over = series.slice(at + 1).find((other) => {
      const level = one.level && one.y.length ? other.y.map((theirs) => [one.y[0], theirs]) : null;  // as the expert's is
      const places = new Map(other.x.map((x, place) => [x, other.y[place]]));
      const both = level || one.x.map((x, place) => [one.y[place], places.get(x)]).filter(([mine, theirs]) => known(mine) && known(theirs));
      return both.length && (level ? wide(other) >= 0.9 * wide(one) : both.length >= 0.9 * one.x.length) && both.every(([mine, theirs]) => Math.abs(mine - theirs) <= 0.005 * (size || 1));
    });
    if (over) said.push(`${one.label} lies under ${over.label}`);
  });
  return said.length > 4 ? [...said.slice(0, 4), `and ${said.length - 4} more lie under others`] : said;
}

// The range of values, with zero in it where it is near.
function around(values, given = {}) {
  const found = values.filter(known);
  if (!found.length) return [0, 1];
  let [low, high] = [Math.min(...found), Math.max(...found)];
  if (given.zero || (low > 0 && low < 0.4 * high)) low = Math.min(0, low);
  // A change of a few per cent is not drawn as a cliff.
  const least = 0.2 * Math.max(Math.abs(low), Math.abs(high)) || 1;
  if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
  const more = (high - low) * 0.06;
  return [low === 0 ? 0 : low - more, high + more];
}
