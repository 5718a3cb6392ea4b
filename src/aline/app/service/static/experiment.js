// One experiment: answers go to the API, the panel comes back rendered, plots are drawn from numbers.

import { Refused, get, getText, notify, oneAtATime, path, send } from "./requests.js";
import { draw } from "./plots.js";

const page = document.getElementById("experiment");
const panel = document.getElementById("panel");
const { name } = page.dataset;
const isSimulated = page.dataset.simulated === "yes";
const home = path(name).replace("/api/v1", "");

let busy = false; // one call at a time: a second press of a key is not a second answer
let latest = null; // the drawing shown

const card = () => panel.querySelector(".next");
const openTrial = () => card().dataset.open;
const isFinished = () => card().dataset.finished === "yes";
const shownSequence = () => Number(card().dataset.sequence);

// Showing.

const showPanel = oneAtATime(async () => {
  const html = await getText(`${home}/panel`);
  const focus = document.activeElement;
  const kept = panel.contains(focus) ? focus.id || focus.dataset.action : null;
  const isTrialsOpen = document.getElementById("trials-details")?.open;
  panel.innerHTML = html;
  document.getElementById("trials-details").open = Boolean(isTrialsOpen);
  showSimulation();
  const outcome = document.getElementById("outcome");
  if (outcome && (!kept || kept === "outcome" || kept === "ask")) outcome.focus();
  else if (kept) (document.getElementById(kept) ?? panel.querySelector(`[data-action="${CSS.escape(kept)}"]`))?.focus();
});

const showPlots = oneAtATime(async () => {
  latest = await get(path(name, "drawing"));
  draw(latest);
  page.dataset.drawn = latest.sequence;
});

/** Resolves when the panel is up to date; the plots follow. */
async function show() {
  await saying(showPanel());
  saying(showPlots());
}

async function saying(work) {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    notify(error.message);
  }
}

// Acting.

async function act(work) {
  if (busy) return;
  busy = true;
  panel.setAttribute("aria-busy", "true");
  try {
    await work();
    notify("");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    notify(error.message);
  } finally {
    busy = false;
    panel.removeAttribute("aria-busy");
  }
  await show();
}

const ask = () => send("POST", path(name, "ask"));

async function askNext() {
  try {
    await ask();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 409) throw error; // finished: nothing to ask
  }
}

const tell = (outcome) => act(async () => {
  await send("POST", path(name, "trials", openTrial(), "tell"), { outcome });
  await askNext();
});

const actions = {
  ask: () => act(ask),
  tell: (button) => tell(JSON.parse(button.dataset.outcome)),
  undo: () => act(() => send("POST", path(name, "undo"))),
  abandon: () => act(async () => {
    await send("POST", path(name, "trials", openTrial(), "abandon"));
    await askNext();
  }),
  close: () => confirm("Close this experiment for good? What it holds stays.") &&
    act(() => send("POST", path(name, "close"))),
  play: () => { setPlaying(!playing); },
  again: () => act(async () => {
    const { model, target, horizon, stop } = await get(path(name));
    const random = () => Math.floor(Math.random() * 2 ** 31);
    const body = { model, target, horizon, stop, seed: random(), metadata: { simulated: random() } };
    const made = await send("POST", "/api/v1/experiments", body);
    location.assign(path(made.name).replace("/api/v1", ""));
  }),
};

// One number alone has no name; several outcomes are an object. Radio buttons hold JSON.
function readForm(form) {
  const inputs = [...form.querySelectorAll("input")].filter((input) => input.type !== "radio" || input.checked);
  const values = inputs.map((input) => (input.type === "radio" ? JSON.parse(input.value) : input.valueAsNumber));
  if (!inputs[0].name) return values[0];
  return Object.fromEntries(inputs.map((input, i) => [input.name, values[i]]));
}

const forms = {
  "tell-form": (form) => tell(readForm(form)),
  horizon: (form) => act(() => send("PATCH", path(name), { horizon: Number(form.horizon.value) })),
};

panel.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button && !button.disabled) actions[button.dataset.action]?.(button);
});

panel.addEventListener("submit", (event) => {
  event.preventDefault();
  forms[event.target.dataset.action]?.(event.target);
});

