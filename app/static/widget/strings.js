/** Picks the texts for a language tag. English is the fallback. */
import en from "./strings/en.js";
import zh from "./strings/zh.js";

const ALL = { en, zh };

/** @param {string} wish a language tag such as "zh-CN" */
export function languageOf(wish) {
  const code = (wish || "en").toLowerCase().split("-")[0];
  return code in ALL ? code : "en";
}

export function stringsFor(wish) {
  return ALL[languageOf(wish)];
}
