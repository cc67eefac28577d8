/** The full-page chat: the texts of the page, and the rack that shows who held the key. */
import { el, keyTag } from "./widget/dom.js";
import { languageOf, stringsFor } from "./widget/strings.js";

const SHOWN = 6; // the newest owners

const language = languageOf(navigator.language);
const strings = stringsFor(language);
document.documentElement.lang = language === "zh" ? "zh-CN" : language;
for (const node of document.querySelectorAll("[data-text]")) node.textContent = strings.page[node.dataset.text];

document.addEventListener("frontdesk-owner", ({ detail: { trail } }) => {
  const items = trail.slice(-SHOWN).map((party) => el("li", {}, keyTag(party, strings)));
  const now = items.at(-1);
  now?.classList.add("now");
  now?.setAttribute("data-now", strings.page.holdsNow);
  document.getElementById("rack").replaceChildren(...items);
});

await import("./widget/frontdesk-chat.js"); // after the listener: the first owner comes with the first frame
