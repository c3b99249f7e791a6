"use strict";
// Choose a chart from the page's data and draw it with plotly. Text goes in as text, never as HTML.
const data = JSON.parse(document.getElementById("page-data").textContent);
const names = ["experiment", "data", "problem", "measure"];
const select = Object.fromEntries(names.map((name) => [name, document.getElementById(name)]));
const box = document.getElementById("chart");

function fill(name, values) {
  const kept = select[name].value;
  select[name].replaceChildren(...values.map((value) => {
    const known = name === "experiment" && data.experiments[value];
    return new Option(known && known.title !== value ? `${value}: ${known.title}` : value, value);
  }));
  select[name].value = values.includes(kept) ? kept : values[0];
  select[name].closest("label").hidden = values.length < 2;
}

function chosen() {
  let left = data.charts;
  for (const name of names) {
    fill(name, [...new Set(left.map((chart) => chart.labels[name]))]);
    left = left.filter((chart) => chart.labels[name] === select[name].value);
  }
  return left[0];
}

function draw() {
  const chart = chosen();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const narrow = box.clientWidth < 700;
  const traces = chart.traces.map((trace) => {
    const shown = structuredClone(trace);
    const lighten = (part, key) => { if (dark && part && part[key] === "#000000") part[key] = "#f5f5f5"; };
    lighten(shown.line, "color"); lighten(shown.marker, "color"); lighten(shown, "fillcolor");
    return shown;
  });
  const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, automargin: true };
  const shown = traces.filter((trace) => trace.name).length;
  const layout = {
    ...chart.layout,
    xaxis: { ...axis, ...chart.layout.xaxis, fixedrange: narrow }, yaxis: { ...axis, ...chart.layout.yaxis, fixedrange: narrow },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink"), size: 13, family: "system-ui, sans-serif" },
    margin: { l: 60, r: 10, t: 16, b: 50 }, hovermode: "closest",
    height: narrow ? 380 + 24 * shown : Math.max(420, Math.min(680, innerHeight - box.offsetTop - 24)),
    legend: narrow ? { orientation: "h", y: -0.16, yanchor: "top" } : { x: 1.02, y: 1 },
  };
  const about = data.experiments[chart.labels.experiment];
  document.getElementById("question").textContent = [about.question, about.source && `Source: ${about.source}.`].filter(Boolean).join(" ");
  const what = `${chart.labels.measure}: ${chart.labels.data}, ${chart.labels.problem}`;
  box.setAttribute("aria-label", what);
  box.dataset.lines = traces.filter((trace) => trace.name && trace.visible === true).length;
  Plotly.react(box, traces, layout, { responsive: true, displayModeBar: false });
}

if (data.charts.length) {
  box.replaceChildren();
  for (const name of names) select[name].addEventListener("change", draw);
  addEventListener("resize", draw);
  draw();
  box.on("plotly_legendclick", () => { Plotly.relayout(box, { "yaxis.autorange": true }); });
} else {
  document.getElementById("charts").hidden = true;
}
