// The page of a task: keys, saving while people write, and the time they spend. Without it the form works as well.
"use strict";

const form = document.getElementById("answers");
const saved = document.getElementById("saved");
const seconds = form.elements.seconds;
const fields = [...form.querySelectorAll("[data-field]")];
const WRITES = "textarea, input:not([type=radio], [type=checkbox]), select";
const IDLE = 60_000;
const PAUSE = 700;
const AGAIN = 5_000;
let active = Date.now();
let current = 0;
let timer = 0;
let changed = false;
let sent = false;

// ---------------------------------------------------------------- saving

const SAVING = "Saving";

const save = () => {
  clearTimeout(timer);
  if (sent) return;
  changed = false;
  saved.textContent = SAVING;
  saved.dispatchEvent(new Event("keep"));
  timer = setTimeout(() => { if (saved.textContent === SAVING) save(); }, AGAIN);
};

new MutationObserver(() => {
  if (changed && saved.textContent) saved.textContent = ""; // the answer to an earlier draft
}).observe(saved, { childList: true });

form.addEventListener("input", () => {
  changed = true;
  saved.textContent = "";
  clearTimeout(timer);
  timer = setTimeout(save, PAUSE);
});

form.addEventListener("submit", (event) => {
  if (sent) return event.preventDefault();
  sent = true;
  clearTimeout(timer);
});

addEventListener("pageshow", () => { sent = false; });

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden" && changed && !sent)
    navigator.sendBeacon(saved.getAttribute("hx-post"), new URLSearchParams(new FormData(form)));
});

// ---------------------------------------------------------------- time

for (const name of ["keydown", "pointerdown", "pointermove", "scroll"])
  addEventListener(name, () => { active = Date.now(); }, { passive: true });

setInterval(() => {
  if (document.visibilityState === "visible" && Date.now() - active < IDLE)
    seconds.value = String(Number(seconds.value) + 1);
}, 1_000);

// ---------------------------------------------------------------- keys

form.addEventListener("focusin", (event) => {
  const field = fields.indexOf(event.target.closest("[data-field]"));
  if (field >= 0) current = field;
});

const go = (to) => {
  current = Math.max(0, Math.min(fields.length - 1, to));
  const control = fields[current].querySelector(":checked") ?? fields[current].querySelector("input, textarea");
  control.focus();
};

const choose = (number) => {
  const option = fields[current].querySelectorAll("input[type=radio], input[type=checkbox]")[number - 1];
  if (!option) return;
  option.focus();
  option.click();
  if (option.type === "radio" && current + 1 < fields.length) go(current + 1);
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
  } else if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(WRITES)) {
    if (event.key === "Escape") event.target.blur();
  } else if (event.key >= "1" && event.key <= "9") {
    event.preventDefault();
    choose(Number(event.key));
  } else if (event.key === "Enter" && !event.target.closest("a, button, summary")) {
    event.preventDefault();
    form.requestSubmit();
  }
});

const wrong = form.querySelector("[aria-invalid=true]");
if (wrong) wrong.focus();
