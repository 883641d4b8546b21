// One run by itself: regret, losses, states, moments, who acted, solver, and how to do it again.

const STATUSES = {
  converged: ["good", "the gradient is within the tolerance"],
  iteration_cap: ["fair", "all iterations were used; for minibatch solvers such as Adam this is the plan"],
  stalled: ["fair", "no step lowers the objective any more in this precision"],
  no_minimiser: ["fair", "the loss falls for ever, as on data that a linear policy separates"],
  diverged: ["bad", "the numbers left the finite ones"],
  not_finite: ["bad", "the objective was not finite"],
};

const points = (x, y) => {
  const kept = x.map((_, at) => at).filter((at) => known(y[at]));
  return { x: kept.map((at) => x[at]), y: kept.map((at) => y[at]), kept };
};

function alone(data) {
  const runs = data.runs.map((run, place) => ({ run, place })).filter(({ run }) => run.env === page.env);
  if (!runs.length) return null;
  if (!runs.some(({ place }) => place === page.run)) page.run = runs[0].place;
  const run = data.runs[page.run];
  const choose = (place) => { page.run = place; renew("run"); };
  const here = runs.findIndex(({ place }) => place === page.run);
  const pick = runs.length > 1 ? h("div", { class: "controls" },
    h("label", { class: "choice" }, h("span", { class: "choice-label" }, "Run"),
      h("select", { id: "run-choice", onchange: (event) => choose(Number(event.target.value)) }, runs.map(({ run: each, place }) =>
        h("option", { value: place, selected: place === page.run }, `${data.groups[each.group].short}, seed ${each.seed} (${each.name})${each.state === "finished" ? "" : `, ${each.state}`}`)))),
    h("button", { type: "button", class: "plain", disabled: here === 0, onclick: () => choose(runs[here - 1].place) }, "Previous"),
    h("button", { type: "button", class: "plain", disabled: here === runs.length - 1, onclick: () => choose(runs[here + 1].place) }, "Next"),
    data.left_out ? h("span", { class: "soft" }, `The best, the median and the worst runs of every setting come first; ${whole(data.left_out)} runs are in the tables only.`) : null) : null;
  const title = `${run.learner} on ${run.env}${run.seed === null ? "" : `, seed ${run.seed}`}`;
  const body = run.rounds ? [regret(run), losses(run), states(run), moments(run), acted(run), solver(run), again(run)] : [again(run)];
  return section("run", runs.length > 1 ? "One run" : "The run", pick, h("p", { class: "run-title" }, title, " ", h("span", { class: `state ${run.state}` }, state(run))),
    run.trouble ? h("p", { class: run.state === "unfinished" ? "banner" : "banner wrong" }, run.trouble) : null, body);
}

const state = (run) => (run.state === "unfinished" ? `round ${run.rounds}${run.planned ? ` of ${run.planned}` : ""}, ${run.going ? "running" : "stopped without an end"}` : run.state);

