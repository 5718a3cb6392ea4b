// The trials as a table, with the columns of the service's file.

/** A line a trial. */
export function toCsv(model, trials, events) {
  const { design, outcome } = model;
  const parts = outcome.names ?? [null];
  const notes = [...new Set(trials.flatMap((trial) => Object.keys(trial.note ?? {})))];
  const times = Object.fromEntries(["asked", "told"].map((kind) => [kind, new Map(events.flatMap((e) => (e.event === kind ? [[e.trial, e.time]] : [])))]));
  const head = [
    "trial", "state", "source", ...design.names, ...parts.map((part) => (part === null ? "outcome" : `outcome.${part}`)),
    ...notes.map((name) => `note.${name}`), "asked_at", "told_at",
  ];
  const rows = trials.map((trial) => [
    trial.number, trial.state, trial.source, ...design.names.map((name) => trial.design[name]),
    ...parts.map((part) => (part === null ? trial.outcome : trial.outcome?.[part])),
    ...notes.map((name) => trial.note?.[name]), times.asked.get(trial.number), times.told.get(trial.number),
  ]);
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

function cell(value) {
  if (value == null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
