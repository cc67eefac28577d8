/** The open conversation: its log as it grows, who holds it, and what this person may do with it. */
import { el, keyTag } from "../widget/dom.js";
import { Approvals } from "./approvals.js";
import { Refused } from "./client.js";
import { draftOf, drafts, keepDraft, messageId, sent } from "./drafts.js";
import { s } from "./strings.js";
import { Timeline } from "./timeline.js";

const TYPING_MS = 8000;
const TOKEN = "frontdesk:desk:token:";
const tokenKey = (cid) => TOKEN + cid;

/** The conversations that this tab holds, with their tokens. */
export function heldTokens() {
  const keys = Array.from({ length: sessionStorage.length }, (_, at) => sessionStorage.key(at));
  return keys.filter((key) => key.startsWith(TOKEN)).map((key) => ({
    cid: key.slice(TOKEN.length),
    token: sessionStorage.getItem(key),
    forget: () => sessionStorage.removeItem(key),
  }));
}

/** What went wrong, in words that promise nothing. */
export function words(error) {
  if (!(error instanceof Refused)) return s.unreachable;
  return error.status >= 500 ? s.failed : error.message;
}

export class ConversationView {
  #stop = new AbortController();
  #typing = 0;

  constructor(client, person, roster, { changed, back }) {
    this.client = client;
    this.person = person;
    this.roster = roster;
    this.changed = changed;
    this.back = back;
    this.node = el("div.conversation");
  }

  close() {
    this.#stop.abort();
  }

  get token() {
    return sessionStorage.getItem(tokenKey(this.cid));
  }

  get mine() {
    return this.status !== "closed" && this.owner?.kind === "human" && this.owner.id === this.person.id && Boolean(this.token);
  }

