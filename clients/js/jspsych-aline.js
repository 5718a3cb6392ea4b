// A jsPsych 8 plugin: one adaptive trial. aline chooses the design, your function draws it, a key or
// a touch answers, and the answer is stored before the trial ends.
//
//   import { JsPsychAline } from "./aline/jspsych-aline.js";
//   const trial = {
//     type: JsPsychAline,
//     experiment,                                            // local or on a service
//     show: (element, design) => { element.textContent = "…"; },
//     choices: [{ key: "f", label: "left" }, { key: "j", label: "right" }],
//     outcome: (choice, design) => (choice === "left" ? 1 : 0),
//   };
//   const block = { timeline: [trial], loop_function: (data) => !data.values().at(-1).finished };
//
// After a reload, the trial that was shown is shown again. `earlierTrials` gives the data of those
// before it.

// jsPsych's types of parameters, by their numbers: this file then needs no build.
const BOOL = 0, STRING = 1, INT = 2, FLOAT = 3, FUNCTION = 4, OBJECT = 12;

export class JsPsychAline {
  static info = {
    name: "aline",
    version: "0.1.0",
    parameters: {
      /** A LocalExperiment, or one of a service. */
      experiment: { type: OBJECT, default: undefined },
      /** Draws a design: (element, design) -> anything that `outcome` wants to know of it. */
      show: { type: FUNCTION, default: undefined },
      /** What may be answered: { key, label } each. */
      choices: { type: OBJECT, array: true, default: undefined },
      /** What an answer means: (label, design, what show returned) -> the outcome to tell. */
      outcome: { type: FUNCTION, default: undefined },
      /** After how many milliseconds the stimulus disappears; null is never. */
      stimulus_duration: { type: INT, default: null },
    },
    data: {
      trial: { type: INT },
      design: { type: OBJECT },
      response: { type: STRING },
      rt: { type: FLOAT },
      outcome: { type: OBJECT },
      /** Whether this was the last trial, and then what is known: name -> { mean, std, interval }. */
      finished: { type: BOOL },
      posterior: { type: OBJECT },
      /** Why answers are not stored in this browser, if they are not. */
      problem: { type: STRING },
    },
  };

  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  async trial(display, { experiment, show, choices, outcome, stimulus_duration: duration }, onLoad) {
    const { number, design } = await nextTrial(experiment);
    const stage = layOut(display, choices, number);
    display.querySelector(".aline-problem").textContent = experiment.problem ?? "";
    const shown = show(stage, design);
    onLoad();
    if (duration !== null) this.jsPsych.pluginAPI.setTimeout(() => (stage.style.visibility = "hidden"), duration);
    const { response, rt } = await this.answer(display, choices);
    display.innerHTML = "";
    const given = outcome(response, design, shown);
    await experiment.tell(number, given, undefined, { response, rt, shown: shown ?? null });
    const { finished } = await experiment.status();
    const posterior = finished ? summary(await experiment.posterior()) : null;
    return { trial: number, design, response, rt, shown: shown ?? null, outcome: given, finished, posterior, problem: experiment.problem ?? null };
  }

  /** The first key or touch that is one of the choices. */
  answer(display, choices) {
    const started = performance.now(), { pluginAPI } = this.jsPsych;
    return new Promise((resolve) => {
      const done = (response, rt) => {
        pluginAPI.cancelAllKeyboardResponses();
        resolve({ response, rt: Math.round(10 * rt) / 10 });
      };
      pluginAPI.getKeyboardResponse({
        valid_responses: choices.map(({ key }) => key),
        callback_function: ({ key, rt }) => done(choices.find((one) => pluginAPI.compareKeys(one.key, key)).label, rt),
        rt_method: "performance",
        persist: false,
        allow_held_key: false,
      });
      for (const button of display.querySelectorAll("button")) {
        button.onpointerdown = () => done(button.value, performance.now() - started);
      }
    });
  }
}

// A reload leaves a trial open: it is asked again before another one.
async function nextTrial(experiment) {
  const { trials } = await experiment.status();
  return trials.find(({ state }) => state === "asked") ?? experiment.ask();
}

function layOut(display, choices, number) {
  display.innerHTML = '<div class="aline-stimulus"></div><div class="aline-choices"></div><p class="aline-problem" role="alert"></p>';
  const row = display.querySelector(".aline-choices");
  const hasKeys = !matchMedia("(pointer: coarse)").matches; // on a phone their names say nothing
  for (const { key, label } of choices) {
    const button = row.appendChild(document.createElement("button"));
    Object.assign(button, { value: label, textContent: hasKeys ? `${key.toUpperCase()} ${label}` : label, className: "jspsych-btn" });
    button.style.cssText = "touch-action: manipulation; min-width: 7em; min-height: 3em; margin: 0.5em";
  }
  const stage = display.querySelector(".aline-stimulus");
  stage.dataset.trial = number;
  return stage;
}

const summary = (posterior) => JSON.parse(JSON.stringify(posterior));

/** The data of the trials that were told before a reload, in the plugin's own format. */
export async function earlierTrials(experiment) {
  const { trials, finished } = await experiment.status();
  const rows = trials.filter(({ state, source }) => state === "told" && source === "asked").map(({ number, design, outcome, note }) => ({
    trial_type: "aline", trial: number, design, ...note, outcome, finished: false, posterior: null, problem: null,
  }));
  if (finished && rows.length) Object.assign(rows.at(-1), { finished, posterior: summary(await experiment.posterior()) });
  return rows;
}
