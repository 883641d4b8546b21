// Puts the page together, keeps it up to date where runs go on, and offers the files.

function verdict(data) {
  const found = data.verdicts.find((one) => one.env === page.env);
  const envs = data.envs.length > 1 ? h("div", { class: "controls" }, choice("Environment", data.envs.map((one) => [one, one]), page.env, (value) => { page.env = value; page.run = 0; page.hidden.clear(); render(); })) : null;
  const groups = shown(data);
  const best = groups[0];
  const tile = (name, value, more) => h("div", { class: "tile" }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), h("span", { class: "tile-more" }, more || ""));
  const shares = known(best.share[0]);
  const tiles = h("div", { class: "tiles" },
    shares ? tile("Score, share of expert", percent(best.share[0]), within(best.share, percent)) : null,
    tile("Return", num(best.return[0]), within(best.return)),
    tile("Expert's return", num(best.expert[0]), !known(best.expert[0]) ? `not measured${best.why ? `: ${best.why}` : ""}` : best["expert measured"] ? within(best.expert) : "its card's, other episodes"),
    known(best.difference[0]) ? tile("Difference from the expert", num(best.difference[0]), within(best.difference)) : null,
    tile("Labels", whole(best.labels_count), `${whole(best.steps)} steps`),
    tile("Time", seconds(best.seconds), best.counted > 1 ? `a run, of ${best.counted}` : "to learn and to judge"),
    tile("Regret", num(best.regret[0]), known(best.regret[0]) ? (best.certified ? "certified" : "estimate") : "not looked for"));
  const { failed = 0, unreadable = 0 } = data.counts;
  const more = failed + unreadable - data.troubles.length;
  const troubles = data.troubles.length ? h("details", { class: "troubles" }, h("summary", {}, `${many(failed + unreadable, "run")} failed or cannot be read`),
    h("ul", {}, data.troubles.map((one) => h("li", {}, h("b", {}, one.name), `: ${one.trouble}`)), more ? h("li", {}, `and ${whole(more)} more, in the tables`) : null)) : null;
  return h("section", { id: "verdict", "aria-label": "Verdict" }, envs, h("p", { class: "sentence" }, unbroken(found.text, page.env)), found.note ? h("p", { class: "sentence-note" }, found.note) : null, best && best.runs ? tiles : null, troubles);
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).blob();
}

const unpacked = {};  // addresses, made once and never revoked: a slow browser begins its download later

async function download(event) {
  const { name, type } = event.currentTarget.dataset;
  const found = () => JSON.parse(document.getElementById("packed").textContent)[name];
  unpacked[name] ??= URL.createObjectURL(new Blob([await unpack(found())], { type }));
  const link = h("a", { href: unpacked[name], download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

function files(data) {
  const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
  return section("files", "Files",
    data.files.length ? h("ul", { class: "files" }, data.files.map((one) => h("li", {}, h("button", { type: "button", class: "plain", "data-name": one.name, "data-type": one.type, onclick: download }, `Download ${one.name}`), h("span", { class: "soft" }, ` ${size(one.size)}: ${one.what}`)))) : note("While runs go on the page offers no files; understudy report makes a page that does."),
    data.files_note ? note(data.files_note) : null,
    note(`Made by understudy ${data.version} on ${data.made}.`, data.live ? "" : " This page needs no network."));
}

const PARTS = { overview, verdict, compare, curves, run: alone, files };

function renew(...names) {
  const focused = document.activeElement && document.activeElement.closest("[id]");
  const kept = focused ? [focused.id, document.activeElement.dataset.value || document.activeElement.textContent] : null;
  for (const name of names) {
    const old = document.getElementById(name);
    const made = PARTS[name](page.data);
    if (old && made) old.replaceWith(made);
    if (made) begin(made);
  }
  if (kept) {
    const home = document.getElementById(kept[0]);
    const again = home && (home.matches("select") ? home : [...home.querySelectorAll("button")].find((each) => (each.dataset.value || each.textContent) === kept[1]));
    if (again) again.focus({ preventScroll: true });
  }
}

function render() {
  const data = page.data;
  if (!data.envs.includes(page.env)) page.env = data.envs[0];
  const made = Object.values(PARTS).map((draw) => draw(data)).filter(Boolean);
  const root = document.getElementById("page");
  root.replaceChildren(...made);
  const links = [["overview", "Runs"], ["compare", "Comparison"], ["curves", "Curves"], ["run", "Run"], ["files", "Files"]].filter(([id]) => document.getElementById(id));
  document.getElementById("links").replaceChildren(...links.map(([id, text]) => h("a", { href: `#${id}` }, text)));
  begin(root);
}

function theme() {
  const dark = document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  repaint();
}

// Everything that has a colour of its own follows the theme.
function repaint() {
  const top = window.scrollY;
  render();
  window.scrollTo(0, top);
}

async function live() {
  const says = document.getElementById("live");
  let mark = page.data.mark, stale = false;
  for (;;) {
    await new Promise((done) => setTimeout(done, 2000));
    try {
      const answer = await fetch(`data?mark=${encodeURIComponent(mark)}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const data = await answer.json();
      if (data.mark !== mark) {
        mark = data.mark;
        const was = page.data.runs[page.run];  // its place may be another one now
        page.data = data;
        page.run = Math.max(0, data.runs.findIndex((one) => was && one.folder === was.folder && one.name === was.name));
        stale = true;
      }
      const { unfinished = 0 } = page.data.counts;
      const going = page.data.going, stopped = unfinished - going;
      says.className = going ? "live on" : "live";
      says.textContent = `live: ${going ? `${many(going, "run")} not finished` : stopped ? "no run goes on" : "all runs are finished"}${stopped ? `, ${stopped} stopped` : ""}`;
      // A list of runs that is open would be closed; the page is drawn when it is left.
      if (stale && !(document.activeElement && document.activeElement.id === "run-choice")) {
        stale = false;
        repaint();
      }
    } catch {
      says.className = "live off";
      says.textContent = "the server does not answer; the page shows what was last known";
    }
  }
}

page.data = JSON.parse(document.getElementById("data").textContent);
document.getElementById("theme").addEventListener("click", theme);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
window.addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); redraw(true); });
window.addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); redraw(); });
if (page.data.live) {  // what goes on is what one wants to see
  page.run = Math.max(0, page.data.runs.findIndex((one) => one.going && one.state === "unfinished"));
  if (page.data.runs[page.run]) page.env = page.data.runs[page.run].env;
}
render();
document.documentElement.dataset.ready = "yes";
if (page.data.live) live();
