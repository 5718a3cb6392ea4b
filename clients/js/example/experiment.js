// A two-alternative forced choice: which side was brighter? aline chooses how much brighter.
//
// Who sees nothing is right half of the time: the guess rate is known. What is asked for is the threshold,
// the difference at which 82 % of the answers are right, in dB.
//
// The network runs in this page. ?service=http://127.0.0.1:8000&token=... in the page's address asks a
// service instead; ?trials=30 and ?participant=7 say how many trials, and whose.
/* global initJsPsych, jsPsychHtmlKeyboardResponse */

import { Client, keepOffline, load, LocalExperiment } from "./detection/aline/aline.js";
import { earlierTrials, JsPsychAline } from "./detection/aline/jspsych-aline.js";

const options = new URLSearchParams(location.search);
const service = options.get("service");
const MODEL = "detection";
const TRIALS = Number(options.get("trials") ?? 30);
const PARTICIPANT = options.get("participant") ?? "1";
const PAUSE = 300; // milliseconds without discs, so that the next ones are seen to be others
const settings = {
  target: ["threshold"],
  known: { guess: 0.5 },
  units: { stimulus: [-42, 0] }, // dB of the largest difference between the discs
  trials: TRIALS,
  metadata: { page: "jsPsych example" },
};
const jsPsych = initJsPsych({
  use_webaudio: false, // opening the sound device would hold up the page
  show_progress_bar: true, auto_update_progress_bar: false, message_progress_bar: "",
});

// A screen has whole levels: only differences of these are asked, so that what is shown is what is told.
const GREY = 128, LARGEST = 120;
const STIMULI = Array.from({ length: LARGEST }, (_, i) => Number((20 * Math.log10((i + 1) / LARGEST)).toFixed(3)));
const difference = (stimulus) => Math.round(LARGEST * 10 ** (stimulus / 20));

function begin() {
  if (service) return new Client(service, { token: options.get("token") }).create(MODEL, settings);
  const name = `brightness ${PARTICIPANT}`;
  return load(`./${MODEL}/`).then((model) => LocalExperiment.open(model, { ...settings, name }));
}

function show(element, { stimulus }) {
  const [side] = jsPsych.randomization.sampleWithoutReplacement(["left", "right"], 1);
  element.innerHTML = '<canvas width="600" height="300" style="max-width: 100%; max-height: 55vh"></canvas>';
  const context = element.firstChild.getContext("2d");
  for (const [name, x] of [["left", 150], ["right", 450]]) {
    const level = GREY + (name === side ? difference(stimulus) : 0);
    context.fillStyle = `rgb(${level}, ${level}, ${level})`;
    context.beginPath();
    context.arc(x, 150, 60, 0, 2 * Math.PI);
    context.fill();
  }
  return side;
}

const trial = (experiment) => ({
  type: JsPsychAline,
  experiment,
  show,
  choices: [{ key: "f", label: "left" }, { key: "j", label: "right" }],
  outcome: (choice, design, side) => (choice === side ? 1 : 0),
  post_trial_gap: PAUSE,
  on_load: () => showProgress(experiment),
});

async function showProgress(experiment) {
  const { told } = await experiment.status();
  jsPsych.progressBar.progress = Math.min(told / TRIALS, 1);
}

const welcome = {
  type: jsPsychHtmlKeyboardResponse,
  stimulus: `<p>Two discs appear. Which one is brighter? If you cannot tell, guess.</p>
    <p class="with-keys">Press <b>F</b> for left and <b>J</b> for right, or touch your answer.</p>
    <p class="with-keys">Press any key or touch to begin.</p>
    <p class="by-touch">Touch your answer. Touch to begin.</p>`,
  on_load: () => { document.body.onpointerdown = () => jsPsych.finishTrial(); },
  on_finish: () => { document.body.onpointerdown = null; },
};

const result = (experiment) => ({
  type: jsPsychHtmlKeyboardResponse,
  stimulus: () => {
    const { mean, interval } = jsPsych.data.get().last(1).values()[0].posterior.threshold;
    const [low, high] = interval.map((value) => value.toFixed(1));
    return `<p>That is all, thank you.</p>
      <p id="result">Your threshold: ${mean.toFixed(1)} dB (95 % interval ${low} to ${high})</p>
      <p>With this difference you are right about 8 times of 10. 0 dB is the largest difference; lower is better.</p>
      <p><a id="data">Save the trials (CSV)</a> <a id="file">Save everything (JSON)</a></p>
      <p class="aline-problem" role="alert">${experiment.problem ?? ""}</p>`;
  },
  choices: "NO_KEYS",
  on_load: async () => {
    showProgress(experiment);
    offer("#data", "csv", jsPsych.data.get().ignore("stimulus").csv());
    offer("#file", "json", await experiment.export("json"));
  },
});

function offer(link, format, content) {
  const href = URL.createObjectURL(new Blob([content]));
  Object.assign(document.querySelector(link), { href, download: `brightness-${PARTICIPANT}.${format}` });
}

async function run() {
  const experiment = await begin();
  // Answers that are in this page alone are not closed by mistake.
  addEventListener("beforeunload", (event) => { if (experiment.problem) event.preventDefault(); });
  if (!service) keepOffline().then((kept) => { document.documentElement.dataset.offline = kept; });
  if (!(await experiment.status()).trials.length) await experiment.restrict({ candidates: { stimulus: STIMULI } });
  const before = await earlierTrials(experiment);
  for (const row of before) jsPsych.data.get().push(row);
  jsPsych.data.addProperties({ participant: PARTICIPANT });
  const { finished } = await experiment.status();
  const block = { timeline: [trial(experiment)], loop_function: (data) => !data.values().at(-1).finished };
  document.querySelector("#loading").remove();
  await jsPsych.run([...(before.length ? [] : [welcome]), ...(finished ? [] : [block]), result(experiment)]);
}

run().catch((error) => { document.body.innerHTML = `<p id="problem"></p>`; document.querySelector("#problem").textContent = error.message; });
