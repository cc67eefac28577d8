/** Picks the desk's texts by the browser's language. */
import en from "./strings/en.js";
import zh from "./strings/zh.js";

export const language = navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
export const s = language === "en" ? en : zh;
