// Plots with uPlot: curves are its series; circles, crosses, shading and truths are drawn on top.

/* global uPlot */

import { drawPairs } from "./pairs.js";

const HEIGHT = { prediction: 260, marginal: 130, design: 200, widths: 220 };
const LINES = ["--posterior", "--no", "--yes", "--other", "--ink"];
const plots = new Map(); // id -> { plot, shape }

const colour = (role) => getComputedStyle(document.documentElement).getPropertyValue(role).trim();
const faded = (role, share) => `color-mix(in srgb, ${colour(role)} ${100 * share}%, transparent)`;

export function draw(data, anew = false) {
  if (anew) {
    for (const { plot } of plots.values()) plot.destroy();
    plots.clear();
  }
  drawPrediction(data);
  drawMarginals(data);
  drawPairs(data.pairs);
  drawDesigns(data);
  drawWidths(data);
}

// A plot keeps its place and gets new numbers; a new one is made when its shape changes.
function place(id, box, height, shape, options, values) {
  const known = plots.get(id);
  if (known && known.shape === shape && known.plot.root.isConnected) {
    known.state.data = options.state;
    known.plot.setData(values);
    return;
  }
  known?.plot.destroy();
  const state = { data: options.state };
  const made = new uPlot(
    {
      width: Math.max(box.clientWidth, 120),
      height,
      cursor: { show: false },
      legend: { show: options.named ?? false, live: false },
      padding: [10, 12, 0, 0],
      series: [{}, ...options.series],
      scales: options.scales,
      axes: options.axes,
      hooks: {
        drawClear: options.under ? [(u) => clipped(u, () => options.under(u, state.data))] : [],
        draw: options.over ? [(u) => kept(u, () => options.over(u, state.data))] : [],
      },
    },
    values,
    box,
  );
  plots.set(id, { plot: made, shape, state });
}

function axis(label, more = {}) {
  return {
    label: label || undefined, labelSize: label ? 22 : 0, labelFont: "13px system-ui", font: "12px system-ui",
    size: 30, values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : `${tick}`.replace("-", "−"))),
    stroke: colour("--muted"), grid: { stroke: colour("--faint"), width: 1 },
    ticks: { stroke: colour("--faint"), width: 1, size: 4 }, ...more,
  };
}

const vertical = (label) => axis(label, { size: 50, labelSize: label ? 20 : 0, space: 28 });
const shares = (label) => ({ ...vertical(label), splits: () => [0, 0.25, 0.5, 0.75, 1] });
const whole = (label) => axis(label, { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] });
const noAxis = { show: false };

// A design axis: levels by name where it is a set of values, powers of ten on a log scale.
function designed(one, made) {
  if (one.log) return { ...made, ...powers(one) };
  if (!one.ticks.length) return made;
  const names = new Map(one.ticks);
  return { ...made, splits: () => [...names.keys()], values: (u, at) => at.map((place) => names.get(place) ?? "") };
}

function powers(one) {
  const [first, last] = [Math.ceil(Math.log10(one.low) - 1e-6), Math.floor(Math.log10(one.high) + 1e-6)];
  if (last - first < 1) return {}; // less than a decade: uPlot's own
  return { splits: () => Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i)), filter: (u, at) => at };
}

function designedVertical(one) {
  const widest = Math.max(0, ...one.ticks.map(([, name]) => name.length));
  const made = vertical(one.label);
  return designed(one, { ...made, size: Math.min(110, Math.max(made.size, 16 + 7 * widest)) });
}

const scaleOf = (one, range) => ({ distr: one.log ? 3 : 1, range });
const around = (one) => (one.ticks.length ? [one.low, one.high] : one.log ? [one.low / 1.1, one.high * 1.1] : spread(one.low, one.high));

// uPlot remembers the colours it set: leave them as they were.
function kept(u, work) {
  u.ctx.save();
  u.ctx.setLineDash([]);
  work();
  u.ctx.restore();
}

function clipped(u, work) {
  kept(u, () => {
    u.ctx.beginPath();
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    u.ctx.clip();
    work();
  });
}

function circle(u, x, y, role, filled, radius = 4) {
  const { ctx } = u;
  const scale = devicePixelRatio;
  ctx.beginPath();
  ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), radius * scale, 0, 2 * Math.PI);
  ctx.fillStyle = filled ? colour(role) : colour("--card");
  ctx.strokeStyle = colour(role);
  ctx.lineWidth = 1.6 * scale;
  ctx.fill();
  ctx.stroke();
}