panel.addEventListener("change", (event) => {
  const form = event.target.closest('form[data-action="target"]');
  if (!form) return;
  const target = [...form.querySelectorAll("input:checked")].map((input) => input.value);
  if (!target.length) {
    notify("Choose at least one thing to learn about.");
    event.target.checked = true;
    return;
  }
  act(() => send("PATCH", path(name), { target }));
});

const keys = { u: '[data-action="undo"]', " ": '[data-action="ask"]' };
const keyed = (key) => panel.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? panel.querySelector(keys[key] ?? ":not(*)");

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea")) return;
  if (event.key === " " && event.target.closest("button, a, summary, input")) return;
  const button = keyed(event.key.toLowerCase());
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
});

// A simulated participant answers at the slider's pace, as long as this page is open.

let playing = isSimulated && !isFinished();
let speed = Number(sessionStorage.getItem("aline speed") ?? 3);
let timer = null;

function setPlaying(value) {
  playing = value;
  showSimulation();
  schedule();
}

function showSimulation() {
  const button = panel.querySelector('[data-action="play"]');
  if (!button) return;
  button.textContent = playing ? "Pause" : "Run";
  button.setAttribute("aria-pressed", String(playing));
  const slider = document.getElementById("speed");
  slider.value = speed;
  document.getElementById("speed-now").textContent = speed ? `${speed} trials a second` : "stopped";
  slider.oninput = () => {
    speed = Number(slider.value);
    sessionStorage.setItem("aline speed", speed);
    document.getElementById("speed-now").textContent = speed ? `${speed} trials a second` : "stopped";
    schedule();
  };
}

function schedule() {
  clearTimeout(timer);
  if (playing && speed > 0 && !isFinished()) timer = setTimeout(simulate, 1000 / speed);
}

async function simulate() {
  try {
    await send("POST", path(name, "simulate"));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    playing = false;
    if (error.status !== 409) notify(error.message);
  }
  await show();
  schedule();
}

// Others may be at the same experiment: the service says when anything changed, in a stream. A
// browser has six connections to a site, for all its tabs, and a stream holds one as long as it is
// open. So a hidden tab has none, and of many windows in view only some have one that stays: the
// others look now and then, and let go.

const STREAMS = 3; // that stay open
const LOOK_MS = 2000;
const RETRY_MS = 1000;

let stream = null; // an AbortController: ends what is open
let relisten = null;
let wasLost = false;

function listen() {
  clearTimeout(relisten);
  stream?.abort();
  if (document.hidden) return;
  stream = new AbortController();
  follow(stream.signal);
}

async function follow(signal) {
  const stays = await takeSlot(signal);
  if (signal.aborted) return;
  const events = new EventSource(path(name, "events"));
  signal.addEventListener("abort", () => events.close());
  const again = (ms) => {
    events.close();
    relisten = setTimeout(listen, ms);
  };
  events.addEventListener("changed", (event) => {
    const { sequence } = JSON.parse(event.data);
    if (wasLost) notify("");
    wasLost = false;
    if (sequence !== shownSequence() && !busy && !(isSimulated && playing)) show();
    if (!stays) again(LOOK_MS);
  });
  events.addEventListener("error", () => {
    wasLost = true;
    if (!busy) notify("The service does not answer. Waiting for it to come back.");
    if (events.readyState === EventSource.CLOSED) again(RETRY_MS);
  });
}

/** Whether this page may keep a stream, until the signal ends it. */
async function takeSlot(signal) {
  if (!navigator.locks) return true; // plain HTTP from another machine: there is nothing to count with
  const ended = new Promise((resolve) => { signal.addEventListener("abort", resolve); });
  for (let slot = 0; slot < STREAMS; slot += 1) {
    const isOurs = await new Promise((resolve) => {
      navigator.locks.request(`aline stream ${slot}`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        return lock && ended;
      });
    });
    if (isOurs) return true;
  }
  return false;
}

document.addEventListener("visibilitychange", listen);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => latest && draw(latest, true));
let resizing = null;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => latest && draw(latest, true), 150);
});

showSimulation();
saying(showPlots());
schedule();
listen();