function regret(run) {
  const made = run.certificate;
  const columns = run.columns;
  const judged = points(columns.round, columns.regret);
  const proved = made.kind === "certificate";
  if (!judged.x.length) {
    return part("Regret", note(run.state === "unfinished" ? "The best policy in hindsight is looked for after the last round; --comparator every does it after every round." : "The best policy in hindsight was not looked for (--comparator none)."));
  }
  const value = judged.y[judged.y.length - 1];
  const after = judged.x[judged.x.length - 1];
  const words = [];
  if (proved && known(made.high)) {
    const close = made.high - made.low <= 1e-6 * Math.max(1, Math.abs(made.high));
    words.push(h("p", { class: "claim" }, h("span", { class: "mark proved" }, "certified"), ` The regret after round ${after} is `, close ? [h("b", {}, num(made.high)), ` (to ${(made.high - made.low).toExponential(1)})`] : ["between ", h("b", {}, num(made.low)), " and ", h("b", {}, num(made.high))],
      `, against every policy of norm at most ${num(made.norm, 3)}`, known(made.bound) ? ["; its certified bound is ", h("b", {}, num(made.bound))] : "", "."));
    if (made.reason) words.push(note(`No finite bound: ${made.reason}`));
  } else if (proved) {
    words.push(h("p", { class: "claim" }, h("span", { class: "mark proved" }, "certified"), " The regret was measured as ", h("b", {}, num(value)), known(made.bound) ? [" and its bound is ", h("b", {}, num(made.bound))] : "", "."));
    if (made.reason) words.push(note(`No finite bound: ${made.reason}`));
  } else {
    words.push(h("p", { class: "claim" }, h("span", { class: "mark" }, "estimate"), ` The regret after round ${after} is about `, h("b", {}, num(value)), ", against the best policy that was found in hindsight. Nothing is proved of it."));
    if (made.reason) words.push(note(`Why: ${made.reason}`));
  }
  const highest = Math.max(...judged.y, 0);
  const limit = proved ? points(columns.round, columns.bound) : { x: [], y: [] };
  const near = limit.y.length && limit.y[limit.y.length - 1] <= 8 * highest;
  const series = [];
  const low = judged.kept.map((at) => columns.regret_low[at]);
  const high = judged.kept.map((at) => columns.regret_high[at]);
  const banded = proved && low.some(known) && judged.x.length > 1;
  series.push({ label: proved ? "regret" : "regret, estimate", x: judged.x, y: judged.y, low: banded ? low : null, high: banded ? high : null, colour: "#0072B2", dots: judged.x.length < 30 });
  if (near) series.push({ label: "certified bound", x: limit.x, y: limit.y, colour: "#D55E00", dashes: [3, 4], width: 1.6, dots: limit.x.length === 1 });
  const chartOf = judged.x.length > 1 ? chart({ label: `Regret against rounds; it ends at ${num(value)}${known(made.bound) && proved ? `, the bound at ${num(made.bound)}` : ""}.`, x: "round", series, height: 230, show: whole,
    range: () => around(series.flatMap((each) => each.y), { zero: true }) }) : null;
  return part(proved && known(made.bound) ? "Regret, and the bound it is under" : "Regret", words,
    chartOf ? h("div", { class: "legend" }, key("#0072B2", proved ? "regret" : "regret, estimate", "line"), near ? key("#D55E00", "certified bound", "line dashed") : null) : null,
    chartOf, chartOf && limit.y.length ? note(near ? "" : `The certified bound, ${num(limit.y[limit.y.length - 1])} at the end, is far above and not drawn.`, banded ? " The band holds the true regret; it is often thinner than the line." : "") : null,
    judged.x.length === 1 && run.rounds > 1 ? note("It was found after the last round only; --comparator every finds it after every round.") : null);
}

function losses(run) {
  const { round, loss } = run.columns;
  const found = points(round, loss);
  return part("Loss before each update",
    h("div", { class: "legend" }, key("#0072B2", "loss of the round", "line"), key("#E69F00", "average so far", "line dashed"), run.floor ? key("#7F7F7F", "the expert's entropy", "line dotted") : null),
    chart({ label: `Loss before each update against rounds; it begins at ${num(found.y[0])} and ends at ${num(found.y[found.y.length - 1])}.`, x: "round", height: 210, show: whole,
      series: [{ label: "loss of the round", x: found.x, y: found.y, colour: "#0072B2", dots: found.x.length < 60 }, { label: "average so far", x: round, y: run.columns.average_loss, colour: "#E69F00", dashes: [6, 3] },
        ...(run.floor ? [{ label: "the expert's entropy", x: run.floor.x, y: run.floor.y, colour: "#7F7F7F", dashes: [2, 4], width: 1.4 }] : [])],
      range: () => around([...found.y, ...run.columns.average_loss, ...(run.floor ? run.floor.y : [])]) }),
    run.floor ? note(`The labels are the expert's probabilities, so no policy's loss is below the expert's entropy, which is ${num(run.floor.y[run.floor.y.length - 1])} in the last round: the part above it is what is still to learn.`) : null,
    note(`The loss of a round is measured on the states of that round before the policy learns from them. It may rise${run.rises ? `, as it does ${many(run.rises, "time")} here` : ""}: a changed policy visits states that it has not seen yet.`));
}

