// Controls, legend, tooltip and tables. Texts from the data go in as text, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const WORDS = data.relations;
const X_TITLES = { epsilon: "ε", at: "updates done", n: "training rows", d: "columns", alpha: "penalty α" };

function number(value, measure) {
  if (value === null || value === undefined) return "–";
  const of = data.measures[measure];
  if (of && of.percent) return `${(100 * value).toFixed(2)} %`;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace("e+", "e");
  return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

function apart(value, measure) {
  if (value === null || value === undefined) return "–";
  const sign = value > 0 ? "+" : value < 0 ? "−" : "±";
  const size = Math.abs(value);
  if (data.measures[measure].percent) return `${sign}${(100 * size).toFixed(2)} points`;
  return `${sign}${number(size, "")}`;
}

const unique = (values) => [...new Set(values)];

// Fill a <select>, keep what was chosen if it is still there, and say what is chosen now.
function fill(select, options, wanted) {
  const kept = wanted ?? select.value;
  select.replaceChildren(...options.map(([value, words]) => el("option", { value }, words)));
  const there = options.some(([value]) => String(value) === String(kept));
  if (options.length) select.value = there ? kept : options[0][0];
  select.closest("label").hidden = options.length < 2 && select.dataset.optional === "yes";
  return select.value;
}

// ---------------------------------------------------------------- curves

const FEW_LINES = 12;
const BANDED = 6;
const PALETTE = ["#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"];
const MARKERS = ["o", "s", "^", "v", "D", "x", "P"];

// What a reader has switched on or off is kept by name; `rule` decides about all else.
const chosen = {
  switched: new Map(), rule: (line) => line.first,
  stars: true, logX: true, logY: false, experiment: null, panel: null, measure: null,
};
let spots = [];
let current = -1;

const keyOf = (series) => `${series.line}|${series.extra}`;
const isShown = (series) => chosen.switched.get(keyOf(series)) ?? chosen.rule(data.lines[series.line]);
const nameOf = (series) => [data.lines[series.line].title, series.extra].filter(Boolean).join(", ");

// How a series is drawn: as its method is, but several of one method must be told apart.
function lookOf(series) {
  const line = data.lines[series.line];
  const family = chosen.panel.series.filter((other) => other.line === series.line);
  if (family.length < 2) return line;
  const k = family.indexOf(series);
  const others = chosen.panel.series.filter((other) => other.extra && data.lines[other.line].kind !== "baseline");
  const alone = line.kind !== "baseline" && unique(others.map((other) => other.line)).length < 2;
  return { ...line, marker: MARKERS[k % MARKERS.length], colour: alone ? PALETTE[k % PALETTE.length] : line.colour };
}

function choose() {
  const experiment = data.experiments[Number(fill(byId("experiment"), data.experiments.map((e, k) => [k, e.title ? `${e.name}: ${e.title}` : e.name])))];
  const fresh = experiment !== chosen.experiment;
  let left = experiment.panels;
  for (const [id, name] of [["data-set", "data"], ["loss", "loss"], ["relation", "relation"]]) {
    const value = fill(byId(id), unique(left.map((p) => p[name])).map((v) => [v, name === "relation" ? WORDS[v] || v : v]));
    left = left.filter((p) => p[name] === value);
  }
  const facet = (p) => experiment.facets.map((f) => `${X_TITLES[f] || f} = ${plain(p.facet[f])}`).join(", ");
  const facets = unique(left.map(facet));
  const which = fill(byId("facet"), facets.map((v) => [v, v]));
  const panel = left.find((p) => facet(p) === which) || null;
  const measures = experiment.measures.filter((m) => panel && panel.series.some((s) => s.points[m]));
  const measure = fill(byId("measure"), measures.map((m) => [m, data.measures[m].title]), fresh ? experiment.first[0] : undefined);
  if (fresh) chosen.logX = experiment.logX;
  if (fresh || measure !== chosen.measure) {
    chosen.logY = data.measures[measure]?.log || (measure === experiment.first[0] && experiment.logY);
  }
  Object.assign(chosen, { experiment, panel, measure });
  byId("question").textContent = [experiment.question, experiment.source && `Source: ${experiment.source}.`].filter(Boolean).join(" ");
  byId("notes").hidden = !(experiment.notes || []).length;
  byId("notes").querySelector("ul").replaceChildren(...(experiment.notes || []).map((words) => el("li", {}, words)));
}

function model() {
  const { experiment, panel, measure } = chosen;
  const of = data.measures[measure] || { title: "", percent: false };
  const logX = chosen.logX && !experiment.labels.length;
  let lost = 0;
  const seen = (x, y) => {
    const fine = y !== null && (!chosen.logY || y > 0) && (!logX || x === null || x > 0);
    if (!fine) lost += 1;
    return fine;
  };
  const lines = (panel ? panel.series : [])
    .filter((series) => series.points[measure] && isShown(series))
    .map((series) => ({
      key: keyOf(series), line: lookOf(series), name: nameOf(series),
      points: pointsOf(series, measure).filter((p) => seen(p.x, p.y)),
    }));
  const stars = (chosen.stars ? published() : [])
    .map(([name, colour, x, y, source]) => ({ name, colour, x, y, source }))
    .filter((p) => seen(p.x, p.y));
  const where = panel ? `${panel.data}, ${panel.loss} loss, ${WORDS[panel.relation] || panel.relation}` : "no result";
  const xTitle = X_TITLES[experiment.x] || experiment.x;
  const crowded = lines.length > FEW_LINES;
  const floor = crowded && of.bounded && !chosen.logY ? floorOf(lines) : -Infinity;
  if (crowded) bestOf(lines, of.more).forEach((one, k) => { one.banded = k < BANDED; });
  return {
    title: `${of.title} over ${xTitle}: ${where}`,
    description: `${lines.length} lines with 95 % bands of the mean. ${best(lines, measure)} All numbers are in the table below.`,
    xTitle: `${xTitle}${logX ? " (log scale)" : ""}`,
    yTitle: `${of.title}${of.percent ? ", %" : ""}${chosen.logY ? " (log scale)" : ""}, ${of.more ? "higher" : "lower"} is better`,
    logX, logY: chosen.logY, labels: experiment.labels, lines, stars, lost, crowded, floor, ceiling: of.bounded ? 1 : Infinity,
    format: (v) => (of.percent ? plain(Number((100 * v).toPrecision(6))) : plain(v)),
  };
}

// The lines from best to worst, by their mean place among those at the same x; level lines last.
function bestOf(lines, more) {
  const places = new Map(lines.map((one) => [one, []]));
  for (const x of unique(lines.flatMap((one) => one.points.map((p) => p.x))).filter((v) => v !== null)) {
    const there = lines.map((one) => [one, one.points.find((p) => p.x === x)]).filter(([, p]) => p);
    there.sort(([, a], [, b]) => (more ? b.y - a.y : a.y - b.y));
    there.forEach(([one], k) => places.get(one).push(k / there.length));
  }
  const mean = (one) => (places.get(one).length ? places.get(one).reduce((a, b) => a + b) / places.get(one).length : 2);
  return [...lines].sort((a, b) => mean(a) - mean(b));
}

// Where a crowded chart starts: at what a quarter of the lines do not reach at the smallest x, or
// at the lowest mean of all if that costs little height.
function floorOf(lines) {
  const all = lines.flatMap((one) => one.points);
  const along = all.filter((p) => p.x !== null);
  if (!along.length) return -Infinity;
  const left = Math.min(...along.map((p) => p.x));
  const first = along.filter((p) => p.x === left).map((p) => p.y).sort((a, b) => a - b);
  const floor = first[Math.floor((first.length - 1) / 4)];
  const [low, high] = [Math.min(...all.map((p) => p.y)), Math.max(...all.map((p) => p.y))];
  return high - low <= 2 * (high - floor) ? -Infinity : floor - 0.06 * (high - floor);
}

function published() {
  return (chosen.panel && chosen.panel.published[chosen.measure]) || [];
}

function pointsOf(series, measure) {
  const [xs, means, sds, counts] = series.points[measure];
  const spent = series.points.epsilon_spent;
  return xs.map((x, k) => {
    const half = counts[k] > 1 && sds[k] !== null ? (data.quantiles[counts[k]] * sds[k]) / Math.sqrt(counts[k]) : NaN;
    return {
      x, y: means[k], sd: sds[k], count: counts[k], low: means[k] - half, high: means[k] + half,
      spent: spent ? spent[1][spent[0].indexOf(x)] ?? null : null,
    };
  });
}

function best(lines, measure) {
  const ends = lines.filter((one) => one.line.kind === "private" && one.points.length).map((one) => [one.name, one.points[one.points.length - 1].y]);
  if (!ends.length) return "No private method is shown.";
  ends.sort((a, b) => (data.measures[measure].more ? b[1] - a[1] : a[1] - b[1]));
  return `At the right end the best private method shown is ${ends[0][0]} with ${number(ends[0][1], measure)}.`;
}

function interval(point, measure) {
  return Number.isFinite(point.low) ? `${number(point.low, measure)} to ${number(point.high, measure)}` : "–";
}

function told(spot) {
  const { experiment, measure } = chosen;
  const at = (x) => (x === null ? "" : `${X_TITLES[experiment.x] || experiment.x} = ${experiment.labels.length ? experiment.labels[x] : plain(x)}`);
  if (spot.star) {
    return [`${spot.star.name}, as published`, at(spot.star.x), `${data.measures[measure].title}: ${number(spot.star.y, measure)}`, spot.star.source];
  }
  const p = spot.point;
  const spread = p.count > 1 ? ` ± ${number(p.sd, measure)} (sd)` : "";
  return [
    spot.one.name,
    at(p.x),
    `${data.measures[measure].title}: ${number(p.y, measure)}${spread}`,
    p.count > 1 ? `95 % interval of the mean: ${interval(p, measure)}` : "",
    `${p.count} ${p.count === 1 ? "run" : "repeats"}`,
    p.spent === null ? "" : `ε spent: ${number(p.spent, "")}`,
  ];
}

function point(k) {
  const tip = byId("tip");
  const ring = byId("chart").querySelector(".ring");
  current = k;
  for (const node of byId("chart").querySelectorAll(".faint, .near")) node.classList.remove("faint", "near");
  if (k < 0 || !spots[k]) {
    tip.hidden = true;
    tip.replaceChildren();
    if (ring) { ring.setAttribute("cx", -99); ring.setAttribute("cy", -99); }
    return;
  }
  const spot = spots[k];
  ring.setAttribute("cx", spot.px);
  ring.setAttribute("cy", spot.py);
  const [first, ...rest] = told(spot).filter(Boolean);
  tip.replaceChildren(el("strong", {}, first), ...rest.map((words) => el("span", {}, words)));
  tip.hidden = false;
  const room = byId("chart").clientWidth;
  tip.style.left = `${Math.max(0, Math.min(room - tip.offsetWidth, spot.px + (spot.px > room / 2 ? -tip.offsetWidth - 16 : 16)))}px`;
  tip.style.top = `${Math.max(0, spot.py - tip.offsetHeight - 14)}px`;
  if (spot.one) faint(spot.one.key);
}

function faint(key) {
  for (const node of byId("chart").querySelectorAll("[data-key]")) {
    node.classList.toggle("faint", node.dataset.key !== key);
    node.classList.toggle("near", node.dataset.key === key);
  }
}

function nearest(event) {
  const box = byId("chart").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let found = [-1, 28];
  spots.forEach((spot, k) => {
    const far = Math.hypot(spot.px - x, spot.py - y);
    if (far < found[1]) found = [k, far];
  });
  if (found[0] !== current) point(found[0]);
}

// Arrows: left and right along a line, up and down between what stands in one place.
function key(event) {
  if (event.key === "Escape") return point(-1);
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key) || !spots.length) return undefined;
  event.preventDefault();
  if (current < 0) return point(0);
  const here = spots[current];
  const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
  if (event.key === "Home" || event.key === "End") return point(event.key === "Home" ? 0 : spots.length - 1);
  const along = spots.map((s, k) => [s, k]).filter(([s]) => (sideways ? s.one === here.one : Math.abs(s.px - here.px) < 0.5));
  along.sort(([a], [b]) => (sideways ? a.px - b.px : b.py - a.py));
  const next = along.findIndex(([, k]) => k === current) + (event.key === "ArrowRight" || event.key === "ArrowUp" ? 1 : -1);
  return along[next] ? point(along[next][1]) : undefined;
}

