/** Where the visitor writes. Enter sends, Shift+Enter breaks the line, and an open input method is left alone. */
import { el } from "./dom.js";
import { count } from "./thread.js";

const SHOW_COUNT_BELOW = 0.1; // of the limit
const ENVELOPE_BYTES = 256; // of a frame around its text
const TYPING_EVERY_MS = 3000;
const TYPING_ENDS_MS = 5000;

export class Composer {
  #typedAt = 0;
  #ends = 0;

  constructor(strings, { send, typing }) {
    this.strings = strings;
    this.limit = 4000; // characters
    this.maxBytes = 32_768; // of a frame
    this.onSend = send;
    this.onTyping = typing;
    this.box = el("textarea", { rows: "1", "aria-label": strings.composer, placeholder: strings.placeholder, enterkeyhint: "send", oninput: () => this.#changed(), onkeydown: (event) => this.#key(event) });
    this.button = el("button.send", { type: "submit", disabled: true }, strings.send);
    this.count = el("div.count", { hidden: true, role: "status" });
    this.node = el("form", { novalidate: true, onsubmit: (event) => this.#submit(event) }, this.box, this.button, this.count);
  }

  get text() {
    return this.box.value.toWellFormed?.() ?? this.box.value;
  }

  fill(text) {
    this.box.value = text;
    this.#changed();
    this.box.focus();
  }

  enable(on) {
    this.box.disabled = !on;
    this.#draw();
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.node.requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    const text = this.text.trim();
    if (!text || this.#left(text) < 0 || this.box.disabled) return;
    if (!this.onSend(text)) return;
    this.box.value = "";
    this.#stopTyping();
    this.#draw();
    this.box.focus();
  }

  #changed() {
    this.#draw();
    if (!this.text.trim()) return this.#stopTyping();
    const now = Date.now();
    if (now - this.#typedAt > TYPING_EVERY_MS) {
      this.#typedAt = now;
      this.onTyping(true);
    }
    clearTimeout(this.#ends);
    this.#ends = setTimeout(() => this.#stopTyping(), TYPING_ENDS_MS);
  }

  #stopTyping() {
    clearTimeout(this.#ends);
    if (this.#typedAt) this.onTyping(false);
    this.#typedAt = 0;
  }

  /** How many characters still fit: by their number, and by the bytes of the frame that carries them. */
  #left(text) {
    const bytes = new TextEncoder().encode(JSON.stringify(text)).length;
    return Math.min(this.limit - count(text), Math.floor((this.maxBytes - ENVELOPE_BYTES - bytes) / 3));
  }

  #draw() {
    const text = this.text.trim();
    const left = this.#left(text);
    this.button.disabled = this.box.disabled || !text || left < 0;
    this.count.hidden = left > this.limit * SHOW_COUNT_BELOW;
    this.count.classList.toggle("over", left < 0);
    if (!this.count.hidden) this.count.textContent = left < 0 ? this.strings.tooLong(-left) : this.strings.left(left);
    if (!CSS.supports("field-sizing", "content")) {
      this.box.rows = Math.min(6, Math.max(1, this.text.split("\n").length));
    }
  }
}
