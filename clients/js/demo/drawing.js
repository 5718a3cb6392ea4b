// Lines in a frame, as SVG.

const MARGIN = { left: 32, right: 12, top: 18, bottom: 22 };

/** Draw what `content({ at })` returns into an element; `at(x, y)` are places in the frame. `levels` are
 *  words for the lowest and the highest y. */
export function draw(element, { width, height, x, y, title = "", levels = [] }, content) {
  const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const share = (value, [low, high]) => (value - low) / (high - low);
  const at = (a, b) => [
    round(MARGIN.left + share(a, x) * (right - MARGIN.left)), round(bottom - share(b, y) * (bottom - MARGIN.top)),
  ];
  element.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img">
    <line class="axis" x1="${MARGIN.left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>
    <text x="${MARGIN.left}" y="${height - 6}">${short(x[0])}</text>
    <text x="${right}" y="${height - 6}" text-anchor="end">${short(x[1])}</text>
    <text x="${(MARGIN.left + right) / 2}" y="${height - 6}" text-anchor="middle">${title}</text>
    ${levels.map((word, i) => `<text x="${MARGIN.left - 8}" y="${at(x[0], y[i])[1] + 4}" text-anchor="end">${word}</text>`).join("")}
    ${content({ at }).join("")}</svg>`;
}

export const path = (kind, points) => `<polyline class="${kind}" points="${points.map((point) => point.join()).join(" ")}"/>`;

const round = (value) => Math.round(10 * value) / 10;
const short = (value) => String(Number(value.toPrecision(2)));