function cross(u, x, y) {
  const { ctx } = u;
  const scale = devicePixelRatio;
  const [a, b, r] = [u.valToPos(x, "x", true), u.valToPos(y, "y", true), 3.5 * scale];
  ctx.beginPath();
  ctx.moveTo(a - r, b - r); ctx.lineTo(a + r, b + r);
  ctx.moveTo(a - r, b + r); ctx.lineTo(a + r, b - r);
  ctx.strokeStyle = colour("--muted");
  ctx.lineWidth = 1.4 * scale;
  ctx.stroke();
}

function upright(u, x, role, dash) {
  const { ctx } = u;
  const at = u.valToPos(x, "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
  ctx.moveTo(at, u.bbox.top);
  ctx.lineTo(at, u.bbox.top + u.bbox.height);
  ctx.strokeStyle = colour(role);
  ctx.lineWidth = 1.4 * devicePixelRatio;
  ctx.stroke();
  ctx.restore();
}

const told = (data) => data.trials.filter((trial) => trial.state === "told");
const round = (value) => Number(value.toPrecision(3));
const spread = (low, high, share = 0.06) => [low - share * (high - low || 1), high + share * (high - low || 1)];

// The expected outcome: a curve over one axis, shading over two.

function drawPrediction(data) {
  const found = data.prediction;
  document.getElementById("prediction-box").hidden = !found;
  if (!found) return;
  const box = document.getElementById("prediction");
  const hint = document.getElementById("prediction-hint");
  if (found.kind === "curve") drawCurve(data, found, box, hint);
  else drawPlane(data, found, box, hint);
  const last = data.asked ? `after ${data.told} observations` : "before any data";
  box.setAttribute("aria-label", `Expected outcome over ${data.axes.map((one) => one.name).join(" and ")}, ${last}`);
}

// A panel for each outcome that is measured.
function drawCurve(data, found, box, hint) {
  hint.textContent = [
    ...new Set(found.panels.map((panel) => explained(panel, data.axes[0].ticks.length > 0))),
    found.panels[0].curves[0].truth ? "Dashed: the truth." : "",
  ].join(" ");
  found.panels.forEach((panel, i) => {
    if (!box.children[i]) box.append(document.createElement("div"));
    drawPanel(data, found.x, panel, box.children[i], i ? `prediction ${panel.name}` : "prediction");
  });
}

function explained(panel, isSet) {
  const { labels } = panel;
  const [line, area] = isSet ? ["circles are", "bars hold"] : ["line is", "band holds"];
  if (!labels.length) return `The ${isSet ? "open " : ""}${line} the mean, the ${area} 95 % of outcomes. Dots are measurements.`;
  const band = panel.low ? ` The ${area} 95 % of the curves that are still possible.` : "";
  const what = labels.length === 2 && panel.curves.length === 1 ? `The probability of a ${labels[1]}.` : "The probability of each answer.";
  return `${what}${band} Circles are answers: ${labels.slice(1).reverse().join(", ")} above, ${labels[0]} below.`;
}

function drawPanel(data, x, panel, box, id) {
  const { name } = data.axes[0];
  const { labels, curves } = panel;
  const isNumber = !labels.length;
  const isSet = data.axes[0].ticks.length > 0; // nothing lies between its values: no line joins them
  const joined = isSet ? { paths: () => null, points: { show: true, size: 9 } } : { points: { show: false } };
  const hidden = { stroke: "transparent", points: { show: false } };
  const series = curves.map((one, i) => ({ stroke: colour(LINES[i % LINES.length]), width: 2.5, label: one.name, ...joined }));
  const values = [x, ...curves.map((one) => one.mean)];
  if (panel.low) {
    series.push(hidden, hidden);
    values.push(panel.low, panel.high);
  }
  for (const one of curves.filter((curve) => curve.truth)) {
    series.push({ stroke: colour("--ink"), width: 1.5, dash: [6, 5], ...joined });
    values.push(one.truth);
  }
  const points = told(data).map((trial) => ({ x: trial.design[name], y: trial.values[panel.name] }));
  const numbers = () => {
    const all = [...values.slice(1).flat(), ...points.map((point) => point.y)].filter(Number.isFinite);
    return spread(Math.min(...all), Math.max(...all));
  };
  const heights = isNumber ? points.map((point) => point.y) : stacked(data.axes[0], points);
  const range = isNumber ? numbers() : [Math.min(-0.07, ...heights) - 0.03, Math.max(1.07, ...heights) + 0.03];
  place(id, box, HEIGHT.prediction, `curve ${series.length}`, {
    state: { points, heights, found: { ...panel, x }, range },
    series,
    scales: { x: { time: false, ...scaleOf(data.axes[0], [data.axes[0].low, data.axes[0].high]) }, y: { range: () => plots.get(id)?.state.data.range ?? range } },
    axes: [designed(data.axes[0], axis(data.axes[0].label)), isNumber ? vertical(panel.axis) : shares(panel.axis)],
    under: (u, state) => state.found.low && (isSet ? bars : band)(u, state.found),
    over: (u, state) => state.points.forEach((point, i) => {
      if (isNumber) circle(u, point.x, point.y, "--no", true);
      else circle(u, point.x, state.heights[i], roleOf(labels, point.y), point.y > 0);
    }),
  }, values);
}

// Answers side by side where there is room, else one upon the other: away from the curve.
const COLUMNS = 80; // circles that fit beside each other
export function stacked(one, points) {
  const place = one.log ? (x) => Math.log(x / one.low) / Math.log(one.high / one.low) : (x) => (x - one.low) / (one.high - one.low);
  const rows = points.map(() => 0);
  points.forEach((point, i) => {
    const taken = new Set();
    for (let k = 0; k < i; k += 1) {
      if (points[k].y > 0 === point.y > 0 && Math.abs(place(points[k].x) - place(point.x)) < 1 / COLUMNS) taken.add(rows[k]);
    }
    while (taken.has(rows[i])) rows[i] += 1;
  });
  const gap = Math.min(0.06, 0.5 / (1 + Math.max(0, ...rows)));
  return points.map((point, i) => (point.y > 0 ? 1.04 + gap * rows[i] : -0.04 - gap * rows[i]));
}

// Of two labels the first is that of a no; of more each has the colour of its curve.
const roleOf = (labels, at) => (labels.length === 2 ? ["--no", "--yes"][at] : LINES[at % LINES.length]);

function bars(u, found) {
  const { ctx } = u;
  ctx.strokeStyle = faded("--posterior", 0.35);
  ctx.lineWidth = 9 * devicePixelRatio;
  found.x.forEach((x, i) => {
    const at = u.valToPos(x, "x", true);
    ctx.beginPath();
    ctx.moveTo(at, u.valToPos(found.low[i], "y", true));
    ctx.lineTo(at, u.valToPos(found.high[i], "y", true));
    ctx.stroke();
  });
}

function band(u, found) {
  const { ctx } = u;
  ctx.beginPath();
  found.x.forEach((x, i) => ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(found.high[i], "y", true)));
  for (let i = found.x.length - 1; i >= 0; i -= 1) {
    ctx.lineTo(u.valToPos(found.x[i], "x", true), u.valToPos(found.low[i], "y", true));
  }
  ctx.fillStyle = faded("--posterior", 0.18);
  ctx.fill();
}

