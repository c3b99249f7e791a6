"use strict";
// The chart: lines with bands, markers, stars, and a tooltip that mouse, finger and keys can reach.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = { "-": "", "--": "7 4", ":": "2 4", "-.": "8 3 2 3" };

function el(name, given = {}, ...inside) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...inside);
  return node;
}

function svg(name, given = {}, ...inside) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(given)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

// A colour by its name in the style sheet, where dark pages have lighter ones.
function ink(colour) {
  return `var(--c${colour.slice(1)}, ${colour})`;
}

function mark(marker, x, y, r, colour, filled) {
  const at = (dx, dy) => `${(x + dx * r).toFixed(1)},${(y + dy * r).toFixed(1)}`;
  const shapes = {
    o: null,
    s: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    "^": [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]],
    v: [[0, 1.15], [1.1, -0.85], [-1.1, -0.85]],
    D: [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
  };
  let node;
  if (marker === "x" || marker === "P") {
    const arms = marker === "x" ? [[-1, -1, 1, 1], [-1, 1, 1, -1]] : [[-1.2, 0, 1.2, 0], [0, -1.2, 0, 1.2]];
    node = svg("path", { d: arms.map((a) => `M${at(a[0], a[1])}L${at(a[2], a[3])}`).join("") });
    node.style.strokeWidth = "2.4";
  } else if (marker === "*") {
    const star = [...Array(10).keys()].map((k) => {
      const turn = (Math.PI * k) / 5;
      const out = k % 2 ? 0.6 : 1.5;
      return at(out * Math.sin(turn), -out * Math.cos(turn));
    });
    node = svg("polygon", { points: star.join(" ") });
  } else if (shapes[marker]) {
    node = svg("polygon", { points: shapes[marker].map((p) => at(p[0], p[1])).join(" ") });
  } else {
    node = svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r });
  }
  node.classList.add("mark");
  node.style.stroke = ink(colour);
  node.style.fill = filled ? ink(colour) : "var(--paper)";
  return node;
}

function swatch(line) {
  const node = svg("svg", { class: "swatch", width: 34, height: 14, "aria-hidden": "true" });
  const stroke = svg("line", { x1: 1, x2: 33, y1: 7, y2: 7, "stroke-dasharray": DASHES[line.dash] });
  stroke.style.stroke = ink(line.colour);
  if (!line.bare) node.append(stroke);
  node.append(mark(line.marker, 17, 7, 4, line.colour, line.filled));
  return node;
}

// A scale: where a value lies between `from` and `to` pixels, and which ticks to write.
function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (v) => v;
  let [a, b] = [f(low), f(high)];
  if (a === b) {
    const room = log ? 0.3 : Math.abs(a) * 0.05 || 0.5;
    [a, b] = [a - room, b + room];
  }
  const at = (value) => from + ((f(value) - a) / (b - a)) * (to - from);
  return { at, ticks: log ? decades(a, b) : steps(a, b) };
}

function steps(a, b) {
  const raw = (b - a) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(a / step - 1e-9); k * step <= b + 1e-9 * step; k++) ticks.push(k * step);
  return ticks;
}

function decades(a, b) {
  const few = b - a > 2.2 ? [1] : b - a > 0.9 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const ticks = [];
  for (let k = Math.floor(a); k <= Math.ceil(b); k++) {
    for (const m of few) {
      const value = Number((m * 10 ** k).toPrecision(6));
      if (Math.log10(value) >= a - 1e-9 && Math.log10(value) <= b + 1e-9) ticks.push(value);
    }
  }
  return ticks.length > 1 ? ticks : steps(10 ** a, 10 ** b).filter((v) => v > 0);
}

