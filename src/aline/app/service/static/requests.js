// Calls to the service. Each is repeated until a whole reply comes, and says so meanwhile; one that
// changes something carries a key, the same every time, and counts once.

const API = "/api/v1";
const SECONDS = 15; // without an answer, then another try
const LONG_SECONDS = 60; // likewise for drawings, which a long experiment takes a while to make
// Too many at once; a proxy whose service is away, restarts, or is slow.
const WORTH_REPEATING = [429, 502, 503, 504];

export function path(name, ...rest) {
  return [API, "experiments", encodeURIComponent(name), ...rest].join("/");
}

export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function notify(text) {
  const notice = document.getElementById("notice");
  notice.hidden = !text;
  notice.textContent = text || "";
}

/** One try at a call: { body }, or { failure } in words where no whole reply came in time. */
async function attempt(url, options, seconds, read) {
  let response;
  let body;
  try {
    response = await fetch(url, { ...options, signal: AbortSignal.timeout(1000 * seconds) });
    if (WORTH_REPEATING.includes(response.status)) return { failure: "The service does not answer." };
    body = await (response.ok ? read(response) : response.json().catch(() => ({})));
  } catch (error) {
    // No connection, a reply that was cut short, or none for so long, as where other tabs of this
    // browser have taken all its connections.
    const isLate = error.name === "TimeoutError";
    return { failure: isLate ? `No answer for ${seconds} seconds.` : "The service does not answer." };
  }
  if (response.status === 401) location.assign("/login");
  if (!response.ok) throw new Refused(response.status, body.detail || response.statusText);
  return { body };
}

async function repeat(url, options, seconds, read, meanwhile) {
  for (let tries = 0; ; tries += 1) {
    const { body, failure } = await attempt(url, options, seconds, read);
    if (!failure) {
      if (tries) notify("");
      return body;
    }
    notify(`${failure} ${meanwhile}`);
    await pause(Math.min(200 * 2 ** tries, 3000));
  }
}

const asJson = (response) => response.json();
const asText = (response) => response.text();

export function send(method, url, body) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": newKey() };
  const options = { method, headers, body: JSON.stringify(body ?? {}) };
  return repeat(url, options, SECONDS, asJson, "What you did is sent again until it does.");
}

const WAITING = "Waiting for it to come back.";

export function get(url) {
  return repeat(url, { headers: { Accept: "application/json" } }, LONG_SECONDS, asJson, WAITING);
}

export function getText(url) {
  return repeat(url, {}, SECONDS, asText, WAITING);
}

/** `work`, but never twice at a time: asked for meanwhile, it is done once more afterwards. */
export function oneAtATime(work) {
  let running = null;
  let again = false;
  const run = async () => {
    try {
      while (again) {
        again = false;
        await work();
      }
    } finally {
      running = null;
    }
  };
  return () => {
    again = true;
    running ??= run();
    return running;
  };
}
