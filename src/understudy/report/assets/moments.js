// The moments in which policy and expert disagree most: a picture, both actions, and a clip that one may step through.

const still = window.matchMedia("(prefers-reduced-motion: reduce)");

function film(clip, words) {
  const view = h("div", { class: "film", role: "img", "aria-label": words, style: { "aspect-ratio": `${clip.width} / ${clip.height}`,
    "background-image": `url(${clip.image})`, "background-size": `${100 * clip.columns}% ${100 * clip.lines}%` } });
  const show = (tile) => {
    const [x, y] = [tile % clip.columns, Math.floor(tile / clip.columns)];
    view.style.backgroundPosition = `${clip.columns > 1 ? (100 * x) / (clip.columns - 1) : 0}% ${clip.lines > 1 ? (100 * y) / (clip.lines - 1) : 0}%`;
    view.classList.toggle("at", tile === clip.at);
    slide.value = String(tile);
  };
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  const start = () => {
    let tile = Number(slide.value) >= clip.tiles - 1 ? 0 : Number(slide.value);
    let pause = 0;
    play.textContent = "Stop";
    timer = setInterval(() => {
      if (!view.isConnected) return stop();
      if (pause > 0) { pause -= 1; return undefined; }
      show(tile);
      if (tile === clip.at) pause = 6;
      if (tile === clip.tiles - 1) return stop();
      tile += 1;
      return undefined;
    }, still.matches ? 400 : 1000 / Math.min(clip.rate, 15));
  };
  const slide = h("input", { type: "range", min: 0, max: clip.tiles - 1, value: clip.at, "aria-label": "Picture of the clip", oninput: (event) => { if (timer) stop(); show(Number(event.target.value)); } });
  const play = h("button", { type: "button", class: "plain small", onclick: () => (timer ? stop() : start()) }, "Play");
  show(clip.at);
  return [view, h("div", { class: "film-controls" }, play, slide)];
}

// Both actions: words for choices, and for numbers a line per dimension with two marks.
function actions(moment) {
  if (moment.choices) {
    return h("dl", { class: "acts" }, h("dt", {}, h("i", { class: "dot", style: { "--c": visible("#0072B2") } }), "policy"), h("dd", {}, moment.mine.join(", ")),
      h("dt", {}, h("i", { class: "dot ring", style: { "--c": visible("#D55E00") } }), "expert"), h("dd", {}, moment.theirs.join(", ")));
  }
  const [low, high] = moment.range;
  const place = (value) => `${Math.max(0, Math.min(100, (100 * (value - low)) / (high - low || 1)))}%`;
  return h("div", { class: "gaps" }, moment.mine.map((mine, at) => {
    const theirs = moment.theirs[at];
    const [from, to] = [Math.min(mine, theirs), Math.max(mine, theirs)];
    return h("div", { class: "gap", title: `dimension ${moment.dimensions[at] + 1}: policy ${num(mine, 3)}, expert ${num(theirs, 3)}` },
      h("span", { class: "soft" }, moment.dimensions[at] + 1),
      h("span", { class: "gap-track" }, h("i", { class: "gap-span", style: { left: place(from), right: `calc(100% - ${place(to)})` } }),
        h("i", { class: "dot", style: { "--c": visible("#0072B2"), left: place(mine) } }), h("i", { class: "dot ring", style: { "--c": visible("#D55E00"), left: place(theirs) } })),
      h("span", { class: "gap-text" }, `${num(mine, 2)} / ${num(theirs, 2)}`));
  }));
}

function moments(run) {
  if (run.study) return part("The worst moments", note("A study keeps no samples. Train the run again with the command below and --out, and its moments are shown."));
  const found = run.moments || [];
  if (!found.length) {
    const apart = run.compared && Object.values(run.compared.sides).some((side) => side.differs > 0);
    return run.compared ? part("The worst moments", note(apart ? "None is shown here." : "Policy and expert agree in all labelled states.")) : null;
  }
  const clips = found.filter((each) => each.clip).length;
  const cards = found.map((each, at) => {
    const where = `round ${each.round}, step ${each.step + 1} of episode ${each.episode + 1}${each.slot ? `, environment ${each.slot + 1}` : ""}`;
    return h("article", { class: "moment", "aria-label": `Moment ${at + 1}` },
      each.clip ? film(each.clip, `What the environment shows in ${where}`) : clips ? h("div", { class: "film empty" }, "no picture") : null,
      h("p", { class: "moment-where" }, h("b", {}, `${at + 1}`), ` ${where[0].toUpperCase()}${where.slice(1)}`),
      actions(each),
      h("p", { class: "soft small" }, `${each.choices ? `divergence ${num(each.away, 3)}` : `distance ${num(each.away, 3)}`}; ${each.by_expert ? "the expert" : "the policy"} was acting`));
  });
  return part("The worst moments",
    note("Labelled states of the run in which the kept policy is farthest from the expert, never two within 40 steps. ", found[0].choices ? "" : "Filled marks are the policy, rings the expert, by action dimension. ",
      clips ? "The clip shows what was played then; an outlined picture is the moment itself." : ""),
    run.drawing ? note(`${clips ? "Some pictures" : "Pictures"} are missing: ${run.drawing}`) : null,
    h("div", { class: "moments" }, cards));
}
