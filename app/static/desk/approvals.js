/** Calls of the open conversation that wait for somebody's word, with the buttons that give it. */
import { el } from "../widget/dom.js";
import { s } from "./strings.js";

export class Approvals {
  /** `answer(id, verdict)` gives a person's word; what it throws is said by the caller. */
  constructor(client, cid, answer) {
    this.client = client;
    this.cid = cid;
    this.answer = answer;
    this.node = el("ul.approvals", { "aria-label": s.approvals.title, hidden: true });
  }

  /** Something was asked or decided, or the owner changed: look again. */
  async load() {
    const found = await this.client.get(`/conversations/${encodeURIComponent(this.cid)}/approvals`).catch(() => null);
    if (found) this.#draw(found.approvals.filter((one) => one.state === "asked" && !one.void));
  }

  #draw(waiting) {
    this.node.hidden = waiting.length === 0;
    this.node.replaceChildren(...waiting.map((one) => this.#row(one)));
  }

  #row(one) {
    const facts = Object.entries(one.arguments).map(([key, value]) => el("span.value", {}, el("b", {}, key), ` ${typeof value === "string" ? value : JSON.stringify(value)}`));
    const until = new Date(one.deadline).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const buttons = one.approver === "customer" ? [el("span.what", {}, s.approvals.customer)] : [
      this.#button(one, "granted", "primary", s.approvals.approve),
      this.#button(one, "refused", "secondary", s.approvals.deny),
    ];
    return el("li.approval", {},
      el("span.call", {}, el("b", {}, one.tool), " ", ...facts),
      el("span.what", {}, s.approvals.until(until, one.default)),
      el("span.buttons", {}, ...buttons));
  }

  #button(one, verdict, look, text) {
    return el(`button.${look}`, { type: "button", onclick: async ({ currentTarget }) => {
      for (const button of currentTarget.parentElement.children) button.disabled = true; // one answer counts
      await this.answer(one.id, verdict);
      await this.load();
    } }, text);
  }
}
