/** Building nodes by hand: text is always text. */

/** el("p.strip.bad", {role: "status"}, "text", child) */
export function el(what, attributes = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A hotel key's tag with the owner's name. */
export function keyTag(party, strings) {
  const name = partyName(party, strings);
  return el(`span.tag.${party?.kind ?? "nobody"}`, {}, el("b", {}, name));
}

export function partyName(party, strings) {
  if (!party) return strings.nobody;
  return party.name || { visitor: strings.you, system: strings.system, human: strings.human, nobody: strings.nobody }[party.kind] || party.id || strings.nobody;
}

export function kindText(party, strings) {
  return { ai: strings.ai, human: strings.human, queue: strings.queue }[party?.kind] ?? "";
}
