/**
 * Who this visitor is: the access token (in memory) and the refresh token (kept for the next visit).
 * Tabs that start at the same time share one visitor, because only one of them may ask at a time.
 */
import { load, remove, save } from "./storage.js";

export class SessionRefused extends Error {
  /** `final`: asking again does not help. */
  constructor(code, message, final) {
    super(message);
    this.code = code;
    this.final = final;
  }
}

export class Session {
  constructor(server, siteKey, language) {
    this.server = server;
    this.siteKey = siteKey;
    this.language = language;
    this.key = `frontdesk:${siteKey}:refresh`;
    this.conversation = null;
    this.token = null;
    this.desk = null;
  }

  /** Fetch a token; with `fresh` for a new conversation of the same visitor. */
  async open({ fresh = false } = {}) {
    const ask = () => this.#open(fresh);
    return navigator.locks ? navigator.locks.request(this.key, ask) : ask();
  }

  async #open(fresh) {
    const refresh = load(this.key);
    try {
      return await this.#post({ ...(refresh ? { refresh, new: fresh } : {}) });
    } catch (error) {
      if (error.code !== "refresh_refused") throw error;
      remove(this.key); // too old, or the server's secret changed: begin as a new visitor
      return this.#post({});
    }
  }

  async #post(body) {
    const answer = await fetch(new URL("/widget/session", this.server), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ site_key: this.siteKey, lang: this.language, ...body }),
      credentials: "omit",
      signal: AbortSignal.timeout(10_000),
    });
    const json = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const { code = "session", message = `status ${answer.status}` } = json.error ?? {};
      throw new SessionRefused(code, message, [400, 403, 404, 422].includes(answer.status));
    }
    this.token = json.token;
    this.conversation = json.conversation;
    this.desk = json.desk;
    save(this.key, json.refresh);
    return json;
  }
}
