// A page that is opened from disk may not start a worker, which the search needs. There, the worker's
// script runs in a hidden frame instead. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // messages that come before the script is there
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.document.open(); // or Firefox would replace the empty document by another
      inner.document.write("<!doctype html><body></body>");
      inner.document.close();
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = () => this.begin();
      inner.document.body.append(script);
    }

    begin() {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
