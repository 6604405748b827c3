// The page of a live session: the revision as it is written, the time that people spend, and keys.
"use strict";

const revision = document.getElementById("revision");
const form = document.querySelector("form.turn");
const IDLE = 60_000;
let active = Date.now();

// ---------------------------------------------------------------- the revision

if (revision?.dataset.stream) {
  const status = document.getElementById("revision-status");
  const source = new EventSource(revision.dataset.stream);
  const end = () => { source.close(); location.reload(); };
  source.addEventListener("text", (event) => {
    if (status.textContent !== "The revision is coming.") status.textContent = "The revision is coming.";
    revision.textContent += JSON.parse(event.data);
  });
  source.addEventListener("done", end);
  source.addEventListener("failed", end);
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) status.textContent = "The connection was lost: load the page again.";
  });
}

// ---------------------------------------------------------------- time

for (const name of ["keydown", "pointerdown", "pointermove", "scroll"])
  addEventListener(name, () => { active = Date.now(); }, { passive: true });

setInterval(() => {
  const seconds = form?.elements.seconds;
  if (seconds && document.visibilityState === "visible" && Date.now() - active < IDLE)
    seconds.value = String(Number(seconds.value) + 1);
}, 1_000);

// ---------------------------------------------------------------- keys and the editor

const editor = document.getElementById("editor");
const update = () => {
  const chosen = form?.querySelector("input[name=rating]:checked");
  if (editor) editor.hidden = !chosen || chosen.value === "good";
};
form?.addEventListener("change", update);
update();

document.addEventListener("keydown", (event) => {
  if (!form) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
  } else if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("textarea, input[type=text]")) {
    const option = form.querySelectorAll("input[type=radio]")[Number(event.key) - 1];
    if (event.key >= "1" && event.key <= "9" && option) {
      event.preventDefault();
      option.focus();
      option.click();
    }
  } else if (event.key === "Escape") event.target.blur();
});

let sent = false;
form?.addEventListener("submit", (event) => {
  if (sent) return event.preventDefault();
  sent = true;
  clearTimeout(timer);
});

// ---------------------------------------------------------------- what is written is kept

const draft = () => new URLSearchParams(new FormData(form));
let timer = 0;
let changed = false;
form?.addEventListener("input", () => {
  changed = true;
  clearTimeout(timer);
  timer = setTimeout(() => {
    changed = false;
    fetch(form.dataset.draft, { method: "POST", body: draft() });
  }, 700);
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden" && changed && !sent) navigator.sendBeacon(form.dataset.draft, draft());
});

addEventListener("pageshow", () => { sent = false; });

const wrong = document.querySelector("[aria-invalid=true]");
if (wrong) wrong.focus();
else document.querySelector("[data-first]")?.focus({ preventScroll: true });
