// The form that starts an experiment follows the chosen model.

import { showTimes } from "./times.js";
import { Refused, notify, path, send } from "./requests.js";

const form = document.getElementById("new");
const model = document.getElementById("model");

function chosen() {
  const option = model.selectedOptions[0];
  return option ? JSON.parse(option.dataset.model) : null;
}

function checkbox(name, value, checked) {
  const label = document.createElement("label");
  label.className = "check";
  const input = Object.assign(document.createElement("input"), { type: "checkbox", name, value, checked });
  label.append(input, ` ${value}`);
  return label;
}

function width(name) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), {
    type: "number", min: "0", step: "any", name: `stop ${name}`, inputMode: "decimal",
  });
  label.append(name, input);
  return label;
}

function follow() {
  const one = chosen();
  if (!one) return;
  const axes = new Intl.ListFormat("en").format(one.axes.map((axis) => axis.name));
  const verdict = one.facts.verdict ?? "";
  document.getElementById("about").textContent = `Every trial sets ${axes} and gives ${one.facts.outcome}. ${verdict}`.trim();
  const aims = one.targets[0] ?? [];
  const names = [...one.parameters, "predictions"];
  document.getElementById("targets").replaceChildren(
    ...names.map((name) => checkbox("target", name, aims.includes(name))),
  );
  document.getElementById("stops").replaceChildren(...one.parameters.map(width));
  document.getElementById("horizon").value = one.horizon;
  document.getElementById("simulated-row").hidden = !one.can_simulate;
}

async function start(event) {
  event.preventDefault();
  const data = new FormData(form);
  const body = { model: data.get("model"), seed: Math.floor(Math.random() * 2 ** 31) };
  if (data.get("name").trim()) body.name = data.get("name").trim();
  const target = data.getAll("target");
  if (!target.length) return notify("Choose at least one thing to learn about.");
  body.target = target;
  if (data.get("horizon")) body.horizon = Number(data.get("horizon"));
  const stops = [...data].filter(([key, value]) => key.startsWith("stop ") && value);
  if (stops.length) body.stop = Object.fromEntries(stops.map(([key, value]) => [key.slice(5), Number(value)]));
  const canSimulate = chosen().can_simulate && document.getElementById("simulated").checked;
  if (canSimulate) body.metadata = { simulated: Math.floor(Math.random() * 2 ** 31) };
  try {
    const made = await send("POST", "/api/v1/experiments", body);
    location.assign(path(made.name).replace("/api/v1", ""));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    notify(error.message);
  }
}

showTimes();
model.addEventListener("change", follow);
form.addEventListener("submit", start);
follow();
