// Without a network, pages and their files come from what `keepOffline` kept.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  const kept = () => caches.match(event.request, { ignoreSearch: true, ignoreVary: true }).then((found) => found ?? Response.error());
  event.respondWith(fetch(event.request).catch(kept));
});
