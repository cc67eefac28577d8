/** The list of conversations, grouped by who must look. Keeps its nodes, so that focus stays where it is. */
import { el, keyTag } from "../widget/dom.js";
import { s } from "./strings.js";

const ORDER = ["queue", "mine", "human", "ai", "closed"];

export function ago(iso, now = Date.now()) {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (minutes < 1) return s.ago.now;
  if (minutes < 60) return s.ago.minutes(minutes);
  if (minutes < 24 * 60) return s.ago.hours(Math.floor(minutes / 60));
  return s.ago.days(Math.floor(minutes / (24 * 60)));
}

/** Which group a conversation is in, for the person with this id. */
export function groupOf(conversation, me) {
  if (conversation.status === "closed") return "closed";
  const { kind, id } = conversation.owner;
  if (kind === "human") return id === me ? "mine" : "human";
  return kind === "queue" || kind === "nobody" ? "queue" : "ai";
}

export class List {
  constructor(node, me, choose) {
    this.node = node;
    this.me = me;
    this.choose = choose;
    this.rows = new Map();
    this.groups = new Map(ORDER.map((name) => [name, this.#group(name)]));
    this.empty = el("p.empty", {}, s.none);
    node.replaceChildren(this.empty, ...[...this.groups.values()].map((group) => group.section));
  }

  #group(name) {
    const heading = el("h2", {}, s.groups[name]);
    const count = el("span.number");
    const list = el("ul");
    heading.append(" ", count);
    return { section: el(`section.group.${name}`, { hidden: true }, heading, list), list, count };
  }

  draw(conversations, chosen) {
    const seen = new Set(conversations.map((one) => one.id));
    for (const [id, row] of this.rows) if (!seen.has(id)) (row.remove(), this.rows.delete(id));
    const places = new Map(ORDER.map((name) => [name, []]));
    for (const one of conversations) places.get(groupOf(one, this.me)).push(this.#row(one, chosen));
    for (const [name, rows] of places) {
      const group = this.groups.get(name);
      group.section.hidden = rows.length === 0;
      group.count.textContent = String(rows.length);
      rows.forEach((row, index) => {
        if (group.list.children[index] !== row) group.list.insertBefore(row, group.list.children[index] ?? null);
      });
    }
    this.empty.hidden = conversations.length > 0;
    const waiting = places.get("queue").length;
    document.title = (waiting ? `(${waiting}) ` : "") + `${s.title} · Frontdesk`;
  }

  #row(one, chosen) {
    const row = this.rows.get(one.id) ?? el("li", {}, el("button", { type: "button", onclick: () => this.choose(one.id) }));
    this.rows.set(one.id, row);
    const button = row.firstElementChild;
    button.toggleAttribute("aria-current", one.id === chosen);
    const mark = JSON.stringify([one.seq, one.owner, one.waiting, one.approvals, ago(one.updated)]);
    if (row.dataset.mark === mark) return row;
    row.dataset.mark = mark;
    const who = one.last_by === "customer" ? s.customer : null;
    button.replaceChildren(
      el("span.line", {}, keyTag(one.owner, { nobody: s.kinds.nobody }), el("time", { datetime: one.updated }, ago(one.updated))),
      el("span.last", {}, who && el("b", {}, `${who}: `), one.last_text ?? ""),
      ...(one.approvals > 0 ? [el("span.waiting", {}, s.approvals.title)] : []),
      ...(one.waiting > 0 && one.owner.kind !== "ai" ? [el("span.waiting", {}, s.unanswered(one.waiting))] : []),
    );
    return row;
  }
}