function states(run) {
  const found = run.compared;
  if (!found) return run.study ? null : part("Where policy and expert disagree", note(run.missing || "The run keeps no labelled states to compare on."));
  const { own, expert } = found.sides;
  const unit = found.choices ? "share of states with another choice" : "mean distance of the actions";
  const measure = (side) => (found.choices ? side.differs : side.away);
  const most = Math.max(measure(own) || 0, measure(expert) || 0, 1e-12);
  const bar = (name, side, colour) => h("div", { class: "bar" }, h("span", {}, name),
    h("span", { class: "bar-track" }, known(measure(side)) ? h("i", { style: { width: `${(100 * measure(side)) / most}%`, background: visible(colour) } }) : null),
    h("b", {}, known(measure(side)) ? (found.choices ? percent(side.differs, 2) : num(side.away, 3)) : "none"), h("span", { class: "soft" }, many(side.states, "state")));
  const worse = known(measure(own)) && known(measure(expert)) ? (measure(own) > 1.05 * measure(expert) ? "It disagrees more on its own states than on the expert's: this is what cloning alone does not see." : measure(own) < 0.95 * measure(expert) ? "It disagrees less on its own states than on the expert's." : "It disagrees about equally on both.") : "";
  const left = [h("p", { class: "caption" }, `The kept policy against the expert's labels: ${unit}.`), bar("own states", own, "#0072B2"), bar("expert's states", expert, "#7F7F7F"), note(worse)];
  if (found.confusion) {
    const total = found.confusion.flat().reduce((a, b) => a + b, 0);
    left.push(h("p", { class: "caption" }, "Choices, in states: rows are the expert's, columns the policy's."), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Choices of expert and policy" }, h("table", { class: "confusion" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "expert \\ policy"), found.confusion.map((_, at) => h("th", { scope: "col", class: "number" }, at + found.first)))),
      h("tbody", {}, found.confusion.map((row, i) => h("tr", {}, h("th", { scope: "row" }, i + found.first), row.map((count, j) =>
        h("td", { class: `number ${i === j ? "same" : count > 0.02 * total ? "apart" : ""}` }, whole(count)))))))));
  } else if (own.gaps || expert.gaps) {
    const size = (own.gaps || expert.gaps).length;
    left.push(h("p", { class: "caption" }, "Mean difference by action dimension."), table(["dimension", "own states", "expert's states"],
      Array.from({ length: size }, (_, at) => [String(at + 1), own.gaps ? num(own.gaps[at], 3) : "–", expert.gaps ? num(expert.gaps[at], 3) : "–"]), { label: "Differences by action dimension" }));
  }
  return part("Own states and the expert's: where they disagree", h("div", { class: "pair" }, h("div", {}, left), plane(found)));
}

function plane(found) {
  const given = found.plane;
  if (!given) return h("div", {}, note("The states are not drawn as points: they are images, or too few, or vary in one direction only."));
  const order = given.x.map((_, at) => at).sort((a, b) => given.x[a] - given.x[b]);
  const of = (test) => { const kept = order.filter(test); return { x: kept.map((at) => given.x[at]), y: kept.map((at) => given.y[at]) }; };
  const series = [
    { label: "expert's states", ...of((at) => given.expert[at]), colour: "#8a8a8a", dots: "only", size: 5, alpha: 0.5 },
    { label: "own states", ...of((at) => !given.expert[at]), colour: "#0072B2", dots: "only", size: 5, alpha: 0.5 },
    { label: "largest disagreement", ...of((at) => given.far[at]), colour: "#D55E00", dots: "only", size: 9, hollow: true },
  ];
  const legend = [["#8a8a8a", "expert's states", ""], ["#0072B2", "own states", ""], ["#D55E00", "the tenth with the largest disagreement", "ring"]];
  return h("div", {}, h("div", { class: "legend" }, legend.map((each) => key(...each))),
    chart({ label: "States on the plane of their two main directions, with those of largest disagreement ringed.", x: "first main direction of the states", y: "second", series, height: 320, quiet: true }),
    note(`${whole(given.x.length)} of ${whole(found.states)} labelled states; the plane shows ${percent(given.share, 0)} of how they vary.`));
}

function acted(run) {
  const found = run.timeline || { x: run.columns.steps, acted: run.columns.by_expert, asked: run.columns.asked };
  if (!found.x || !found.x.length) return null;
  const ending = run.timeline ? found.end : found.x[found.x.length - 1];
  const share = (list) => list.map((value) => (known(value) ? 100 * value : null));
  const start = run.timeline ? found.x : [0, ...found.x.slice(0, -1)];
  const step = (list) => ({ x: [...start, ending], y: [...share(list), share(list).slice(-1)[0]] });
  const one = (title, list, colour, text) => h("figure", {}, h("figcaption", {}, title), chart({ label: `${title}, in per cent, against steps. ${text}`, x: "environment steps", series: [{ label: title, ...step(list), colour, step: true, fill: true, width: 1.4 }], height: 150, range: () => [0, 105], value: (v) => `${num(v, 3)} %`, show: whole }));
  const labels = run.columns.labels[run.columns.labels.length - 1];
  const steps = run.columns.steps[run.columns.steps.length - 1];
  return part("Who acted, and who was asked", h("div", { class: "pair" },
    one("Steps that the expert acted", found.acted, "#7F7F7F", ""), one("States that the expert was asked about", found.asked, "#009E73", "")),
    note(`${many(labels, "label")} for ${many(steps, "step")}${steps ? ` (${percent(labels / steps)})` : ""}. The policy acts wherever the expert does not.`),
    experts(run, labels));
}

