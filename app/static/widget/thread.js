/**
 * The conversation as this page knows it: a pure reducer over server frames. No DOM, no network.
 *
 * Entries are in the order of `seq`; the visitor's own messages that are not in the log yet come after them.
 * Texts that stream are drafts beside the entries; the final message replaces the draft and is what counts.
 */

export class Gap extends Error {}

/** Length in Unicode code points: the unit of `off` on the wire. */
export const count = (text) => Array.from(text).length;

export class Thread {
  constructor() {
    this.clear();
  }

  clear() {
    this.epoch = null;
    this.seq = 0;
    this.status = "open";
    this.owner = null;
    this.model = null;
    this.limits = { text_chars: 4000 };
    this.entries = [];
    this.pending = [];
    this.drafts = new Map();
    this.activity = null;
  }

  /** The visitor wrote something; it waits for the log. */
  wrote(cid, text, at, state = "sending", error = null) {
    if (this.find(cid)) return null;
    const entry = { kind: "msg", key: `own:${cid}`, cid, text, at, by: { kind: "visitor" }, state, error };
    this.pending.push(entry);
    return entry;
  }

  find(cid) {
    const own = (entry) => entry.cid === cid;
    return this.pending.find(own) ?? this.entries.find(own) ?? null;
  }

  mark(cid, state, error = null) {
    const entry = this.pending.find((one) => one.cid === cid);
    if (entry) Object.assign(entry, { state, error });
    return entry ?? null;
  }

  welcome(frame) {
    this.owner = frame.owner;
    this.status = frame.status;
    this.model = frame.model;
    this.limits = { ...this.limits, ...frame.limits };
    this.activity = null;
    if (frame.recovered) this.epoch = frame.epoch;
  }

  snapshot(frame) {
    this.entries = [];
    this.drafts.clear();
    this.epoch = frame.epoch;
    this.owner = frame.owner;
    this.status = frame.status;
    for (const event of frame.messages) this.#take(event);
    this.seq = frame.seq;
    this.activity = null;
    this.owner = frame.owner; // the events of a snapshot are history, this is now
    this.status = frame.status;
    for (const draft of frame.drafts ?? []) this.drafts.set(draft.mid, { ...draft, syncing: false });
  }

  /** One event. Gives what it added or changed, or null; Gap when something before it is missing. */
  event(frame) {
    if (frame.seq <= this.seq) return null;
    if (frame.seq !== this.seq + 1) throw new Gap(`expected ${this.seq + 1}, got ${frame.seq}`);
    this.seq = frame.seq; // first the position, then what it does: an error in a handler must not repeat events
    if (frame.epoch) this.epoch = frame.epoch;
    return this.#take(frame);
  }

  #take(frame) {
    switch (frame.e) {
      case "msg.created":
        return this.#message(frame);
      case "msg.retracted":
        this.drafts.delete(frame.id);
        return { kind: "retracted", id: frame.id };
      case "owner.changed":
        this.owner = frame.d.to;
        this.activity = this.activity && this.#reading();
        return this.#add({ kind: "owner", key: `s:${frame.seq}`, seq: frame.seq, at: frame.at, ...frame.d });
      case "notice":
        this.activity = null;
        return this.#add({ kind: "notice", key: `s:${frame.seq}`, seq: frame.seq, at: frame.at, text: frame.d.text });
      case "status.changed":
        this.status = frame.d.status;
        return { kind: "status" };
      default:
        return null;
    }
  }

  #message(frame) {
    this.drafts.delete(frame.id);
    this.activity = frame.by.kind === "visitor" ? this.#reading() : null;
    const own = frame.cid ? this.pending.findIndex((entry) => entry.cid === frame.cid) : -1;
    const waiting = own >= 0 ? this.pending.splice(own, 1)[0] : { key: frame.cid ? `own:${frame.cid}` : `m:${frame.id}` };
    return this.#add(
      Object.assign(waiting, {
        kind: "msg", id: frame.id, cid: frame.cid ?? null, seq: frame.seq, at: frame.at, by: frame.by,
        text: frame.d.text, state: "sent", error: null,
      }),
    );
  }

  /** An agent that owns the conversation reads what was written; a person does so in their own time. */
  #reading() {
    return this.owner?.kind === "ai" ? { kind: "thinking", by: this.owner } : null;
  }

  #add(entry) {
    this.entries.push(entry);
    return entry;
  }

  /** A piece of a draft. Gives "sync" when pieces before it are missing, else the draft, or null. */
  delta(frame) {
    const draft = this.drafts.get(frame.mid) ?? { mid: frame.mid, text: "", off: 0, by: null, syncing: false };
    if (frame.by) draft.by = frame.by;
    this.drafts.set(frame.mid, draft);
    if (frame.off > draft.off) {
      if (draft.syncing) return null;
      draft.syncing = true;
      return "sync";
    }
    const fresh = Array.from(frame.d).slice(draft.off - frame.off);
    draft.text += fresh.join("");
    draft.off += fresh.length;
    draft.syncing = false;
    this.activity = null;
    return draft;
  }

  /** Who is doing something just now, for the line under the log. */
  busy(frame) {
    if (frame.e === "typing") this.activity = frame.on ? { kind: "typing", by: frame.by } : null;
    if (frame.e === "run.status" && this.drafts.size === 0) {
      this.activity = { kind: "thinking", by: frame.by ?? this.owner };
    }
  }
}
