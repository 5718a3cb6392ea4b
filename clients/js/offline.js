// Keeps a page usable without a network: what it loaded is kept in this browser for the next time.

const IN_WORKER = ["worker", "runtime", "onnx", "operators", "tensors", "memory", "kernels", "assembler", "normal"];

/** Register the page's service worker (example/sw.js) and keep all files that the page and its network
 *  have loaded, with `more` of your own. Says whether it could: browsers allow it on https and localhost. */
export async function keepOffline(worker = "./sw.js", more = []) {
  if (!navigator.serviceWorker) return false;
  try {
    await navigator.serviceWorker.register(worker);
    await navigator.serviceWorker.ready;
    const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
    const inWorker = IN_WORKER.map((name) => new URL(`./local/${name}.js`, import.meta.url).href);
    const files = [...new Set([location.href, ...loaded, ...inWorker, ...more])].filter((url) => url.startsWith(location.origin));
    const cache = await caches.open("aline");
    const missing = [];
    // One after another: all at once would hold up the page, and one that is missing, such as an icon
    // that nobody made, would cost all others.
    for (const url of files) await cache.add(url).catch(() => missing.push(url));
    return !missing.includes(location.href);
  } catch {
    return false; // private windows, full disks: the page works while it is open
  }
}