function redraw() {
  const drawn = model();
  spots = draw(byId("chart-picture"), drawn);
  point(-1);
  const below = drawn.lines.filter((one) => one.points.some((p) => p.y < drawn.lowest)).length;
  byId("lost").textContent = [
    drawn.crowded ? `Of so many lines the ${BANDED} best have a band, and others when they are pointed at.` : "",
    below ? `${below} ${below === 1 ? "line goes" : "lines go"} below the chart and ${below === 1 ? "is" : "are"} cut there; all numbers are in the table.` : "",
    drawn.lost ? `${drawn.lost} points at or below 0 have no place on a log scale and are left out.` : "",
  ].filter(Boolean).join(" ");
  for (const [id, on] of [["log-x", drawn.logX], ["log-y", drawn.logY]]) byId(id).setAttribute("aria-pressed", String(on));
  byId("log-x").disabled = chosen.experiment.labels.length > 0;
  byId("stars").hidden = !drawn.stars.length;
  for (const button of byId("legend").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.series ? isShown(button.series) : chosen.stars));
}

function legend() {
  const groups = Object.entries(data.groups).map(([group, words]) => {
    const there = (chosen.panel ? chosen.panel.series : []).filter((series) => data.lines[series.line].group === group);
    if (!there.length) return null;
    return el("div", { class: "kind", role: "group", "aria-label": words }, el("p", {}, words), ...there.map(toggle));
  });
  if (published().length) {
    const look = { dash: "-", colour: "#666666", marker: "*", filled: true, bare: true };
    const button = el("button", { type: "button" }, swatch(look), el("span", {}, "numbers that papers print"));
    button.addEventListener("click", () => {
      chosen.stars = !chosen.stars;
      redraw();
    });
    groups.push(el("div", { class: "kind", role: "group", "aria-label": "As published" }, el("p", {}, "As published"), button));
  }
  byId("legend").replaceChildren(...groups.filter(Boolean));
}

