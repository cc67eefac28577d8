/** What a person wrote and has not sent, per conversation: it outlives opening another one, and a reload of this tab. */
import { uuid7 } from "../widget/ids.js";

const DRAFT = "frontdesk:desk:draft:";
const TRIED = "frontdesk:desk:tried:";

/** "sent" after a message went out, whichever view of the conversation sent it; `detail` is the conversation. */
export const drafts = new EventTarget();

export const draftOf = (cid) => sessionStorage.getItem(DRAFT + cid) ?? "";

export function keepDraft(cid, text) {
  if (text) sessionStorage.setItem(DRAFT + cid, text);
  else sessionStorage.removeItem(DRAFT + cid);
}

/** The same text tried again is the same message, because the first try may have arrived without our knowing. */
export function messageId(cid, text) {
  const tried = JSON.parse(sessionStorage.getItem(TRIED + cid) ?? "null");
  if (tried?.text === text) return tried.id;
  const id = uuid7();
  sessionStorage.setItem(TRIED + cid, JSON.stringify({ text, id }));
  return id;
}

/** Takes away what was sent, as it stood in the box, and leaves what was written after it. */
export function sent(cid, text) {
  sessionStorage.removeItem(TRIED + cid);
  const now = draftOf(cid);
  if (!now.startsWith(text)) return;
  keepDraft(cid, now.slice(text.length).trimStart());
  drafts.dispatchEvent(new CustomEvent("sent", { detail: cid }));
}
