// Calls to the API. A call that changes something carries a key: when no reply comes it is sent
// again with the same key until one does, and counts once.

const API = "/api/v1";

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

async function reply(response) {
  if (response.status === 401) location.assign("/login");
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.detail || response.statusText);
  return body;
}

export async function send(method, url, body) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": newKey() };
  const options = { method, headers, body: JSON.stringify(body ?? {}) };
  for (let attempt = 0; ; attempt += 1) {
    try {
      const response = await fetch(url, options);
      if (response.status !== 503) {
        notify("");
        return await reply(response);
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    notify("The service does not answer. What you did is sent again until it does.");
    await pause(Math.min(200 * 2 ** attempt, 3000));
  }
}

export async function get(url) {
  return reply(await fetch(url, { headers: { Accept: "application/json" } }));
}
