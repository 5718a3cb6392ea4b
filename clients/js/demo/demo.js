// A simulated participant answers; the network in this page chooses each stimulus and draws what it knows.

import { load, LocalExperiment } from "./psychometric/aline/aline.js";
import { draw, path } from "./drawing.js";

const TRIALS = 30, PAUSE = 250; // milliseconds
const find = (id) => document.getElementById(id);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const grid = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
// Without the ends, where a density on a bounded range may be steep.
const inside = (low, high, count) => grid(low, high, 2 * count + 1).filter((_, i) => i % 2);
const widthOf = (element) => Math.max(140, element.clientWidth); // text keeps its size on a phone

/** Somebody drawn from the prior. */
function participant({ task }) {
  const truth = Object.fromEntries(Object.entries(task.parameters).map(([name, { low, high }]) => [name, low + (high - low) * Math.random()]));
  const { threshold, slope, guess, lapse } = truth;
  // A stimulus is missed with probability `lapse`, and a yes is then a guess.
  const chance = (x) => guess * lapse + (1 - lapse) * -Math.expm1(-(10 ** Math.min(3, (x - threshold) / slope)));
  return { truth, chance, answer: (x) => (Math.random() < chance(x) ? 1 : 0) };
}

async function look(experiment, person, model) {
  const { trials, told } = await experiment.status();
  const stimuli = grid(model.design.low[0], model.design.high[0], 81);
  const { mean } = await experiment.predict({ stimulus: stimuli });
  const known = await experiment.posterior();
  find("state").textContent = told < TRIALS ? `trial ${told + 1} of ${TRIALS}` : `done: ${TRIALS} trials`;
  const curve = find("curve"), width = widthOf(curve), height = Math.min(300, Math.max(200, width / 2));
  draw(curve, { width, height, x: [-5, 5], y: [0, 1], title: "stimulus", levels: ["no", "yes"] }, ({ at }) => [
    path("truth", stimuli.map((x) => at(x, person.chance(x)))),
    path("line", stimuli.map((x, i) => at(x, mean[i]))),
    ...trials.map(({ design, outcome }) => {
      const [x, y] = at(design.stimulus, outcome ?? 0.5);
      return `<circle class="${outcome === null ? "next" : "dot"}" cx="${x}" cy="${y}" r="5"/>`;
    }),
  ]);
  marginals(known, person, model);
}

function marginals(known, person, model) {
  const place = find("marginals");
  for (const [name, { low, high }] of Object.entries(model.task.parameters)) {
    const box = document.getElementById(name) ?? Object.assign(place.appendChild(document.createElement("div")), { id: name });
    const values = inside(low, high, 80), density = known[name].pdf(values);
    draw(box, { width: widthOf(box), height: 160, x: [low, high], y: [0, 1.1 * Math.max(...density)], title: name }, ({ at }) => [
      path("line", values.map((x, i) => at(x, density[i]))),
      path("truth", [at(person.truth[name], 0), at(person.truth[name], 1.1 * Math.max(...density))]),
    ]);
  }
}

let round = 0;

async function run(model) {
  const mine = ++round, person = participant(model);
  const target = () => find("target").value.split(",");
  const experiment = new LocalExperiment(model, { target: target(), trials: TRIALS, seed: Math.floor(Math.random() * 1e6) });
  find("target").onchange = () => experiment.change({ target: target() });
  window.experiment = experiment; // to try things in the console
  await look(experiment, person, model);
  while (mine === round && !(await experiment.status()).finished) {
    const trial = await experiment.ask();
    await look(experiment, person, model);
    await pause(PAUSE);
    await experiment.tell(trial, person.answer(trial.design.stimulus));
    await look(experiment, person, model);
  }
}

try {
  const model = await load("./psychometric/");
  find("again").onclick = () => run(model);
  await run(model);
} catch (error) {
  find("state").textContent = error.message;
}
