/**
 * <frontdesk-chat site-key="demo" server="https://desk.example" lang="en"></frontdesk-chat>
 *
 * A chat with a Frontdesk. `server` is where this file came from unless said otherwise; `lang` is the page's or the
 * browser's language. Events: `frontdesk-owner` {owner, trail}, `frontdesk-message` {id, by}, `frontdesk-state` {state}.
 */
import { Composer } from "./composer.js";
import { Connection, GAP } from "./connection.js";
import { el, keyTag, kindText, partyName } from "./dom.js";
import { uuid7 } from "./ids.js";
import { Log } from "./log.js";
import { IN_FLIGHT, Outbox } from "./outbox.js";
import { Session } from "./session.js";
import { languageOf, stringsFor } from "./strings.js";
import { sheet } from "./styles.js";
import { Gap, Thread } from "./thread.js";

const VERSION = "widget/0.1";
const NEAR_BOTTOM_PX = 80;
const RENEW_BEFORE_S = 60; // of the token's end
const FINAL = new Set(["cid_conflict", "too_large", "text_too_long", "bad_json", "bad_frame", "closed", "unknown_type"]);

export class FrontdeskChat extends HTMLElement {
  #thread = new Thread();
  #requests = new Map(); // request number -> cid
  #number = 0;
  #tab = uuid7();
  #stick = true;
  #height = 0; // of the scroller, to know a resize from a person who scrolls
  #resend = 0;
  #renewal = 0;

  connectedCallback() {
    if (this.shadowRoot) return this.#connection?.open();
    const wish = this.getAttribute("lang") || document.documentElement.lang || navigator.language;
    this.language = languageOf(wish);
    this.strings = stringsFor(wish);
    this.server = new URL(this.getAttribute("server") || "/", import.meta.url);
    this.session = new Session(this.server, this.getAttribute("site-key") || "demo", wish);
    this.#build();
    this.#connect();
  }

  disconnectedCallback() {
    this.#connection?.close();
  }

  /** Put a text into the box, for example from a button of the page. */
  prefill(text) {
    this.#composer.fill(text);
  }

  // --- what it is made of ---------------------------------------------------------------------------------------

  #connection;
  #composer;
  #log;

  #build() {
    const s = this.strings;
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    this.#log = new Log(s, this.language, { retry: (cid) => this.#retry(cid) });
    this.#composer = new Composer(s, { send: (text) => this.#write(text), typing: (on) => this.#connection.send({ t: "typing", on }) });
    this.parts = {
      owner: el("div.owner", { "aria-live": "polite" }),
      again: el("button.quiet", { type: "button", title: s.newConversationHint, onclick: () => this.#startOver() }, s.newConversation),
      model: el("div.strip", { hidden: true }, s.offlineModel),
      trouble: el("div.strip.bad", { hidden: true, role: "status" }),
      hello: el("div.hello", {}, el("p", {}, s.disclosure)),
      busy: el("div.busy", { role: "status" }),
      more: el("button", { type: "button", hidden: true, onclick: () => this.#toEnd(true) }, s.newMessages),
      scroll: el("div.scroll", { tabindex: "0", role: "region", "aria-label": s.log, onscroll: () => this.#scrolled() }),
    };
    this.parts.scroll.append(this.parts.hello, this.#log.list, this.#log.drafts, this.parts.busy);
    root.append(
      el("section.frame", { "aria-label": s.title, lang: this.language },
        el("header", {}, this.parts.owner, this.parts.again),
        el("div.strips", {}, this.parts.model, this.parts.trouble),
        this.parts.scroll,
        el("div.below", {}, this.parts.more),
        this.#composer.node),
    );
    new ResizeObserver(() => this.#resized()).observe(this.parts.scroll);
    this.#trouble("connecting");
    this.#drawOwner();
  }

  #connect() {
    const url = new URL("/ws", this.server);
    url.protocol = url.protocol.replace("http", "ws");
    this.#connection = new Connection(url, {
      hello: () => this.#hello(),
      renew: () => (this.session.token = null),
    });
    this.#connection.addEventListener("state", ({ detail }) => this.#trouble(detail));
    this.#connection.addEventListener("frame", ({ detail }) => this.#frame(detail));
    this.#connection.addEventListener("stopped", ({ detail }) => this.#stopped(detail));
    this.#connection.open();
  }

  async #hello() {
    if (!this.session.token) await this.#openSession();
    const { epoch, seq } = this.#thread;
    return { t: "hello", v: 1, token: this.session.token, conv: this.session.conversation, epoch, seq, tab: this.#tab, lang: this.language, caps: ["delta"], client: VERSION };
  }

  async #openSession(options) {
    const before = this.session.conversation;
    const answer = await this.session.open(options);
    if (this.session.conversation !== before) this.#begin();
    clearTimeout(this.#renewal);
    this.#renewal = setTimeout(() => this.#renewToken(), Math.max(1, answer.expires_in - RENEW_BEFORE_S) * 1000);
  }

  /** A fresh token for the open socket; when it fails, the close code 4012 makes us try again. */
  async #renewToken() {
    const before = this.session.conversation;
    try {
      await this.#openSession();
      if (this.session.conversation === before) this.#connection.send({ t: "auth", token: this.session.token });
      else this.#connection.restart(4011); // another tab began a new conversation
    } catch {
      this.session.token = null;
    }
  }

  /** Another conversation: an empty thread, with what was written and not acknowledged. */
  #begin() {
    this.#thread.clear();
    this.outbox = new Outbox(this.session.conversation);
    for (const { cid, text, at, failed } of this.outbox.items()) {
      this.#thread.wrote(cid, text, new Date(at).toISOString(), failed ? "failed" : "sending", failed);
    }
    this.#log.reset(this.#thread);
    this.#drawHello();
    this.#drawOwner();
  }

  async #startOver() {
    this.#connection.close();
    this.session.token = null;
    try {
      await this.#openSession({ fresh: true });
    } catch (error) {
      if (error.final) return this.#stopped(error.code);
    }
    this.#connection.open();
    this.#composer.enable(true);
    this.#composer.box.focus();
  }

  // --- what comes in --------------------------------------------------------------------------------------------

  #frame(frame) {
    switch (frame.t) {
      case "welcome": return this.#welcome(frame);
      case "snapshot": return this.#snapshot(frame);
      case "ev": return this.#event(frame);
      case "eph": return this.#ephemeral(frame);
      case "ack": return this.#acknowledged(frame);
      case "err": return this.#refused(frame);
      case "ping": return this.#connection.send({ t: "pong", ack: this.#thread.seq });
    }
  }

  #welcome(frame) {
    this.#thread.welcome(frame);
    this.#composer.limit = frame.limits.text_chars;
    this.#composer.maxBytes = frame.limits.frame_bytes;
    this.#drawOwner();
    this.#drawBusy();
    this.#drawStatus();
    if (frame.recovered) this.#flush();
  }

