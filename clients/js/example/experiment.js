// A two-alternative forced choice: which side was brighter? aline chooses how much brighter.
//
// ?service=http://127.0.0.1:8000&token=...&trials=30 in the page's address say where the service is.
/* global initJsPsych, jsPsychCallFunction, jsPsychCanvasKeyboardResponse, jsPsychHtmlKeyboardResponse */

import { Client } from "../aline.js";

const options = new URLSearchParams(location.search);
const client = new Client(options.get("service") ?? "http://127.0.0.1:8000", { token: options.get("token") });
const jsPsych = initJsPsych();

const SIZE = [300, 600]; // height and width of the canvas
const GREY = 128;

// The task's stimulus runs from -5 to 5; brightness differences are felt as ratios.
const difference = (stimulus) => Math.min(120, 0.5 * 10 ** ((stimulus + 5) / 4));

let experiment, trial, side;

function paint(canvas) {
  const context = canvas.getContext("2d");
  const brighter = GREY + difference(trial.design.stimulus);
  for (const [name, x] of [["left", 150], ["right", 450]]) {
    const level = name === side ? brighter : GREY + 4;
    context.fillStyle = `rgb(${level}, ${level}, ${level})`;
    context.beginPath();
    context.arc(x, 150, 60, 0, 2 * Math.PI);
    context.fill();
  }
}

const wait = (work) => ({ type: jsPsychCallFunction, async: true, func: (done) => work().then(done) });

const welcome = {
  type: jsPsychHtmlKeyboardResponse,
  stimulus: "<p>Two discs appear. Which one is brighter?</p><p><b>F</b> left, <b>J</b> right. Any key begins.</p>",
};

const begin = wait(async () => {
  experiment = await client.create("psychometric", {
    target: ["threshold", "slope"],
    horizon: Number(options.get("trials") ?? 30),
    metadata: { page: "jsPsych example" },
  });
});

const ask = wait(async () => {
  trial = await experiment.ask();
  side = jsPsych.randomization.sampleWithoutReplacement(["left", "right"], 1)[0];
});

const show = {
  type: jsPsychCanvasKeyboardResponse,
  canvas_size: SIZE,
  stimulus: paint,
  choices: ["f", "j"],
  prompt: "<p>F left, J right</p>",
  data: () => ({ trial: trial.number, stimulus: trial.design.stimulus, side }),
  on_finish: (data) => { data.correct = data.response === (side === "left" ? "f" : "j"); },
};

let isFinished = false;

const tell = wait(async () => {
  const { correct } = jsPsych.data.get().filter({ trial: trial.number }).last(1).values()[0];
  await experiment.tell(trial, correct ? 1 : 0);
  isFinished = (await experiment.status()).finished;
});

const trials = { timeline: [ask, show, tell], loop_function: () => !isFinished };

let known;
const look = wait(async () => { known = await experiment.posterior(); });

const result = {
  type: jsPsychHtmlKeyboardResponse,
  stimulus: () => {
    const { mean, interval } = known.threshold;
    const [low, high] = interval.map((value) => value.toFixed(2));
    return `<p id="result">Your threshold: ${mean.toFixed(2)} (95 % interval ${low} to ${high})</p>`;
  },
  choices: "NO_KEYS",
};

jsPsych.run([welcome, begin, trials, look, result]);
