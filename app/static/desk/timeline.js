/** One conversation's log for people at the desk: messages, changes of owner with their brief, and small steps between. */
import { el, keyTag } from "../widget/dom.js";
import { render } from "../widget/text.js";
import { s, language } from "./strings.js";

const time = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const NEAR_END_PX = 120;
const QUIET = new Set(["handoff.accepted", "handoff.completed"]); // the change of owner says it already

/** "ai:billing" with its name, as the key tag wants it. */
const party = (ref, name) => {
  const [kind, ...rest] = (ref ?? "").split(":");
  return { kind: kind || "nobody", id: rest.join(":"), name: name || rest.join(":") };
};

export class Timeline {
  constructor() {
    this.list = el("ol.timeline", { role: "log", "aria-live": "polite", "aria-relevant": "additions" });
    this.draft = el("div.draft", { hidden: true, "aria-hidden": "true" });
    this.node = el("div.scroll", { tabindex: "0" }, this.list, this.draft);
    this.seq = 0;
    this.drafting = { mid: "", text: "" };
    this.node.addEventListener("scroll", () => this.#scrolled());
    new ResizeObserver(() => this.#resized()).observe(this.node);
  }

  #stick = true; // the reader is at the end and wants to stay there
  #height = 0;

  #scrolled() {
    if (this.node.clientHeight !== this.#height) return; // the window changed, not the reader's mind
    this.#stick = this.node.scrollHeight - this.node.scrollTop - this.#height < NEAR_END_PX;
  }

  #resized() {
    this.#height = this.node.clientHeight;
    if (this.#stick) this.end();
  }

  /** False when this event is here already. */
  add(event) {
    if (event.seq <= this.seq) return false;
    this.seq = event.seq;
    const node = this.#node(event);
    if (node) this.list.append(node);
    if (event.data.id && event.data.id === this.drafting.mid) this.#clearDraft();
    if (this.#stick) this.end();
    return true;
  }

  end() {
    this.node.scrollTop = this.node.scrollHeight;
    this.#stick = true;
  }

  /** A piece of what the owner is writing; `off` counts code points. */
  delta({ mid, off, d, by }) {
    if (this.drafting.mid !== mid) this.drafting = { mid, text: "", by };
    const have = Array.from(this.drafting.text);
    if (off > have.length) return; // the rest is in the finished message
    this.drafting.text = have.slice(0, off).join("") + d;
    this.draft.replaceChildren(el("b", {}, `${by?.name ?? ""} ${s.drafting}`), el("p", {}, this.drafting.text));
    this.draft.hidden = false;
  }

  start(draft) {
    if (draft) this.delta({ mid: draft.mid, off: 0, d: draft.text, by: null });
  }

  #clearDraft() {
    this.drafting = { mid: "", text: "" };
    this.draft.hidden = true;
  }

  #node(event) {
    if (event.type === "msg.created") return this.#message(event);
    if (event.type === "owner.changed") return this.#change(event);
    if (event.type === "notice") return el("li.step", {}, `${s.system}: ${event.data.text ?? ""}`);
    if (QUIET.has(event.type)) return null;
    return this.#step(event);
  }

  #message(event) {
    const [kind] = event.by.split(":");
    const name = kind === "customer" ? s.customer : event.data.name ?? event.by;
    const badge = s.kinds[kind];
    const bubble = el("div.bubble");
    bubble.append(render(event.data.text ?? ""));
    return el(`li.said.${kind}`, {},
      el("div.who", {}, el("b", {}, name), ...(badge ? [el("span.kind", {}, badge)] : []), el("time", { datetime: event.at }, time.format(new Date(event.at)))),
      bubble);
  }

  #change(event) {
    const { data } = event;
    const node = el("li.change", {},
      el("div.hands", {}, keyTag(party(event.owner_from, data.from_name), {}), el("span", {}, "→"), keyTag(party(event.owner_to, data.to_name), {})));
    const decided = s.decidedBy[data.decided_by];
    const why = data.decided_by === "person" ? data.reason || decided : [data.reason, decided].filter(Boolean).join(" · ");
    if (why) node.append(el("p.why", {}, why));
    const brief = this.#brief(data.brief);
    if (brief) node.append(brief);
    return node;
  }

  #brief(brief) {
    const rows = Object.entries(s.briefParts).flatMap(([key, label]) => {
      const value = brief?.[key];
      const lines = Array.isArray(value) ? value : value ? [value] : [];
      return lines.length ? [el("dt", {}, label), ...lines.map((line) => el("dd", {}, String(line)))] : [];
    });
    return rows.length ? el("details.brief", { open: true }, el("summary", {}, s.brief), el("dl", {}, ...rows)) : null;
  }

  #step(event) {
    const words = s.steps[event.type];
    const [, id] = event.by.split(":");
    return el("li.step", {}, `${id ?? s.system}: ${words ? words(event.data) : event.type}`);
  }
}