  #snapshot(frame) {
    this.#thread.snapshot(frame);
    for (const entry of this.#thread.entries) this.#settled(entry);
    this.#log.reset(this.#thread);
    this.#drawHello();
    this.#drawOwner();
    this.#drawStatus();
    this.#toEnd(true);
    this.#flush();
  }

  #event(frame) {
    let change;
    try {
      change = this.#thread.event(frame);
    } catch (error) {
      if (error instanceof Gap) return this.#connection.restart(GAP);
      throw error;
    }
    if (!change) return;
    if (change.kind === "retracted") this.#log.retract(change.id);
    else if (change.kind === "status") this.#drawStatus();
    else this.#log.put(change, this.#thread);
    if (change.kind === "owner") this.#drawOwner();
    if (change.kind === "msg") {
      this.#settled(change);
      this.#say("frontdesk-message", { id: change.id, by: change.by });
    }
    this.#drawHello();
    this.#drawBusy();
    this.#toEnd();
  }

  /** A message of ours that is in the log needs no sending any more, whoever acknowledged it. */
  #settled(entry) {
    if (!entry.cid) return;
    this.outbox.done(entry.cid);
    this.#thread.pending = this.#thread.pending.filter((waiting) => waiting.cid !== entry.cid);
  }

  #ephemeral(frame) {
    if (frame.e === "msg.delta") {
      const draft = this.#thread.delta(frame);
      if (draft === "sync") this.#connection.send({ t: "sync", mid: frame.mid });
      else if (draft) this.#log.draft(draft, this.#thread.owner);
    } else {
      this.#thread.busy(frame);
    }
    this.#drawBusy();
    this.#toEnd();
  }

  // --- what goes out --------------------------------------------------------------------------------------------

  #write(text) {
    const cid = uuid7();
    if (!this.outbox?.add(cid, text)) return false;
    const entry = this.#thread.wrote(cid, text, new Date().toISOString());
    this.#log.put(entry, this.#thread);
    this.#drawHello();
    this.#toEnd(true);
    this.#flush();
    return true;
  }

  /** Send what waits, oldest first, a few at a time; only after a welcome, and each with its own id. */
  #flush() {
    clearTimeout(this.#resend);
    const flying = new Set(this.#requests.values());
    for (const { cid, text } of this.outbox.sendable()) {
      if (flying.size >= IN_FLIGHT) return;
      if (flying.has(cid)) continue;
      const id = ++this.#number;
      if (!this.#connection.send({ t: "send", id, cid, text, ack: this.#thread.seq })) return;
      this.#requests.set(id, cid);
      flying.add(cid);
    }
  }

  /** `dup` is success too: the server has the message. */
  #acknowledged(frame) {
    this.#requests.delete(frame.re);
    this.outbox.done(frame.cid);
    this.#flush();
  }

  #refused(frame) {
    const cid = this.#requests.get(frame.re);
    if (frame.re === undefined || cid === undefined) return;
    this.#requests.delete(frame.re);
    const final = !frame.retry || FINAL.has(frame.code);
    if (final) this.outbox.mark(cid, frame.code);
    const entry = this.#thread.mark(cid, final ? "failed" : "sending", frame.code);
    if (entry) this.#log.put(entry, this.#thread);
    if (!final) this.#resend = setTimeout(() => this.#flush(), frame.after_ms ?? 2000);
  }

  #retry(cid) {
    this.outbox.mark(cid, null);
    const entry = this.#thread.mark(cid, "sending");
    if (entry) this.#log.put(entry, this.#thread);
    this.#flush();
  }

  // --- what is shown --------------------------------------------------------------------------------------------

  #trouble(state) {
    const s = this.strings;
    if (state !== "open") this.#requests.clear(); // what was not acknowledged is sent again after the next welcome
    const text = { connecting: this.#thread.epoch ? s.reconnecting : s.connecting, reconnecting: s.reconnecting, offline: s.browserOffline }[state];
    this.parts.trouble.hidden = state === "open";
    if (text) this.parts.trouble.replaceChildren(text);
    this.setAttribute("state", state);
    this.#say("frontdesk-state", { state });
  }

  #stopped(code) {
    const s = this.strings;
    const again = el("button", { type: "button", onclick: () => this.#connection.open() }, s.tryAgain);
    this.parts.trouble.replaceChildren(el("span", {}, s.stops[code] ?? s.stopped), again);
    this.parts.trouble.hidden = false;
  }

  #drawOwner() {
    const { owner } = this.#thread;
    const s = this.strings;
    this.parts.owner.replaceChildren(...(owner ? [keyTag(owner, s), el("span.what", {}, kindText(owner, s))] : []));
    this.parts.model.hidden = !(this.#thread.model?.offline && owner?.kind === "ai");
    this.setAttribute("owner", owner ? `${owner.kind}:${owner.id ?? owner.name ?? ""}` : "");
    const changes = this.#thread.entries.filter((entry) => entry.kind === "owner");
    const trail = changes.length ? [changes[0].from, ...changes.map((entry) => entry.to)] : owner ? [owner] : [];
    this.#say("frontdesk-owner", { owner, trail, strings: s });
  }

  #drawHello() {
    const s = this.strings;
    const empty = this.#thread.entries.length + this.#thread.pending.length === 0;
    const examples = empty ? this.session.desk?.suggestions ?? [] : [];
    const chips = examples.map((text) => el("li", {}, el("button", { type: "button", onclick: () => this.#composer.fill(text) }, text)));
    this.parts.hello.replaceChildren(el("p", {}, s.disclosure), ...(chips.length ? [el("span", {}, s.suggestions), el("ul.chips", {}, ...chips)] : []));
    this.parts.again.hidden = empty;
  }

  #drawBusy() {
    const { activity, drafts } = this.#thread;
    const s = this.strings;
    if (!activity && drafts.size === 0) return this.#setBusy("");
    if (drafts.size) {
      const [draft] = drafts.values();
      return this.#setBusy(s.answering(partyName(draft.by ?? this.#thread.owner, s)));
    }
    this.#setBusy(s[activity.kind](partyName(activity.by, s)));
  }

  /** Said once, not with every piece of a text. */
  #setBusy(text) {
    if (this.parts.busy.dataset.text === text) return;
    this.parts.busy.dataset.text = text;
    const dots = el("span.dots", { "aria-hidden": "true" }, el("i"), el("i"), el("i"));
    this.parts.busy.replaceChildren(...(text ? [dots, text] : []));
  }

  #drawStatus() {
    const closed = this.#thread.status === "closed";
    this.#composer.enable(!closed);
    this.#composer.box.placeholder = closed ? this.strings.closed : this.strings.placeholder;
  }

  #scrolled() {
    const { scroll, more } = this.parts;
    if (scroll.clientHeight !== this.#height) return; // the window changed, not the reader's mind
    this.#stick = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_BOTTOM_PX;
    if (this.#stick) more.hidden = true;
  }

  /** A keyboard that opens must not cover the newest messages. */
  #resized() {
    this.#height = this.parts.scroll.clientHeight;
    if (this.#stick) this.#toEnd();
  }

  #toEnd(force = false) {
    const { scroll, more } = this.parts;
    if (force || this.#stick) {
      scroll.scrollTop = scroll.scrollHeight;
      this.#stick = true;
    }
    more.hidden = this.#stick;
  }

  #say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

if (!customElements.get("frontdesk-chat")) customElements.define("frontdesk-chat", FrontdeskChat);
