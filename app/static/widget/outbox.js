/**
 * What the visitor wrote and the server has not acknowledged. Kept in localStorage, so that a reload, a crash or an
 * evening without network loses nothing; every message has its own id, so that sending it twice is harmless.
 */
import { load, remove, save } from "./storage.js";

export const MAX_ITEMS = 50;
export const MAX_AGE_MS = 24 * 3600 * 1000;
export const IN_FLIGHT = 8;

export class Outbox {
  constructor(conversation, now = Date.now) {
    this.key = `frontdesk:outbox:${conversation}`;
    this.now = now;
  }

  /** Oldest first, without those that are too old to be meant any more. */
  items() {
    const found = load(this.key);
    if (!Array.isArray(found)) return [];
    return found.filter((item) => this.now() - item.at < MAX_AGE_MS);
  }

  /** False when there are too many already. */
  add(cid, text) {
    const items = this.items();
    if (items.length >= MAX_ITEMS) return false;
    save(this.key, [...items, { cid, text, at: this.now(), failed: null }]);
    return true;
  }

  done(cid) {
    const rest = this.items().filter((item) => item.cid !== cid);
    if (rest.length) save(this.key, rest);
    else remove(this.key);
  }

  /** `code`: why it is not tried again by itself; null: try again. */
  mark(cid, code) {
    save(this.key, this.items().map((item) => (item.cid === cid ? { ...item, failed: code } : item)));
  }

  sendable() {
    return this.items().filter((item) => item.failed === null);
  }
}
