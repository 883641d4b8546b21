// What several groups of runs came to, side by side: the table, and curves along a chosen axis.

const AXES = [["labels", "Labels", "labels"], ["steps", "Steps", "steps"], ["rounds", "Rounds", "round"], ["seconds", "Seconds", "seconds"]];

const shown = (data) => data.groups.map((one, place) => ({ ...one, place })).filter((one) => one.labels.env === page.env);

function swatch(group) {
  const colour = visible(group.colour);
  const dashes = group.dashes.length ? `repeating-linear-gradient(90deg, ${colour} 0 5px, transparent 5px 8px)` : colour;
  return h("i", { class: "swatch", style: { background: dashes }, "aria-hidden": "true" });
}

function toggle(group) {
  const off = page.hidden.has(group.name);
  const flip = () => { if (off) page.hidden.delete(group.name); else page.hidden.add(group.name); renew("curves", "compare"); };
  return h("button", { type: "button", class: "toggle", "aria-pressed": String(!off), onclick: flip, title: `${group.name}: ${off ? "show" : "hide"} its curves` }, swatch(group), group.short);
}

// An interval on a common scale, with the expert as a line.
function forest(one, range, expert) {
  const place = (value) => `${Math.max(0, Math.min(100, (100 * (value - range[0])) / (range[1] - range[0] || 1)))}%`;
  if (!known(one[0])) return "";
  const [low, high] = known(one[1]) ? [one[1], one[2]] : [one[0], one[0]];
  return h("div", { class: "forest", "aria-hidden": "true" },
    known(expert) ? h("i", { class: "forest-expert", style: { left: place(expert) } }) : null,
    h("i", { class: "forest-span", style: { left: place(low), right: `calc(100% - ${place(high)})` } }),
    h("i", { class: "forest-dot", style: { left: place(one[0]) } }));
}

function compare(data) {
  const groups = shown(data);
  if (groups.length < 2) return null;
  const shares = groups.every((one) => known(one.share[0]) || !known(one.return[0])) && groups.some((one) => known(one.share[0]));
  const scores = groups.map((one) => (shares ? one.share : one.return));
  const experts = groups.map((one) => (shares ? 1 : one.expert[0]));
  const range = around([...scores.flatMap((one) => one.slice(0, 3)), ...experts]);
  const both = (one, show) => [h("b", {}, show(one[0])), known(one[1]) ? h("span", { class: "interval" }, ` ${span(one, show)}`) : null];
  const most = 40;
  const rows = groups.slice(0, page.all ? groups.length : most).map((one, place) => [
    toggle(one),
    h("span", {}, whole(one.runs), one.states.failed || one.states.unreadable ? h("span", { class: "bad" }, ` (${(one.states.failed || 0) + (one.states.unreadable || 0)} failed)`) : null,
      one.states.unfinished ? h("span", { class: "soft" }, ` (${one.states.unfinished} unfinished)`) : null),
    h("span", {}, both(scores[place], shares ? percent : num)),
    forest(scores[place], range, experts[place]),
    known(one.difference[0]) ? both(one.difference, num) : "–",
    h("span", {}, both(one["average loss"], num), one["by expert"] ? h("span", { class: "soft" }, " expert's states") : null),
    h("span", {}, num(one.regret[0]), known(one.regret[0]) && !one.certified ? h("span", { class: "soft" }, " est.") : null),
    whole(one.labels_count), seconds(one.seconds),
  ]);
  const heads = ["Setting", "Runs", shares ? "Score, share of expert" : "Return", "95 % interval", "Difference from the expert", "Average loss", "Regret", "Labels", "Time"];
  return section("compare", "Comparison",
    note("Means over runs with Student's 95 % intervals, which two runs leave wide; of a run alone, over its episodes. Intervals of two rows may overlap although their policies differ, and lie apart although they do not: the sentence above compares them on the same episodes. ",
      experts.some(known) ? "The vertical line is the expert of each row; the difference from it is the mean over the same episodes. " : "", "Regrets marked est. are estimates: nothing is proved of them. ",
      groups.some((one) => one["by expert"]) ? "A loss on the expert's states is not comparable with one on the policy's own." : ""),
    table(heads, rows, { label: "Comparison of learners" }),
    groups.length > most && !page.all ? h("button", { type: "button", class: "plain", onclick: () => { page.all = true; renew("compare"); } }, `Show all ${groups.length} settings`) : null);
}

