// Every run in one line, on a page of runs that go on.

const STATES = { running: "good", waiting: "fair", stopped: "bad", failed: "bad", unreadable: "bad", finished: "" };

function spark(one) {
  const values = one.spark.filter(known);
  if (values.length < 2) return h("span", { class: "soft" }, "–");
  const low = Math.min(...values), high = Math.max(...values);
  const bars = values.map((value) => h("i", { style: { height: `${3 + 21 * (high > low ? (value - low) / (high - low) : 0.5)}px` } }));
  return h("span", { class: "spark", role: "img", "aria-label": `${one.drawn} from ${num(values[0])} to ${num(values[values.length - 1])}` }, bars);
}

function overview(data) {
  const runs = data.overview || [];
  if (runs.length < 2) return null;
  const most = 60;
  const rows = runs.slice(0, page.every ? runs.length : most).map((one) => {
    const place = data.runs.findIndex((run) => ["folder", "name", "learner", "seed"].every((name) => run[name] === one[name]));
    const open = () => { page.env = one.env; page.run = place; page.hidden.clear(); render(); document.getElementById("run").scrollIntoView(); };
    const round = known(one.rounds) && one.state !== "finished" && one.rounds ? `, round ${one.rounds}${one.planned ? ` of ${one.planned}` : ""}` : "";
    return [place < 0 ? one.name : h("button", { type: "button", class: "toggle link", onclick: open }, one.name), h("span", { class: `status ${STATES[one.state]}` }, one.state, round), num(one.score), spark(one), whole(one.labels),
      one.env, `${one.learner}${one.seed === null || one.seed === undefined ? "" : `, seed ${one.seed}`}`];
  });
  const going = runs.filter((one) => one.state === "running").length, stopped = runs.filter((one) => one.state === "stopped").length;
  const counts = [many(runs.length, "run"), going ? `${going} running` : null, stopped ? `${stopped} stopped without an end` : null].filter(Boolean);
  return section("overview", "Runs", note(`${counts.join(", ")}. Bars are the returns on the way or, where they were not measured, the losses.`),
    table(["Run", "State", "Return", "", "Labels", "Environment", "Learner"], rows, { label: "All runs", numbers: false }),
    runs.length > most && !page.every ? h("button", { type: "button", class: "plain", onclick: () => { page.every = true; renew("overview"); } }, `Show all ${runs.length} runs`) : null);
}
