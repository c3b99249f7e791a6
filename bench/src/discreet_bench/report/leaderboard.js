// The leaderboard, and the start of everything.

const ALL = "(all)";
const SHORT = { add_remove: "add or remove", replace_one: "replace" };
const FILTERS = [["board-experiment", "experiment"], ["board-data", "data"], ["board-relation", "relation"]];

function leaderboard() {
  const measure = byId("board-measure").value;
  const rows = data.board.filter((row) => row.measure === measure
    && FILTERS.every(([id, name]) => byId(id).value === ALL || row[name] === byId(id).value));
  const several = unique(rows.map((row) => row.experiment)).length > 1;
  const losses = unique(rows.map((row) => row.loss)).length > 1;
  const cell = (row) => [row.experiment, row.data, row.loss, row.relation, row.epsilon].join("|");
  const twice = unique(rows.map(cell)).length < rows.length;
  const deltas = twice && unique(rows.map((row) => `${cell(row)}|${row.delta}`)).length > unique(rows.map(cell)).length;
  const alphas = twice && unique(rows.map((row) => `${cell(row)}|${row.alpha}`)).length > unique(rows.map(cell)).length;
  const who = ([k, value], title = data.lines[k].title) => [
    el("span", { class: "who" }, swatch(data.lines[k]), el("span", {}, title)), el("span", { class: "value" }, number(value, measure))];
  const tuned = rows.some((row) => row.hindsight);
  const sign = data.measures[measure].more ? 1 : -1;
  const heads = ["data set", ...(several ? ["experiment"] : []), ...(losses ? ["loss"] : []), "neighbours", ...(alphas ? ["penalty α"] : []), ...(deltas ? ["δ"] : []), "ε",
    "best private method", "runner-up", "lead", "discreet's default", "without privacy", ...(tuned ? ["best with hindsight (not private)"] : [])];
  const cells = rows.map((row) => [
    row.data, ...(several ? [row.experiment] : []), ...(losses ? [row.loss] : []), SHORT[row.relation] || row.relation,
    ...(alphas ? [row.alpha === null ? "–" : plain(row.alpha)] : []), ...(deltas ? [row.delta === null ? "–" : plain(row.delta)] : []), plain(row.epsilon),
    who(row.best),
    row.second ? who(row.second) : "no other",
    row.second ? [el("span", { class: "value" }, apart(row.margin, measure)), ...verdict(row.clear, row.p)] : "–",
    row.default === null ? "–" : row.best[1] === row.default ? "is the best" : [
      el("span", { class: "value" }, number(row.default, measure)), el("span", { class: "soft apart" }, apart(sign * (row.default - row.best[1]), measure)),
      ...verdict(row.worse, row.defaultP)],
    row.baseline === null ? "–" : [
      el("span", { class: "value" }, number(row.baseline, measure)), el("span", { class: "soft apart" }, apart(sign * (row.baseline - row.best[1]), measure))],
    ...(tuned ? [row.hindsight ? [...who(row.hindsight, data.lines[row.hindsight[0]].short), el("span", { class: "soft" }, row.setting)] : "–"] : []),
  ]);
  const caption = `Best private methods by ${data.measures[measure].title}, means over the repeats. `
    + "Differences are to the best private method; plus is better. p is corrected for all comparisons of the experiment.";
  table(byId("board"), heads, cells, caption, 99, (r) => (data.lines[rows[r].best[0]].title === "discreet" ? "ours" : ""));
  const all = data.board.filter((row) => row.measure === measure).length;
  byId("board-count").textContent = `${rows.length} of ${all} comparisons`;
}

function verdict(clear, value) {
  const words = clear ? "significant" : "within chance";
  const p = value === null ? "" : value < 1e-4 ? "p < 0.0001" : `p = ${plain(value)}`;
  return [el("span", { class: clear ? "yes" : "no" }, words), ...(p ? [el("span", { class: "soft" }, p)] : [])];
}

function start() {
  if (data.experiments.some((e) => e.panels.length)) {
    for (const id of ["experiment", "data-set", "loss", "relation", "facet", "measure"]) byId(id).addEventListener("change", everything);
    for (const [id, name] of [["log-x", "logX"], ["log-y", "logY"]]) {
      byId(id).addEventListener("click", () => {
        chosen[name] = !chosen[name];
        redraw();
      });
    }
    const show = (rule, stars) => () => {
      chosen.switched.clear();
      chosen.rule = rule;
      chosen.stars = stars;
      redraw();
    };
    byId("only-private").addEventListener("click", show((line) => line.kind === "private", true));
    byId("all").addEventListener("click", show(() => true, true));
    byId("none").addEventListener("click", show(() => false, false));
    const chart = byId("chart");
    chart.addEventListener("pointermove", nearest);
    chart.addEventListener("pointerdown", nearest);
    chart.addEventListener("pointerleave", () => point(-1));
    chart.addEventListener("keydown", key);
    chart.addEventListener("focus", () => { if (chart.matches(":focus-visible") && spots.length) point(0); });
    chart.addEventListener("blur", () => point(-1));
    let wide = 0;
    new ResizeObserver(() => {
      const now = byId("chart-picture").clientWidth;
      if (now !== wide) { wide = now; redraw(); }
    }).observe(byId("chart-picture"));
    everything();
  }
  if (data.board.length) {
    const there = unique(data.board.map((row) => row.measure));
    fill(byId("board-measure"), there.map((m) => [m, data.measures[m].title]));
    for (const [id, name] of FILTERS) {
      const values = unique(data.board.map((row) => row[name])).map((v) => [v, WORDS[v] || v]);
      fill(byId(id), [[ALL, "all"], ...values]);
      byId(id).closest("label").hidden = values.length < 2;
    }
    for (const id of ["board-measure", ...FILTERS.map(([name]) => name)]) byId(id).addEventListener("change", leaderboard);
    leaderboard();
  }
}

start();
