// The events of an experiment, in the browser's storage. Answers survive a reload; where the browser
// refuses to store them, they stay in the page, and `problem` says so.

import { AlineError } from "../errors.js";

const key = (name, place) => `aline:${name}:${place}`;

/** The browser's own storage, or null where it is switched off or damaged: even looking at it may throw. */
export function browserStorage() {
  try {
    globalThis.localStorage?.getItem("aline");
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

/** The names of all experiments in a storage. */
export function namesIn(storage) {
  const keys = Array.from({ length: storage?.length ?? 0 }, (_, i) => storage.key(i));
  return keys.flatMap((one) => /^aline:(.*):0$/s.exec(one)?.[1] ?? []).sort();
}

/** The events of an experiment in a storage; none if it is not there. */
export function eventsIn(storage, name) {
  const events = [];
  for (let text; (text = storage?.getItem(key(name, events.length)) ?? null) !== null; ) events.push(readEvent(text, name));
  return events;
}

function readEvent(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw new AlineError(0, `the experiment ${JSON.stringify(name)} in this browser's storage is damaged: start another one, under another name`);
  }
}

/** Forget an experiment, once its data are elsewhere. */
export function forget(storage, name) {
  for (let place = eventsIn(storage, name).length; place-- > 0; ) storage.removeItem(key(name, place));
}

export class Journal {
  constructor(name, storage, events = []) {
    Object.assign(this, { name, storage, events: [...events], saved: events.length });
    this.problem = storage ? null : OFF;
  }

  /** Keep one more event. It is in memory when this returns, and in the storage if that can be. */
  append(event) {
    this.refuseOthers();
    this.events.push(event);
    if (this.storage) this.save();
  }

  // What could not be saved before is tried again.
  save() {
    try {
      for (; this.saved < this.events.length; this.saved++) {
        this.storage.setItem(key(this.name, this.saved), JSON.stringify(this.events[this.saved]));
      }
      this.problem = null;
    } catch (error) {
      this.problem = `this browser could not store the last answers (${error.name}): they are kept in this page, so do not close or reload it before the data are sent`;
    }
  }

  refuseOthers() {
    let other = null;
    try {
      other = this.storage?.getItem(key(this.name, this.saved)) ?? null;
    } catch {
      // A storage that cannot be read has nothing of others either.
    }
    if (other !== null) throw new AlineError(409, `the experiment ${JSON.stringify(this.name)} goes on in another tab: close one of them and reload this page`);
  }
}

const OFF = "this browser stores nothing for this page: answers are kept in this page only, so do not close or reload it before the data are sent";