function curves(data) {
  const groups = shown(data).filter((one) => !page.hidden.has(one.name));
  const every = shown(data);
  const usable = (axis) => every.some((one) => Object.values(one.curves).some((found) => found[axis]));
  const axis = usable(page.axis) ? page.axis : "rounds";
  const word = AXES.find((one) => one[0] === axis)[2];
  const draw = (metric, title, log) => {
    const found = groups.filter((one) => one.curves[metric] && one.curves[metric][axis]);
    const series = found.map((one) => {
      const made = one.curves[metric][axis];
      return { label: one.short, x: made.x, y: made.middle, low: made.low, high: made.high, colour: one.colour, dashes: one.dashes, dots: made.x.length < 16 };
    });
    const experts = new Map(every.filter((one) => known(one.expert[0])).map((one) => [one.expert[0], one.short]));
    // Where policies were evaluated once, the axis is that of all rounds: a dot at their end, and not in the middle.
    const once = metric === "return" && series.length && series.every((one) => one.x.length === 1);
    const rounds = once ? groups.flatMap((one) => (one.curves["average loss"][axis] || { x: [] }).x) : [];
    const places = [...series.flatMap((one) => [one.x[0], one.x[one.x.length - 1]]), ...rounds];
    const two = [Math.min(...places), Math.max(...places)];
    if (metric === "return" && series.length) {
      for (const [expert, name] of experts) {
        series.unshift({ label: experts.size > 1 ? `expert of ${name}` : "expert", x: two[0] === two[1] ? [two[0]] : two, y: two[0] === two[1] ? [expert] : [expert, expert], colour: ink("--ink"), dashes: [2, 4], width: 1.4, level: true });
      }
    }
    const ends = found.map((one) => `${one.short} ends at ${num(one.curves[metric][axis].middle.slice(-1)[0])}`).slice(0, 8);
    const under = covered(series);
    return h("figure", {}, h("figcaption", {}, title), chart({
      label: `${title} against ${word}. ${ends.join("; ")}.`, x: word, series, log, height: 280,
      show: axis === "seconds" ? num : whole, xrange: once && two[0] < two[1] ? () => two : undefined,
      range: () => around(series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])])),
      empty: metric === "return" ? "There is no return to draw; --episodes 10 measures it, --evaluate-every 5 also on the way." : "No run that counts has a round yet." }),
      under.length ? note(`Hidden lines: ${under.join("; ")}.`) : null,
      once ? note("Evaluated after the last round; --evaluate-every 5 does it on the way too.") : null);
  };
  const bands = groups.some((one) => Object.values(one.curves).some((found) => found.rounds && found.rounds.low));
  const change = (name) => (value) => { page[name] = value; renew("curves"); };
  return section("curves", "Curves",
    h("div", { class: "controls" },
      choice("Against", AXES.map(([value, text]) => [value, text, usable(value)]), axis, change("axis")),
      choice("Loss", [["average loss", "average"], ["loss", "of each round"]], page.metric, change("metric")),
      choice("Scale of the loss", [["no", "linear"], ["yes", "logarithmic"]], page.log ? "yes" : "no", (value) => { page.log = value === "yes"; renew("curves"); })),
    h("div", { class: "legend" }, every.length > 1 ? every.slice(0, 24).map(toggle) : null, every.length > 24 ? h("span", { class: "soft" }, ` and ${every.length - 24} more in the table`) : null,
      every.some((one) => known(one.expert[0]) && known(one.return[0])) ? key(ink("--ink"), "expert", "line dotted") : null),
    h("div", { class: "pair" }, draw("return", "Return of the policy", false),
      draw(page.metric, page.metric === "loss" ? "Loss before each update" : "Average loss", page.log)),
    note(bands ? "Lines are means over runs, bands reach from the 5 % to the 95 % quantile of the runs. " : "", "Drag across a chart to look closer; a double click goes back.",
      usable("seconds") ? "" : " Studies and runs written by save keep no seconds of single rounds, so that axis is not offered."));
}
