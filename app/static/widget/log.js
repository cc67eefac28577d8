/**
 * Draws a Thread into the log: one node per entry, kept by its key, so that nothing is drawn twice.
 * Finished messages go into the live region once; drafts are beside it, unseen by screen readers.
 */
import { el, keyTag, partyName } from "./dom.js";
import { render } from "./text.js";

export class Log {
  constructor(strings, language, { retry }) {
    this.strings = strings;
    this.retry = retry;
    this.time = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
    this.list = el("ol.log", { role: "log", "aria-label": strings.log, "aria-live": "polite", "aria-relevant": "additions" });
    this.drafts = el("div.drafts", { "aria-hidden": "true" });
    this.nodes = new Map();
    this.draftNodes = new Map();
  }

  /** Everything anew, in silence: history is not news. */
  reset(thread) {
    this.list.setAttribute("aria-live", "off");
    this.list.replaceChildren();
    this.nodes.clear();
    for (const entry of [...thread.entries, ...thread.pending]) this.put(entry, thread);
    this.#drawDrafts(thread);
    requestAnimationFrame(() => this.list.setAttribute("aria-live", "polite"));
  }

  /** Draw an entry that is new or has changed. */
  put(entry, thread) {
    const old = this.nodes.get(entry.key);
    const node = this.#node(entry);
    this.nodes.set(entry.key, node);
    if (entry.kind === "msg" && entry.id) this.#removeDraft(entry.id);
    const settled = entry.state !== "sending" && entry.state !== "failed";
    if (old && !(settled && old.dataset.settled === "false")) old.replaceWith(node);
    else {
      old?.remove(); // it was waiting below; its place is now known
      this.list.insertBefore(node, settled ? this.#firstWaiting(thread) : null);
    }
    node.dataset.settled = String(settled);
    this.#group(node);
    if (node.nextElementSibling) this.#group(node.nextElementSibling);
  }

  #firstWaiting(thread) {
    for (const entry of thread.pending) {
      const node = this.nodes.get(entry.key);
      if (node?.parentNode) return node;
    }
    return null;
  }

  /** The name is written once over a row of messages by the same one. */
  #group(node) {
    const before = node.previousElementSibling;
    node.classList.toggle("follows", Boolean(node.dataset.by && before?.dataset.by === node.dataset.by));
  }

  #node(entry) {
    if (entry.kind === "owner") return this.#change(entry);
    if (entry.kind === "notice") return el("li.notice", {}, entry.text);
    return this.#message(entry);
  }

  #message(entry) {
    const own = entry.by.kind === "visitor";
    const node = el(`li.msg.${own ? "own" : entry.by.kind}`, { "data-by": own ? "own" : `${entry.by.kind}:${entry.by.name ?? entry.by.id}` });
    if (own && entry.state !== "sent") node.classList.add(entry.state);
    const bubble = el("div.bubble");
    bubble.append(render(entry.text));
    node.append(this.#who(entry.by, entry.at), bubble);
    if (own) node.append(...this.#sendState(entry));
    return node;
  }

  #who(by, at) {
    const badge = by.kind === "ai" ? this.strings.aiShort : by.kind === "human" ? this.strings.human : null;
    return el(
      "div.who", {},
      el("b", {}, partyName(by, this.strings)),
      badge && el("span.kind", {}, badge),
      at && el("time", { datetime: at }, this.time.format(new Date(at))),
    );
  }

  #sendState(entry) {
    const s = this.strings;
    if (entry.state === "sending") return [el("div.state", {}, entry.error ? s.errors[entry.error] ?? s.sending : s.sending)];
    if (entry.state !== "failed") return [];
    const why = s.errors[entry.error] ?? "";
    const again = el("button", { type: "button", onclick: () => this.retry(entry.cid) }, s.retry);
    return [el("div.state", { role: "alert" }, `${s.notSent}. ${why} `, again)];
  }

  #change(entry) {
    const s = this.strings;
    const name = partyName(entry.to, s);
    const text = entry.text ?? (entry.to.kind === "queue" ? s.nowWaiting(name) : s.nowTalking(name));
    const from = keyTag(entry.from, s);
    from.classList.add("from");
    const hands = el("div.hands", { "aria-hidden": "true" }, from, el("span.arrow", {}, "→"), keyTag(entry.to, s));
    return el("li.change", { "data-owner": entry.to.id ?? entry.to.kind }, hands, el("p", {}, text));
  }

  draft(draft, fallback) {
    let node = this.draftNodes.get(draft.mid);
    if (!node) {
      const by = draft.by ?? fallback ?? { kind: "ai" };
      node = el(`div.msg.draft.${by.kind}`, {}, this.#who(by, null), el("div.bubble"));
      const last = this.list.lastElementChild;
      node.classList.toggle("follows", last?.dataset.by === `${by.kind}:${by.name ?? by.id}`);
      this.draftNodes.set(draft.mid, node);
      this.drafts.append(node);
    }
    node.lastElementChild.textContent = draft.text;
  }

  #drawDrafts(thread) {
    this.drafts.replaceChildren();
    this.draftNodes.clear();
    for (const draft of thread.drafts.values()) this.draft(draft, thread.owner);
  }

  retract(mid) {
    this.#removeDraft(mid);
  }

  #removeDraft(mid) {
    this.draftNodes.get(mid)?.remove();
    this.draftNodes.delete(mid);
  }
}
