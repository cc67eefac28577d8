/** The desk: who you are, the list, and the conversation you opened. */
import { el } from "./widget/dom.js";
import { uuid7 } from "./widget/ids.js";
import { Client, Refused } from "./desk/client.js";
import { ConversationView, heldTokens, words } from "./desk/conversation.js";
import { List } from "./desk/list.js";
import { language, s } from "./desk/strings.js";

const REFRESH_MS = 2000;
const PRESENCE_MS = 45_000; // the server believes in three minutes; hidden tabs wake once a minute
const KEY = "frontdesk:desk:key";
const PERSON = "frontdesk:desk:person";

document.documentElement.lang = language;
document.title = `${s.title} · Frontdesk`;
const root = document.getElementById("desk");

/** `#key=...` is taken once and removed, so that it is in no history, bookmark or screenshot. */
function keyFromFragment() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  sessionStorage.setItem(KEY, key);
}

/** The login that goes into the log: from the name where it has Latin letters, and something random, since two
 *  people may have the same name and must not be taken for one. It stays in this browser. */
function personOf(name) {
  const known = JSON.parse(localStorage.getItem(PERSON) ?? "null");
  if (known?.name === name) return known;
  const slug = name.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);
  const person = { id: `${slug || "person"}-${uuid7().slice(-6)}`, name };
  localStorage.setItem(PERSON, JSON.stringify(person));
  return person;
}

function askWho(problem = "") {
  const key = el("input", { type: "password", required: true, autocomplete: "off", id: "key", value: sessionStorage.getItem(KEY) ?? "" });
  const name = el("input", { type: "text", required: true, maxlength: "80", autocomplete: "name", id: "name", value: JSON.parse(localStorage.getItem(PERSON) ?? "null")?.name ?? "" });
  const enter = (event) => {
    event.preventDefault();
    if (/[^\x21-\x7e]/.test(key.value.trim())) return askWho(s.login.wrong); // no key has it, and no header takes it
    sessionStorage.setItem(KEY, key.value.trim());
    open(personOf(name.value.trim()));
  };
  root.className = "door";
  root.replaceChildren(el("form.login", { onsubmit: enter },
    el("p.brand", {}, el("img", { src: "/static/bell.svg", alt: "", width: "36", height: "36" }), el("span", {}, "Frontdesk")),
    el("h1", {}, s.login.heading),
    el("p.lead", {}, s.login.lead),
    el("p.trouble", { role: "alert", hidden: !problem }, problem),
    el("label", {}, s.login.name, name, el("small", {}, s.login.nameHint)),
    el("label", {}, s.login.key, key, el("small", {}, s.login.keyHint)),
    el("button.primary", { type: "submit" }, s.login.open)));
  (name.value ? key : name).focus();
}

async function open(person) {
  const client = new Client(sessionStorage.getItem(KEY));
  try {
    const roster = await client.get("/roster");
    new DeskPage(client, person, roster).start();
  } catch (error) {
    askWho(error instanceof Refused && error.status === 401 ? s.login.wrong : words(error));
  }
}

class DeskPage {
  #timer = 0;
  #presence = 0;
  #view = null;
  #chosen = null;

  constructor(client, person, roster) {
    this.client = client;
    this.person = person;
    this.roster = roster;
    this.listNode = el("div.list");
    this.trouble = el("p.trouble", { role: "status", hidden: true }, s.offline);
    this.place = el("main.place", {}, el("p.pick", {}, s.pick));
    this.list = new List(this.listNode, person.id, (cid) => this.choose(cid));
  }

  start() {
    const leave = el("button.plain", { type: "button", onclick: () => this.#leave() }, s.leave);
    root.className = "room";
    root.replaceChildren(
      el("nav.side", { "aria-label": s.title },
        el("div.top", {}, el("p.brand", {}, el("img", { src: "/static/bell.svg", alt: "", width: "30", height: "30" }), el("span", {}, "Frontdesk")), el("span.me", { title: this.person.name }, this.person.name), leave),
        el("p.shop", {}, this.roster.desk), this.trouble, this.listNode),
      this.place);
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    this.#presence = setInterval(() => this.#stay(), PRESENCE_MS);
    this.refresh();
  }

  /** Without this the server gives a conversation to a queue, because nobody seems to be here any more. */
  async #stay() {
    for (const { cid, token, forget } of heldTokens()) {
      try {
        await this.client.post(`/conversations/${encodeURIComponent(cid)}/presence`, { token });
      } catch (error) {
        if (error instanceof Refused && [404, 409].includes(error.status)) forget();
      }
    }
  }

  async refresh() {
    clearTimeout(this.#timer);
    try {
      const { conversations } = await this.client.get("/conversations?limit=100");
      this.list.draw(conversations, this.#chosen);
      this.trouble.hidden = true;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return askWho(s.login.wrong);
      this.trouble.hidden = false;
    }
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.refresh(), REFRESH_MS);
  }

  async choose(cid) {
    this.#view?.close();
    this.#chosen = cid;
    const view = new ConversationView(this.client, this.person, this.roster, { changed: () => this.refresh(), back: () => this.#back() });
    this.#view = view;
    try {
      await view.open(cid);
    } catch (error) {
      if (this.#view === view) this.#notOpened(cid, error);
      return view.close();
    }
    if (this.#view !== view) return view.close();
    this.place.replaceChildren(view.node);
    root.classList.add("reading");
    view.timeline.end();
    this.refresh();
  }

  #notOpened(cid, error) {
    root.classList.add("reading");
    this.place.replaceChildren(el("div.pick", {}, el("div.failed", {},
      el("p.trouble", { role: "alert" }, words(error)),
      el("button.secondary", { type: "button", onclick: () => this.choose(cid) }, s.again),
      el("button.plain.back", { type: "button", onclick: () => this.#back() }, `← ${s.back}`))));
    this.refresh();
  }

  #back() {
    this.#view?.close();
    this.#view = null;
    this.#chosen = null;
    root.classList.remove("reading");
    this.place.replaceChildren(el("p.pick", {}, s.pick));
    this.refresh();
  }

  #leave() {
    clearTimeout(this.#timer);
    clearInterval(this.#presence);
    sessionStorage.clear();
    location.reload();
  }
}

keyFromFragment();
const known = JSON.parse(localStorage.getItem(PERSON) ?? "null");
if (known && sessionStorage.getItem(KEY)) open(known);
else askWho();
