/**
 * From message text to DOM nodes: paragraphs, line breaks, and links whose scheme is allowed. Nodes are built one by one,
 * never parsed from markup, so a text cannot become anything else. One pass over at most 8,000 characters.
 */

const MAX_CHARS = 8000;
const LINK = /\bhttps?:\/\/[^\s<>"'`\u3000-\u303f\uff00-\uffef]{1,2000}/gu;
const TRAILING = /[.,;:!?)\]}]+$/;

export function render(text) {
  const fragment = document.createDocumentFragment();
  for (const paragraph of text.slice(0, MAX_CHARS).split(/\n{2,}/)) {
    if (!paragraph.trim()) continue;
    const p = document.createElement("p");
    paragraph.split("\n").forEach((line, index) => {
      if (index) p.append(document.createElement("br"));
      p.append(...withLinks(line));
    });
    fragment.append(p);
  }
  return fragment;
}

function withLinks(line) {
  const nodes = [];
  let done = 0;
  for (const match of line.matchAll(LINK)) {
    const address = match[0].replace(TRAILING, "");
    const link = linkTo(address);
    if (!link) continue;
    nodes.push(line.slice(done, match.index), link);
    done = match.index + address.length;
  }
  nodes.push(line.slice(done));
  return nodes;
}

function linkTo(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  if (url.username || url.password) return null; // https://bank.example@evil.example
  const a = document.createElement("a");
  a.href = url.href;
  a.rel = "noopener noreferrer nofollow";
  a.target = "_blank";
  a.textContent = address;
  return a;
}
