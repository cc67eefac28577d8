/** Calls of the REST API with the key, and its event stream. The key is in a header, never in an address. */

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.owner = error.owner ?? "";
  }
}

export class Client {
  constructor(key) {
    this.key = key;
  }

  get(path) {
    return this.#call(path, {});
  }

  post(path, body) {
    return this.#call(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  }

  async #call(path, options) {
    const headers = { ...options.headers, authorization: `Bearer ${this.key}` };
    const answer = await fetch(`/v1${path}`, { ...options, headers, signal: AbortSignal.timeout(10_000) });
    const json = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Refused(answer.status, json.error ?? { code: "error", message: `status ${answer.status}` });
    return json;
  }

  /** Server-sent events until `signal` aborts; `on(name, data)` for each. Comes back after a break, without a gap. */
  async follow(cid, after, on, signal) {
    let seq = after;
    while (!signal.aborted) {
      try {
        await this.#stream(`/v1/conversations/${encodeURIComponent(cid)}/events?watch=false&after=${seq}`, signal, (name, data) => {
          if ("seq" in data) seq = data.seq;
          on(name, data);
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status !== 503) return on("refused", error);
      }
      await new Promise((resolve) => setTimeout(resolve, 500 + Math.random() * 1500));
    }
  }

  async #stream(url, signal, on) {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${this.key}` }, signal });
    if (!answer.ok) throw new Refused(answer.status, (await answer.json()).error);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) deliver(part, on);
    }
  }
}

function deliver(part, on) {
  const fields = new Map();
  for (const line of part.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
  }
  if (fields.has("data")) on(fields.get("event"), JSON.parse(fields.get("data")));
}
