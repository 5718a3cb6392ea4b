// Keeps a page usable without a network: what it loaded is kept in this browser for the next time.

/** Register the page's service worker (example/sw.js) and keep all files that the page has loaded,
 *  with `more` that workers load. Says whether it could: browsers allow it on https and localhost. */
export async function keepOffline(worker = "./sw.js", more = []) {
  if (!navigator.serviceWorker) return false;
  try {
    await navigator.serviceWorker.register(worker);
    await navigator.serviceWorker.ready;
    const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
    const inWorker = new URL("./local/worker.js", import.meta.url).href;
    const files = [...new Set([location.href, ...loaded, inWorker, ...more])].filter((url) => url.startsWith(location.origin));
    const cache = await caches.open("aline");
    // One by one: what is missing, such as an icon that nobody made, must not cost all others.
    const kept = await Promise.allSettled(files.map((url) => cache.add(url)));
    return kept[0].status === "fulfilled";
  } catch {
    return false; // private windows, full disks: the page works while it is open
  }
}