function experts(run, labels) {
  const listed = Object.entries(run.experts || {});
  if (!listed.length) return null;
  const rows = listed.map(([name, about]) => [name, whole(about.labels), labels ? percent(about.labels / labels, 0) : "–", known(about.loss) ? num(about.loss, 3) : "–", known(about.agreement) ? percent(about.agreement) : "–"]);
  return h("div", {}, h("p", { class: "caption" }, "The experts: their labels, and the loss and the agreement of the policy on their states when each was asked last."),
    table(["expert", "labels", "share", "loss", "agreement"], rows, { label: "Labels, loss and agreement of each expert" }));
}

function solver(run) {
  const total = Object.values(run.solves).reduce((a, b) => a + b, 0);
  const rows = Object.entries(run.solves).map(([name, count]) => {
    const [mark, words] = STATUSES[name] || ["fair", ""];
    return [h("span", { class: `status ${mark}` }, name.replaceAll("_", " ")), whole(count), h("span", { class: "unbroken" }, percent(count / total, 0)), words];
  });
  const parts = ["collect", "solve", "comparator", "evaluate"].filter((name) => known(run.spent[name]));
  const all = parts.reduce((sum, name) => sum + run.spent[name], 0) || 1;
  const colours = { collect: "#0072B2", solve: "#D55E00", comparator: "#CC79A7", evaluate: "#009E73" };
  const gradients = points(run.columns.round, run.columns.solver_grad_norm);
  const positive = gradients.y.some((value) => value > 0);
  return part("Solver and time", h("div", { class: "pair" },
    h("div", {}, h("p", { class: "caption" }, `How the ${many(total, "solve")} ended, after ${many(run.iterations, "iteration")} in all.`),
      table(["status", "solves", "share", "meaning"], rows, { label: "How the solves ended", numbers: false }),
      h("p", { class: "caption" }, `${seconds(run.spent.total)} in all, of which`),
      h("div", { class: "stack", role: "img", "aria-label": parts.map((name) => `${name} ${seconds(run.spent[name])}`).join(", ") }, parts.map((name) => h("i", { style: { width: `${(100 * run.spent[name]) / all}%`, background: visible(colours[name]) } }))),
      h("div", { class: "legend" }, parts.map((name) => key(colours[name], `${name} ${seconds(run.spent[name])}`)))),
    h("figure", {}, h("figcaption", {}, "Gradient left after each solve"), chart({ label: "Norm of the gradient that each solve left, against rounds.", x: "round", height: 230, log: positive, show: whole,
      series: [{ label: "gradient norm", x: gradients.x, y: gradients.y, colour: "#0072B2", dots: gradients.x.length < 60 }] }))));
}

function again(run) {
  const copy = async (event) => { const button = event.currentTarget; try { await navigator.clipboard.writeText(run.command); button.textContent = "Copied"; } catch { button.textContent = "Select the text and copy it"; } };
  const spell = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const list = (found) => h("dl", {}, Object.entries(found).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, spell(value))]));
  if (!run.command) return part("The folder", note(run.folder));
  const typed = h("div", { class: "command" }, h("code", { tabindex: "0" }, run.command), h("button", { type: "button", class: "plain", onclick: copy }, "Copy"));
  return part("The same again",
    run.own.length ? note(`This run was begun from Python with ${run.own.map((name) => `${/^[aeiou]/.test(name) ? "an" : "a"} ${name}`).join(" and ")} of its own, which cannot be typed: no command makes it again.`) : typed,
    h("div", { class: "pair" }, h("details", { open: true }, h("summary", {}, "Settings that are not defaults"), list(run.settings)),
      h("details", { open: true }, h("summary", {}, "Versions"), list({ ...run.versions, folder: run.folder }))),
    Object.keys(run.resolved).length ? h("details", {}, h("summary", {}, "What was chosen for the run"), h("pre", { tabindex: "0" }, JSON.stringify(run.resolved, null, 1))) : null);
}
