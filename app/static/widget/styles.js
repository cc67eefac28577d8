/**
 * The widget's look, as one constructable style sheet: works under a CSP without 'unsafe-inline'.
 * A host page sets the --fd-* variables; everything else is inside.
 */
const css = `
:host {
  --paper: var(--fd-paper, #f6f2e8);
  --card: var(--fd-card, #fffdf7);
  --ink: var(--fd-ink, #1d2925);
  --soft: var(--fd-soft, #5d6a64);
  --line: var(--fd-line, #e2dac8);
  --green: var(--fd-accent, #1f4d3f);
  --on-green: var(--fd-on-accent, #fbf6e9);
  --brass: #8a5a14;
  --brass-line: #d9b777;
  --brass-bg: #fbf0d9;
  --red: #a3341f;
  --focus: #b9772a;
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "URW Palladio L", "Noto Serif", "Songti SC", Georgia, serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif;
  display: block;
  container-type: inline-size;
  color: var(--ink);
  background: var(--card);
  font: 1rem/1.5 var(--sans);
  text-align: start;
}
:host([hidden]) { display: none; }
@media (prefers-color-scheme: dark) {
  :host {
    --paper: var(--fd-paper, #101a17);
    --card: var(--fd-card, #17231f);
    --ink: var(--fd-ink, #ebe6d9);
    --soft: var(--fd-soft, #a5b1ab);
    --line: var(--fd-line, #2c3d37);
    --green: var(--fd-accent, #2f6b58);
    --on-green: var(--fd-on-accent, #f6f2e6);
    --brass: #e3b768;
    --brass-line: #77602f;
    --brass-bg: #2b2616;
    --red: #f0917c;
    --focus: #e3b768;
  }
}
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
button, textarea { font: inherit; color: inherit; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }

.frame { display: grid; grid-template-rows: auto auto 1fr auto auto; height: 100%; min-height: 0; }

/* who holds the key */
header { display: flex; align-items: center; gap: .75rem; padding: .75rem 1rem; border-bottom: 1px solid var(--line); }
.owner { display: flex; align-items: center; flex-wrap: wrap; gap: .25rem .6rem; min-width: 0; flex: 1; }
.owner .what { color: var(--soft); font-size: .8125rem; }
.tag {
  display: inline-flex; align-items: center; gap: .5rem; max-width: 100%;
  padding: .2rem .8rem .2rem .6rem; border: 1px solid currentColor; border-radius: .4rem 1rem 1rem .4rem;
  font-family: var(--serif); font-weight: 600; line-height: 1.35; color: var(--green);
}
.tag::before { content: ""; flex: none; width: .5rem; height: .5rem; border: 1.5px solid currentColor; border-radius: 50%; }
.tag b { font: inherit; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.tag.human, .tag.queue { color: var(--brass); background: var(--brass-bg); }
@media (prefers-color-scheme: dark) { .tag.ai { color: #8fcdb2; } }
.quiet {
  border: 1px solid transparent; background: none; border-radius: .5rem; padding: .4rem .6rem; min-height: 2.25rem;
  font-size: .8125rem; color: var(--soft); white-space: nowrap;
}
.quiet:hover { border-color: var(--line); color: var(--ink); }

.strip { padding: .5rem 1rem; font-size: .8125rem; line-height: 1.4; color: var(--soft); background: var(--paper); border-bottom: 1px solid var(--line); }
.strip.bad { color: var(--red); display: flex; gap: .75rem; align-items: center; justify-content: space-between; flex-wrap: wrap; }
.strip.bad button { border: 1px solid currentColor; background: none; border-radius: .5rem; padding: .25rem .7rem; min-height: 2rem; }
.strips:empty { display: none; }

/* the conversation */
.scroll { position: relative; overflow-y: auto; overscroll-behavior: contain; padding: 1.25rem max(1rem, (100cqi - 50rem) / 2) .5rem; scrollbar-width: thin; scrollbar-color: var(--line) transparent; }
.hello { max-width: 34rem; color: var(--soft); font-size: .875rem; margin: 0 0 1.25rem; }
.hello p { margin: 0 0 .9rem; }
.chips { display: flex; flex-direction: column; align-items: flex-start; gap: .5rem; padding: 0; margin: .35rem 0 0; list-style: none; }
.chips button {
  border: 1px solid var(--line); background: var(--card); color: var(--ink); border-radius: .9rem; padding: .45rem .85rem;
  text-align: start; line-height: 1.35; min-height: 2.25rem;
}
.chips button:hover { border-color: var(--green); }
.log { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; }
.drafts { display: flex; flex-direction: column; }
.msg { max-width: min(34rem, 86%); margin-top: .3rem; align-self: flex-start; }
.msg .who { display: flex; gap: .45rem; align-items: baseline; margin: .75rem .15rem .2rem; font-size: .8125rem; color: var(--soft); }
.msg .who b { font-family: var(--serif); font-size: .9375rem; color: var(--ink); }
.msg .who .kind { border: 1px solid var(--line); border-radius: .3rem; padding: 0 .3rem; font-size: .6875rem; letter-spacing: .03em; }
.msg.human .who .kind { border-color: var(--brass-line); color: var(--brass); }
.msg.follows .who { display: none; }
.bubble {
  width: fit-content; padding: .55rem .85rem; border: 1px solid var(--line); border-radius: .25rem 1rem 1rem 1rem; background: var(--card);
  overflow-wrap: anywhere; white-space: pre-wrap;
}
.bubble p { margin: 0 0 .6rem; }
.bubble p:last-child { margin: 0; }
.bubble a { color: inherit; text-underline-offset: .15em; }
.msg.follows .bubble { border-top-left-radius: 1rem; }
.msg.human .bubble { background: var(--brass-bg); border-color: var(--brass-line); }
.msg.own { align-self: flex-end; margin-top: .75rem; }
.msg.own.follows { margin-top: .3rem; }
.msg.own .who { display: none; }
.msg.own .bubble { margin-inline-start: auto; }
.msg.own .bubble { background: var(--green); border-color: transparent; color: var(--on-green); border-radius: 1rem .25rem 1rem 1rem; }
.msg.own.follows .bubble { border-top-right-radius: 1rem; }
.msg.own.sending .bubble { opacity: .72; }
.msg .state { font-size: .75rem; color: var(--soft); text-align: end; margin: .2rem .25rem 0; }
.msg.failed .state { color: var(--red); }
.msg .state button { border: 0; background: none; padding: .25rem .35rem; text-decoration: underline; min-height: 1.75rem; }
.msg.draft .bubble::after { content: ""; display: inline-block; width: .45em; height: 1em; margin-inline-start: .15em; vertical-align: -.12em; border-radius: 1px; background: var(--brass-line); animation: blink 1s steps(2) infinite; }
@keyframes blink { 50% { opacity: 0; } }

/* the key changes hands */
.change { align-self: stretch; margin: 1.1rem 0 .5rem; font-size: .8125rem; color: var(--soft); text-align: center; }
.change .hands { display: flex; align-items: center; justify-content: center; gap: .55rem; font-size: .8125rem; }
.change .hands .tag { min-width: 0; }
.change .hands .tag:not(.from) { flex: none; max-width: 70%; }
.change .hands::before, .change .hands::after { content: ""; flex: 1 1 .5rem; height: 1px; background: var(--line); }
.change .arrow { color: var(--soft); }
.change .from { opacity: .7; }
.change p { margin: .35rem 0 0; color: var(--ink); }
.change + .msg { margin-top: 0; }
.change + .msg .who { margin-top: .35rem; }
.notice { align-self: center; max-width: 34rem; margin: .9rem 0 .3rem; padding: .35rem .8rem; font-size: .8125rem; color: var(--soft); border: 1px dashed var(--line); border-radius: .6rem; text-align: center; }

.busy { min-height: 1.75rem; padding: .35rem .15rem 0; font-size: .8125rem; color: var(--soft); display: flex; align-items: center; gap: .5rem; }
.dots { display: inline-flex; gap: .2rem; }
.dots i { width: .3rem; height: .3rem; border-radius: 50%; background: currentColor; animation: dot 1.2s infinite; }
.dots i:nth-child(2) { animation-delay: .15s; }
.dots i:nth-child(3) { animation-delay: .3s; }
@keyframes dot { 0%, 60%, 100% { opacity: .25; } 30% { opacity: 1; } }
.below { position: relative; height: 0; }
.below button { position: absolute; bottom: .5rem; left: 50%; transform: translateX(-50%); border: 1px solid var(--line); background: var(--card); border-radius: 1rem; padding: .25rem .9rem; font-size: .8125rem; box-shadow: 0 2px 10px rgb(0 0 0 / .12); min-height: 2rem; }

/* writing */
form { display: grid; grid-template-columns: 1fr auto; gap: .5rem; align-items: end; padding: .75rem max(1rem, (100cqi - 50rem) / 2) max(.9rem, env(safe-area-inset-bottom)); border-top: 1px solid var(--line); }
textarea {
  resize: none; width: 100%; min-height: 2.75rem; max-height: 9.5rem; padding: .58rem .85rem; line-height: 1.5; overflow-y: auto;
  border: 1px solid var(--line); border-radius: .8rem; background: var(--paper); field-sizing: content;
}
textarea::placeholder { color: var(--soft); opacity: 1; }
textarea:focus-visible { outline-offset: 0; }
.send { border: 0; border-radius: .8rem; padding: 0 1.1rem; min-height: 2.75rem; background: var(--green); color: var(--on-green); font-weight: 600; }
.send:disabled { opacity: .45; cursor: default; }
.count { grid-column: 1 / -1; font-size: .75rem; color: var(--soft); }
.count.over { color: var(--red); }
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

@container (max-width: 30rem) {
  header { padding: .6rem .75rem; }
  .strip { padding-inline: .75rem; }
  .scroll { padding-inline: .75rem; }
  form { padding-inline: .75rem; }
  .msg { max-width: 90%; }
}
@media (prefers-reduced-motion: reduce) { *, *::before, *::after { animation: none !important; } }
@media (forced-colors: active) { .msg.own .bubble, .send { border: 1px solid; } }
`;

export const sheet = new CSSStyleSheet();
sheet.replaceSync(css);