function toggle(series) {
  const button = el("button", { type: "button", "data-series": keyOf(series) }, swatch(lookOf(series)), el("span", {}, nameOf(series)));
  button.series = series;
  button.addEventListener("click", () => {
    chosen.switched.set(keyOf(series), !isShown(series));
    redraw();
  });
  button.addEventListener("mouseenter", () => { if (isShown(series)) faint(keyOf(series)); });
  button.addEventListener("mouseleave", () => point(-1));
  return button;
}

function numbers() {
  const { panel, measure, experiment } = chosen;
  const rows = (panel ? panel.series : []).filter((s) => s.points[measure]).flatMap((series) => {
    return pointsOf(series, measure).map((p) => [
      nameOf(series), data.kinds[data.lines[series.line].kind],
      p.x === null ? "–" : experiment.labels.length ? experiment.labels[p.x] : plain(p.x),
      number(p.y, measure), p.count > 1 ? number(p.sd, measure) : "–", interval(p, measure), p.count, number(p.spent, ""),
    ]);
  });
  for (const [name, , x, y, source] of published()) {
    rows.push([name, `as published: ${source}`, x === null ? "–" : plain(x), number(y, measure), "–", "–", "–", "–"]);
  }
  const heads = ["method", "kind", X_TITLES[experiment.x] || experiment.x, "mean", "sd", "95 % interval", "repeats", "ε spent"];
  table(byId("numbers"), heads, rows, panel ? model().title : "no result", 2);
}

function table(box, heads, rows, caption, firstNumber, classes = () => "") {
  const number = (k) => (k >= firstNumber ? "number" : "");
  const body = rows.map((row, r) => el("tr", { class: classes(r) }, ...row.map((cell, k) => {
    const node = k === 0 ? el("th", { scope: "row" }) : el("td", { class: number(k) });
    node.append(...(Array.isArray(cell) ? cell : [String(cell)]));
    return node;
  })));
  box.replaceChildren(el("table", {},
    el("caption", {}, el("span", {}, caption)),
    el("thead", {}, el("tr", {}, ...heads.map((words, k) => el("th", { scope: "col", class: number(k) }, words)))),
    el("tbody", {}, ...body)));
}

function everything() {
  choose();
  legend();
  redraw();
  numbers();
}