function drawPlane(data, found, box, hint) {
  const larger = found.label ? `a likelier ${found.label}` : "a larger expected outcome";
  hint.textContent = `Stronger shading: ${larger}. Dots are measurements; the larger, the later.`;
  const [across, up] = data.axes;
  box.style.maxWidth = "560px";
  place("prediction", box, 420, "plane", {
    state: { found, trials: told(data) },
    series: [{ show: false }],
    scales: { x: { time: false, ...scaleOf(across, [across.low, across.high]) }, y: scaleOf(up, [up.low, up.high]) },
    axes: [designed(across, axis(across.label, { grid: { show: false } })), { ...designedVertical(up), grid: { show: false } }],
    under: (u, state) => shade(u, state.found),
    over: (u, state) => state.trials.forEach((trial, i, all) =>
      circle(u, trial.design[across.name], trial.design[up.name], "--no", true, 2.5 + (2.5 * (i + 1)) / all.length)),
  }, [[across.low, across.high], [up.low, up.high]]);
}

// Cells are equally large on any scale; what is not possible stays empty.
function shade(u, found) {
  const { columns, rows, mean } = found;
  const known = mean.filter((value) => value !== null);
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const { left, top, width, height } = u.bbox;
  const base = colour("--posterior");
  mean.forEach((value, i) => {
    if (value === null) return;
    const [row, column] = [Math.floor(i / columns), i % columns];
    // Whole pixels, or neighbours would overlap and show their seams.
    const [x0, x1] = [column, column + 1].map((edge) => Math.round(left + (edge * width) / columns));
    const [y0, y1] = [row + 1, row].map((edge) => Math.round(top + height - (edge * height) / rows));
    u.ctx.globalAlpha = 0.04 + (0.72 * (value - low)) / span;
    u.ctx.fillStyle = base;
    u.ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
  });
  u.ctx.globalAlpha = 1;
}

// Beliefs: prior and posterior of each parameter.

