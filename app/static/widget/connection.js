/**
 * One socket to the desk, kept alive: dial, hello, ping, reconnect with jitter, and the meaning of every close code.
 * Knows nothing of the conversation's content.
 */

const DIAL_MS = 8000; // a dial that hangs is given up
const SILENCE_MS = 10_000; // on top of the server's ping interval
const PROBE_MS = 4000; // after sleep: is this socket still there?
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
const LINGER_MS = 20_000; // of a good connection before the back-off starts anew
export const GAP = 4002;
export const PROTOCOL = "chat.v1";

/** What a close code means: "again", "token" (fetch a new one first) or "stop". */
export function meaning(code) {
  if (code === 4012) return "token";
  if (code >= 4500 && code <= 4999) return "stop";
  return "again"; // 4000-4499 and everything that networks and proxies do: 1001, 1005, 1006, 1011, 1012, 1013
}

/** Full jitter, applied after the cap, so that a thousand clients do not come back in step. */
export function backoff(attempt, random = Math.random) {
  const ceiling = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** attempt);
  return MIN_BACKOFF_MS + random() * (ceiling - MIN_BACKOFF_MS);
}

export class Connection extends EventTarget {
  #socket = null;
  #timers = new Map();
  #attempt = 0;
  #window = null;
  #closed = true;
  #pingMs = 25_000;
  #wake = () => this.#woken();

  /** `hello()` gives the first frame (it may fetch a token and so take a while); `renew()` makes the token stale. */
  constructor(url, { hello, renew }) {
    super();
    this.url = url;
    this.hello = hello;
    this.renew = renew;
    this.ready = false;
  }

  open() {
    if (!this.#closed) return;
    this.#closed = false;
    document.addEventListener("visibilitychange", this.#wake);
    for (const name of ["online", "pageshow", "offline"]) addEventListener(name, this.#wake);
    this.#dial();
  }

  close() {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#wake);
    for (const name of ["online", "pageshow", "offline"]) removeEventListener(name, this.#wake);
    for (const name of [...this.#timers.keys()]) this.#stop(name);
    this.#drop(1000);
  }

  /** False when there is no socket that said welcome. */
  send(frame) {
    if (!this.ready) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Something does not fit: begin again from the last good position. */
  restart(code) {
    this.#drop(code);
    this.#again(0);
  }

  #say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  async #dial() {
    this.#stop("dial");
    if (this.#closed || this.#socket) return;
    this.#say("state", "connecting");
    let first;
    try {
      first = await this.hello();
    } catch (error) {
      if (error.final) return this.#halt(error.code);
      return this.#again();
    }
    if (this.#closed || this.#socket) return;
    const socket = new WebSocket(this.url, PROTOCOL);
    this.#socket = socket;
    this.#start("deadline", DIAL_MS, () => this.restart(4000));
    socket.onopen = () => socket === this.#socket && socket.send(JSON.stringify(first));
    socket.onmessage = (event) => socket === this.#socket && this.#heard(event.data);
    socket.onclose = (event) => socket === this.#socket && this.#lost(event.code);
  }

  #heard(data) {
    this.#stop("probe");
    this.#start("silence", this.#pingMs + SILENCE_MS, () => this.restart(4001));
    const frame = JSON.parse(data);
    if (frame.t === "welcome") this.#welcomed(frame);
    if (frame.t === "bye") this.#window = frame.reconnect_ms;
    this.#say("frame", frame);
  }

  #welcomed(frame) {
    this.#stop("deadline");
    this.#pingMs = frame.ping * 1000;
    this.#start("linger", LINGER_MS, () => (this.#attempt = 0));
    this.ready = true;
    this.#say("state", "open");
  }

  #lost(code) {
    this.#drop();
    const what = meaning(code);
    if (what === "stop") return this.#halt(code);
    if (what === "token") this.renew();
    this.#again();
  }

  #halt(code) {
    this.close();
    this.#say("state", "stopped");
    this.#say("stopped", code);
  }

  #drop(code) {
    const socket = this.#socket;
    this.#socket = null;
    this.ready = false;
    for (const name of ["deadline", "silence", "probe", "linger"]) this.#stop(name);
    if (socket && socket.readyState <= WebSocket.OPEN) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close(code === 1000 || code >= 3000 ? code : 4000);
    }
  }

  #again(wait) {
    if (this.#closed) return;
    this.#say("state", navigator.onLine === false ? "offline" : "reconnecting");
    if (document.hidden && this.#attempt > 3) return; // a hidden tab does not spin; it dials when it is seen again
    const [low, high] = this.#window ?? [0, 0];
    const pause = wait ?? (this.#window ? low + Math.random() * (high - low) : backoff(this.#attempt++));
    this.#window = null;
    this.#start("dial", pause, () => this.#dial());
  }

  #woken() {
    if (this.#closed || document.hidden) return;
    if (navigator.onLine === false) return this.#say("state", "offline");
    if (!this.#socket) return void this.#dial();
    if (this.send({ t: "ping" })) this.#start("probe", PROBE_MS, () => this.restart(4001));
  }

  #start(name, ms, act) {
    this.#stop(name);
    this.#timers.set(name, setTimeout(() => (this.#timers.delete(name), act()), ms));
  }

  #stop(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }
}