function plain(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

// Draw `model` into `box`. Returns where each point lies, for the tooltip.
// model: {title, description, xTitle, yTitle, logX, logY, labels, lines, stars, format, crowded,
// floor and ceiling of the values shown}; `lowest` is added, where the chart starts
// lines: {key, line, name, points: [{x, y, low, high, ...}], banded}
function draw(box, model) {
  const width = Math.max(280, box.clientWidth);
  const narrow = width < 520;
  const height = narrow ? 330 : 440;
  const frame = { left: narrow ? 48 : 64, right: width - 14, top: 28, bottom: height - 46 };
  const picture = svg("svg", { role: "img", "aria-labelledby": "chart-title chart-desc", width, height, viewBox: `0 0 ${width} ${height}` });
  picture.append(svg("title", { id: "chart-title" }, model.title), svg("desc", { id: "chart-desc" }, model.description));
  const points = model.lines.flatMap((one) => one.points);
  if (!points.length && !model.stars.length) {
    picture.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "Nothing to draw: switch on a method below."));
    box.replaceChildren(picture);
    return [];
  }
  const along = [...points, ...model.stars].map((p) => p.x).filter((x) => x !== null);
  const [xLow, xHigh] = along.length ? [Math.min(...along), Math.max(...along)] : [1, 1];
  const [yLow, yHigh] = extent(points, model);
  model.lowest = yLow;
  const x = scale(xLow, xHigh, frame.left + 14, frame.right - 14, model.logX);
  const y = scale(yLow, yHigh, frame.bottom - 10, frame.top + 10, model.logY);
  axes(picture, frame, x, y, model, [...new Set(along)].sort((a, b) => a - b));

  const layer = svg("g", { class: "lines" });
  picture.append(layer);
  const spots = [];
  const bottom = model.logY ? yLow / 10 : -Infinity;
  const inside = svg("clipPath", { id: "inside" }, svg("rect", { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top }));
  const bands = svg("g", { class: "bands", "clip-path": "url(#inside)" });
  // marks may stand out of the frame, but what lies below it is not drawn
  const marks = svg("clipPath", { id: "marks" }, svg("rect", { x: 0, y: 0, width, height: frame.bottom }));
  picture.append(inside, marks);
  layer.append(bands);
  for (const one of model.lines) {
    const group = svg("g", { class: "line", "data-key": one.key, "clip-path": "url(#marks)" });
    const level = one.points.length === 1 && one.points[0].x === null;
    const at = level
      ? [frame.left, frame.right].map((px) => [px, y.at(one.points[0].y)])
      : one.points.map((p) => [x.at(p.x), y.at(p.y)]);
    const wide = one.points.filter((p) => Number.isFinite(p.low));
    if (wide.length) {
      const px = (p, k) => (level ? [frame.left, frame.right][k] : x.at(p.x));
      const ends = level ? [wide[0], wide[0]] : wide;
      const up = ends.map((p, k) => `${px(p, k).toFixed(1)},${y.at(p.high).toFixed(1)}`);
      const down = ends.map((p, k) => `${px(p, k).toFixed(1)},${y.at(Math.max(p.low, bottom)).toFixed(1)}`).reverse();
      const band = svg("polygon", { class: model.crowded && !one.banded ? "band hidden" : "band", "data-key": one.key, points: [...up, ...down].join(" ") });
      band.style.fill = ink(one.line.colour);
      bands.append(band);
    }
    const path = svg("polyline", { points: at.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" "), "stroke-dasharray": DASHES[one.line.dash] });
    path.style.stroke = ink(one.line.colour);
    group.append(path);
    one.points.forEach((point, k) => {
      if (point.y < yLow) return;
      const [px, py] = level ? [(frame.left + frame.right) / 2, at[0][1]] : at[k];
      group.append(mark(one.line.marker, px, py, narrow ? 3.6 : 4.4, one.line.colour, one.line.filled));
      spots.push({ px, py, one, point });
    });
    layer.append(group);
  }
  for (const star of model.stars.filter((one) => one.y >= yLow)) {
    const [px, py] = [star.x === null ? frame.right - 14 : x.at(star.x), y.at(star.y)];
    const node = mark("*", px, py, 5.5, star.colour, true);
    node.classList.add("star");
    picture.append(node);
    spots.push({ px, py, star });
  }
  picture.append(svg("circle", { class: "ring", r: 10, cx: -99, cy: -99 }));
  box.replaceChildren(picture);
  return spots;
}

// How far up and down: all means, and of the bands as much as leaves room for the means.
function extent(points, model) {
  const [f, back] = model.logY ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
  const means = [...points, ...model.stars].map((p) => f(p.y)).filter((v) => v >= model.floor);
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const bands = points.flatMap((p) => [p.low, p.high]).filter((v) => Number.isFinite(v) && (!model.logY || v > 0)).map(f)
    .map((v) => Math.max(v, model.floor));
  const room = low === high ? Infinity : 0.3 * (high - low);
  return [Math.max(Math.min(low, ...bands), low - room), Math.min(Math.max(high, ...bands), high + room, Math.max(f(model.ceiling), high))].map(back);
}

function axes(picture, frame, x, y, model, places) {
  const put = (words, px, py, anchor, more = {}) =>
    picture.append(svg("text", { x: px.toFixed(1), y: py.toFixed(1), "text-anchor": anchor, ...more }, words));
  const grid = (x1, y1, x2, y2) => picture.append(svg("line", { class: "grid", x1, y1, x2, y2 }));
  for (const tick of y.ticks) {
    const py = y.at(tick);
    grid(frame.left, py, frame.right, py);
    put(model.format(tick), frame.left - 6, py + 4, "end");
  }
  const ticks = places.length <= 9 ? places : x.ticks;
  let last = -99;
  for (const tick of ticks) {
    const px = x.at(tick);
    grid(px, frame.top, px, frame.bottom);
    const words = model.labels.length ? model.labels[tick] : plain(tick);
    const room = 7 * words.length + 8;
    if (px - last < room) continue;
    put(words, px, frame.bottom + 18, "middle");
    last = px;
  }
  picture.append(svg("rect", { class: "frame", x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top }));
  put(model.yTitle, 4, 16, "start", { class: "axis" });
  put(model.xTitle, (frame.left + frame.right) / 2, frame.bottom + 38, "middle", { class: "axis" });
}
