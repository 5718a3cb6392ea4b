// Parameters two by two, as one SVG: marginals on the diagonal, draws below it, correlations above.

const LEFT = 62;
const BELOW = 44;
const GAP = 12;
const PANEL = { least: 84, most: 248 }; // across, in pixels

export function drawPairs(pairs) {
  document.getElementById("pairs-box").hidden = !pairs;
  if (!pairs) return;
  const box = document.getElementById("pairs");
  box.setAttribute("aria-label", `Correlations: ${words(pairs)}`);
  // A unit is a pixel, so that text is as large as elsewhere; a narrow screen scrolls.
  const fitting = (box.clientWidth - LEFT) / pairs.parameters.length - GAP;
  drawMatrix(box.querySelector("svg"), pairs, Math.min(Math.max(fitting, PANEL.least), PANEL.most));
}

const signed = (r) => `${r <= -0.005 ? "−" : "+"}${Math.abs(r).toFixed(2)}`;

function words({ parameters, correlation }) {
  return parameters
    .flatMap((one, i) => parameters.slice(0, i).map((other, k) => `${other.name} and ${one.name} ${signed(correlation[i][k])}`))
    .join(", ");
}

function add(to, tag, attributes, text) {
  const one = document.createElementNS(to.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  if (text !== undefined) one.textContent = text;
  to.append(one);
  return one;
}

function drawMatrix(svg, { parameters, correlation }, across) {
  const count = parameters.length;
  const high = Math.min(across * 0.75, 170);
  svg.replaceChildren();
  svg.setAttribute("width", LEFT + count * (across + GAP));
  svg.setAttribute("height", count * (high + GAP) + BELOW);
  parameters.forEach((down, row) => parameters.forEach((one, column) => {
    const cell = add(svg, "svg", {
      x: LEFT + column * (across + GAP), y: row * (high + GAP) + 2, width: across, height: high,
    });
    const size = { across, high };
    if (row === column) drawMarginal(cell, one, size);
    else if (row > column) drawDraws(cell, one, down, size);
    else writeCorrelation(cell, correlation[row][column], size);
  }));
  parameters.forEach((one, i) => {
    const x = LEFT + i * (across + GAP);
    const bottom = count * (high + GAP) - GAP + 2;
    for (const tick of ticks(one.range, across / 40)) {
      add(svg, "text", { x: x + place(tick, one.range, across), y: bottom + 16, "text-anchor": "middle" }, shown(tick));
    }
    add(svg, "text", { class: "name", x: x + across / 2, y: bottom + 36, "text-anchor": "middle" }, one.label);
    if (i === 0) return;
    const top = i * (high + GAP) + 2;
    for (const tick of ticks(one.range, high / 28)) {
      add(svg, "text", { x: LEFT - 6, y: top + high - place(tick, one.range, high) + 4, "text-anchor": "end" }, shown(tick));
    }
    const middle = top + high / 2;
    add(svg, "text", { class: "name", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, one.label);
  });
}

const place = (value, [low, high], length) => ((value - low) / (high - low || 1)) * length;
const shown = (value) => `${Number(value.toPrecision(6))}`.replace("-", "−");

// Round values within a range, about as many as asked for, none at its very ends.
function ticks([low, high], wanted) {
  const rough = (high - low) / Math.max(wanted, 1.5);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const inset = 0.07 * (high - low);
  const found = [];
  for (let i = Math.ceil((low + inset) / step); i * step <= high - inset; i += 1) found.push(i * step);
  return found;
}

function drawMarginal(cell, one, { across, high }) {
  const top = Math.max(...one.density.filter(Number.isFinite)) || 1;
  const line = one.density
    .map((value, i) => `${(across * i) / (one.density.length - 1)},${high - ((value ?? 0) / top) * 0.92 * high}`)
    .join(" L");
  add(cell, "path", { class: "area", d: `M0,${high} L${line} L${across},${high}` });
  add(cell, "path", { class: "density", d: `M${line}` });
  add(cell, "line", { class: "frame", x1: 0, y1: high, x2: across, y2: high });
  if (one.truth === null || one.truth === undefined) return;
  const x = place(one.truth, one.range, across);
  add(cell, "line", { class: "truth dashed", x1: x, y1: 0, x2: x, y2: high });
}

function drawDraws(cell, one, down, { across, high }) {
  add(cell, "rect", { class: "frame", width: across, height: high });
  one.draws.forEach((value, i) => {
    const other = down.draws[i];
    if (value === null || other === null) return;
    add(cell, "circle", {
      class: "draw", r: 2, cx: place(value, one.range, across), cy: high - place(other, down.range, high),
    });
  });
  if (![one.truth, down.truth].every(Number.isFinite)) return;
  const [x, y, r] = [place(one.truth, one.range, across), high - place(down.truth, down.range, high), 4.5];
  add(cell, "path", { class: "truth", d: `M${x - r},${y - r} L${x + r},${y + r} M${x - r},${y + r} L${x + r},${y - r}` });
}

function writeCorrelation(cell, r, { across, high }) {
  add(cell, "rect", { class: "ground", width: across, height: high, rx: 6, opacity: 0.35 * Math.abs(r) });
  const strong = Math.abs(r) >= 0.3 ? " strong" : "";
  add(cell, "text", { class: `r${strong}`, x: across / 2, y: high / 2 + 6, "text-anchor": "middle" }, signed(r));
}