function drawMarginals(data) {
  const outer = document.getElementById("marginals");
  document.getElementById("marginals-box").hidden = !data.parameters.length;
  // All boxes before any plot: a box is as wide as its neighbours leave it.
  const boxes = data.parameters.map((one) => marginalBox(outer, one.name));
  data.parameters.forEach((one, i) => {
    const id = `marginal ${one.name}`;
    const [title, canvas] = boxes[i].children;
    title.textContent = one.label;
    if (one.zoomed) title.append(Object.assign(document.createElement("span"), { className: "zoomed", textContent: " close up" }));
    title.className = one.target ? "aim" : "";
    const [low, high] = one.interval.map(round);
    canvas.setAttribute("aria-label", one.words ? `${one.name}: ${one.words}` : `${one.name}: mean ${round(one.mean)}, 95 % interval ${low} to ${high}`);
    const role = one.target ? "--posterior" : "--other";
    place(id, canvas, HEIGHT.marginal, `${one.log} ${one.target}`, {
      state: one,
      series: [
        { stroke: colour("--prior"), width: 1, fill: faded("--prior", 0.35), points: { show: false } },
        { stroke: colour(role), width: 2.2, fill: faded(role, 0.16), points: { show: false } },
      ],
      scales: { x: { time: false, distr: one.log ? 3 : 1, range: () => plots.get(id)?.state.data.range ?? one.range }, y: { range: (u, low_, high_) => [0, (high_ || 1) * 1.06] } },
      axes: [designed({ ticks: one.ticks ?? [] }, axis("", { grid: { show: false }, space: 36 })), noAxis],
      over: (u, state) => state.truth !== null && state.truth !== undefined && upright(u, state.truth, "--ink", [5, 4]),
    }, [one.x, one.prior, one.posterior]);
  });
}

function marginalBox(outer, name) {
  const known = outer.querySelector(`[data-name="${CSS.escape(name)}"]`);
  if (known) return known;
  const box = document.createElement("div");
  box.className = "marginal";
  box.dataset.name = name;
  box.append(document.createElement("h3"), document.createElement("div"));
  box.lastChild.setAttribute("role", "img");
  outer.append(box);
  return box;
}

// What was measured where, trial by trial.

function drawDesigns(data) {
  const outer = document.getElementById("designs");
  const last = Math.max(data.asked, 10);
  const { name: first, labels } = data.parts[0];
  data.axes.forEach((one, i) => {
    if (!outer.children[i]) {
      outer.append(document.createElement("div"));
      outer.children[i].setAttribute("role", "img");
    }
    outer.children[i].setAttribute("aria-label", `${one.name} of ${data.asked} trials`);
    place(`design ${one.name}`, outer.children[i], HEIGHT.design, `${last > 10}`, {
      state: { trials: data.trials, last },
      series: [{ show: false }],
      scales: { x: { time: false, range: (u) => [0.2, (plots.get(`design ${one.name}`)?.state.data.last ?? last) + 0.8] }, y: scaleOf(one, around(one)) },
      axes: [whole(i === data.axes.length - 1 ? "trial" : ""), designedVertical(one)],
      over: (u, state) => state.trials.forEach((trial) => {
        const [x, y] = [trial.number + 1, trial.design[one.name]];
        if (trial.state === "abandoned") cross(u, x, y);
        else if (trial.state === "asked") circle(u, x, y, "--muted", false, 3);
        else if (!labels.length) circle(u, x, y, "--no", true);
        else circle(u, x, y, roleOf(labels, trial.values[first]), trial.values[first] > 0);
      }),
    }, [[1, last], [one.low, one.high]]);
  });
}

// How much of the prior's uncertainty is left.

function drawWidths(data) {
  const { x, shares } = data.widths;
  const names = Object.keys(shares);
  document.getElementById("widths-box").hidden = !names.length;
  if (!names.length) return;
  const box = document.getElementById("widths");
  box.classList.add("named");
  const now = names.map((name) => `${name} ${Math.round(100 * (shares[name].at(-1) ?? 1))} %`).join(", ");
  box.setAttribute("aria-label", `Uncertainty left: ${now}`);
  const top = Math.max(1.05, ...Object.values(shares).flat().filter(Number.isFinite)) * 1.02;
  place("widths", box, HEIGHT.widths, names.join(" "), {
    named: true,
    state: { top, last: Math.max(x.at(-1), 10) },
    series: names.map((name, i) => ({
      label: name, stroke: colour(LINES[i % LINES.length]), width: 2, points: { show: false },
      dash: i >= LINES.length ? [6, 4] : undefined,
    })),
    scales: {
      x: { time: false, range: () => [0, plots.get("widths")?.state.data.last ?? 10] },
      y: { range: () => [0, plots.get("widths")?.state.data.top ?? top] },
    },
    axes: [whole("observations"), vertical("share")],
  }, [x, ...names.map((name) => shares[name])]);
}