  async open(cid) {
    this.cid = cid;
    const found = await this.client.get(`/conversations/${encodeURIComponent(cid)}`);
    this.owner = found.owner;
    this.status = found.status;
    this.values = found.values;
    this.hiddenValues = found.hidden_values;
    this.timeline = new Timeline();
    this.approvals = new Approvals(this.client, cid, (id, verdict) => this.#decide(id, verdict));
    if (found.approvals) this.approvals.load();
    this.#build();
    this.timeline.list.setAttribute("aria-live", "off");
    for (const event of found.events) this.timeline.add(event);
    this.timeline.start(found.draft);
    this.#draw();
    requestAnimationFrame(() => (this.timeline.end(), this.timeline.list.setAttribute("aria-live", "polite")));
    this.client.follow(cid, this.timeline.seq, (name, data) => this.#heard(name, data), this.#stop.signal);
  }

  #build() {
    this.parts = {
      owner: el("div.owner"),
      values: el("div.values"),
      actions: el("div.actions"),
      trouble: el("p.trouble", { role: "alert", hidden: true }),
      typing: el("p.typing", { role: "status" }),
      box: el("textarea", { rows: "2", "aria-label": s.write, placeholder: s.write, oninput: () => this.#written(), onkeydown: (event) => this.#key(event) }),
      send: el("button.primary", { type: "submit" }, s.send),
      kept: el("p.kept", { role: "status" }),
      discard: el("button.plain", { type: "button", onclick: () => this.#discard() }, s.discard),
      hint: el("p.hint", {}, s.notYours),
    };
    this.parts.form = el("form.write", { onsubmit: (event) => (event.preventDefault(), this.#say()) }, this.parts.kept, this.parts.box, this.parts.send, this.parts.discard);
    this.parts.box.value = draftOf(this.cid);
    drafts.addEventListener("sent", ({ detail }) => detail === this.cid && this.#takeAwaySent(), { signal: this.#stop.signal });
    this.dialog = this.#handBackDialog();
    const back = el("button.plain.back", { type: "button", onclick: this.back }, `← ${s.back}`);
    this.node.replaceChildren(
      el("header", {}, back, this.parts.owner, this.parts.actions),
      this.parts.values, this.approvals.node, this.timeline.node, this.parts.typing, this.parts.trouble, this.parts.form, this.parts.hint, this.dialog);
  }

  #draw() {
    const { owner, values, actions, hint } = this.parts;
    owner.replaceChildren(keyTag(this.owner, {}), el("span.what", {}, s.kinds[this.owner.kind] ?? ""));
    const known = Object.entries(this.values).map(([key, value]) => el("span.value", {}, el("b", {}, key), ` ${typeof value === "string" ? value : JSON.stringify(value)}`));
    if (this.hiddenValues.length) known.push(el("span.value", {}, s.hidden(this.hiddenValues.length)));
    values.hidden = known.length === 0;
    values.replaceChildren(el("span.label", {}, s.values), ...known);
    const hand = el("button.secondary", { type: "button", onclick: () => this.dialog.showModal() }, s.handBack);
    const take = el("button.primary", { type: "button", onclick: () => this.#take() }, s.take);
    actions.replaceChildren(...(this.status === "closed" ? [] : [this.mine ? hand : take]));
    hint.hidden = this.mine;
    hint.textContent = this.status === "closed" ? s.closedNow : s.notYours;
    this.#drawForm();
  }

  /** Who lost the conversation while writing keeps the text, to read and copy, and to send after taking it back. */
  #drawForm() {
    const { form, box, send, kept, discard } = this.parts;
    form.hidden = !this.mine && !box.value.trim();
    box.readOnly = !this.mine;
    send.hidden = !this.mine;
    kept.hidden = discard.hidden = this.mine;
    kept.textContent = this.mine ? "" : `${this.status === "closed" ? s.closedNow : s.holds(this.owner.name)} ${s.kept}`;
  }

  #written() {
    keepDraft(this.cid, this.parts.box.value);
  }

  #discard() {
    this.parts.box.value = "";
    this.#written();
    this.#drawForm();
  }

  #takeAwaySent() {
    const { box } = this.parts;
    box.setRangeText("", 0, box.value.length - draftOf(this.cid).length, "preserve");
    this.#drawForm();
  }

  #heard(name, data) {
    if ("seq" in data) this.#event(data);
    else if (name === "response_delta") this.timeline.delta(data);
    else if (name === "typing") this.#customerTypes(data);
  }

  #event(event) {
    if (!this.timeline.add(event)) return;
    if (event.type === "msg.created" && event.by === "customer") this.#customerTypes({ on: false });
    if (event.type === "owner.changed") {
      const [kind, ...rest] = event.owner_to.split(":");
      this.owner = { kind, id: rest.join(":"), name: event.data.to_name ?? rest.join(":") };
      if (!this.mine) this.#forget();
      this.#refresh();
    }
    if (event.type.startsWith("approval.") || event.type === "owner.changed") this.approvals.load();
    if (event.type === "status.changed") {
      this.status = event.data.status;
      this.#draw();
    }
    this.changed();
  }

  /** What may have changed besides the log. */
  async #refresh(lost = false) {
    this.#draw();
    const now = await this.client.get(`/conversations/${encodeURIComponent(this.cid)}?after=${this.timeline.seq}`).catch(() => null);
    if (!now) return;
    if (lost) this.owner = now.owner;
    this.values = now.values;
    this.hiddenValues = now.hidden_values;
    this.#draw();
  }

  #forget() {
    if (this.owner.kind !== "human" || this.owner.id !== this.person.id) sessionStorage.removeItem(tokenKey(this.cid));
  }

  #customerTypes({ on, by }) {
    if (on && by && by.kind !== "customer" && by.kind !== "visitor") return;
    clearTimeout(this.#typing);
    this.parts.typing.textContent = on ? s.typing : "";
    if (on) this.#typing = setTimeout(() => (this.parts.typing.textContent = ""), TYPING_MS);
  }

  async #take(force = false) {
    await this.#try(async () => {
      const taken = await this.client.post(`/conversations/${encodeURIComponent(this.cid)}/take`, { person: this.person, force });
      sessionStorage.setItem(tokenKey(this.cid), taken.token);
      this.owner = { kind: "human", id: this.person.id, name: this.person.name };
      this.#draw();
      this.parts.box.focus();
    });
  }

  async #decide(id, verdict) {
    await this.#try(() => this.client.post(`/conversations/${encodeURIComponent(this.cid)}/approvals/${encodeURIComponent(id)}`, { verdict, by: this.person }));
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.#say();
  }

  async #say() {
    const written = this.parts.box.value;
    const text = written.trim();
    if (!text || !this.mine || this.parts.send.disabled) return;
    this.parts.send.disabled = true;
    await this.#try(async () => {
      await this.client.post(`/conversations/${encodeURIComponent(this.cid)}/messages`, { token: this.token, person: this.person, text, message_id: messageId(this.cid, text) });
      sent(this.cid, written);
    });
    this.parts.send.disabled = false;
  }

  #handBackDialog() {
    const agent = el("select", { name: "to" }, ...this.roster.agents.map((one) => el("option", { value: one.id, selected: one.id === this.roster.start }, one.name)));
    const note = el("textarea", { name: "note", rows: "4", maxlength: "4000" });
    const failed = el("p.trouble", { role: "alert", hidden: true });
    const hand = el("button.primary", { type: "submit" }, s.handBack);
    const dialog = el("dialog", { "aria-labelledby": "hand-back" });
    const done = async (event) => {
      event.preventDefault();
      if (hand.disabled) return;
      hand.disabled = note.readOnly = failed.hidden = true;
      try {
        await this.#handBack(agent.value, note.value);
        note.value = "";
        dialog.close();
      } catch (error) {
        if (isLost(error)) await this.#lose();
        failed.textContent = this.#why(error);
        failed.hidden = false;
        if (dialog.isConnected && !dialog.open) dialog.showModal(); // closed while it ran
      }
      hand.disabled = note.readOnly = false;
    };
    dialog.append(el("form", { onsubmit: done },
      el("h3", { id: "hand-back" }, s.handBackTitle),
      el("label", {}, s.to, agent),
      el("label", {}, s.note, note, el("small", {}, s.noteHint)),
      failed,
      el("div.buttons", {}, el("button.plain", { type: "button", onclick: () => dialog.close() }, s.cancel), hand)));
    return dialog;
  }

  async #handBack(to, note) {
    const { owner } = await this.client.post(`/conversations/${encodeURIComponent(this.cid)}/release`, { token: this.token, person: this.person, to, note });
    this.owner = owner;
    this.#forget();
    this.#draw();
    this.changed();
  }

  /** Do it, or say in words why not. */
  async #try(act) {
    this.parts.trouble.hidden = true;
    try {
      await act();
    } catch (error) {
      this.#explain(error);
    }
    this.changed();
  }

  #explain(error) {
    if (isLost(error)) return this.#lose(); // the kept text says who holds it now
    const again = isBusy(error) ? [" ", el("button.secondary", { type: "button", onclick: () => this.#take(true) }, s.takeAnyway)] : [];
    this.parts.trouble.replaceChildren(this.#why(error), ...again);
    this.parts.trouble.hidden = false;
  }

  async #lose() {
    sessionStorage.removeItem(tokenKey(this.cid));
    await this.#refresh(true);
  }

  #why(error) {
    if (isBusy(error)) return s.takeFrom(this.#nameOf(error.owner));
    if (isLost(error)) return s.holds(this.#nameOf(error.owner));
    return words(error);
  }

  /** The name where we know it; a refusal has only the login. */
  #nameOf(ref) {
    const [kind, ...rest] = ref.split(":");
    const id = rest.join(":");
    return this.owner.kind === kind && this.owner.id === id ? this.owner.name : id;
  }
}

const isBusy = (error) => error instanceof Refused && error.code === "owner_busy";
const isLost = (error) => error instanceof Refused && error.code === "stale_owner";
