// Countdowns, keys, fresh data and sending for the queue. Everything here is a comfort: the page works without it.
import { ask, keepAsking } from "./connection.js";
import { keepTyped } from "./keep.js";

const place = document.querySelector("[data-live]");
const text = document.querySelector("textarea[name=text]");
const skew = Number(place.dataset.now) / 1000 - Date.now();

function countdown() {
  const now = Date.now() + skew;
  for (const clock of document.querySelectorAll("[data-until]")) {
    const left = Math.max(0, Math.floor((Number(clock.dataset.until) / 1000 - now) / 1000));
    const [h, m, s] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
    clock.querySelector("b").textContent = (h ? `${h}:${String(m).padStart(2, "0")}` : String(m)) + `:${String(s).padStart(2, "0")}`;
    clock.classList.toggle("soon", left > 0 && left <= 30);
    clock.classList.toggle("over", left === 0);
  }
}

function typing(element) {
  return element.matches?.("input, textarea, select");
}

function keys(event) {
  const target = event.target;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && target === text) {
    event.preventDefault();
    text.form.requestSubmit();
    return;
  }
  if (event.key === "Escape" && typing(target)) target.blur();
  if (typing(target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!/^[a-z0-9]$/.test(event.key)) return;
  const goal = document.querySelector(`[data-key="${event.key}"]`);
  if (!goal) return;
  event.preventDefault();
  if (typing(goal)) goal.focus(); else goal.click();
}

function tell(id, ...content) {
  let line = document.getElementById(id);
  if (!line) {
    line = document.createElement("p");
    line.id = id;
    line.className = "notice bad";
    line.setAttribute("role", "alert");
    document.querySelector(".head").after(line);
  }
  line.replaceChildren(...content);
}

function anchor(href, words) {
  const made = document.createElement("a");
  made.href = href;
  made.textContent = words;
  return made;
}

const KEPT = text ? " What you typed is kept." : "";

// A form goes out in the background: if the server does not answer, the page stays as it is.
async function send(event) {
  const form = event.target;
  event.preventDefault();
  if (form.dataset.sending) return;
  form.dataset.sending = "yes";
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (answer.ok && answer.redirected) { location.assign(answer.url); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"); // read only, never inserted
    const said = page.querySelector(".notice.bad")?.textContent || `The server answered with status ${answer.status}.`;
    if (answer.status === 401) {
      tell("unsent", `Not sent: you are signed out.${KEPT} `, anchor(`/login?next=${encodeURIComponent(location.pathname + location.search)}`, "Sign in"));
    } else tell("unsent", `Not sent: ${said}.${KEPT} `.replace("..", "."), anchor(location.href, "Show the ticket as it is now"));
  } catch {
    tell("unsent", `Not sent: the server does not answer.${KEPT} Try again when the page says that it is live.`);
  } finally {
    delete form.dataset.sending;
  }
}

function changed() {
  const here = location.pathname + location.search;
  if (typing(document.activeElement)) {
    if (!document.querySelector("#changed, #unsent")) tell("changed", "This ticket has changed. What you typed is kept. ", anchor(here, "Show it"));
  } else location.replace(here);
}

async function refresh() {
  const fresh = await ask(place.dataset.live);
  if (fresh.stamp !== undefined) {
    if (fresh.stamp !== place.dataset.stamp) changed();
    return;
  }
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const template = document.createElement("template");
  template.innerHTML = fresh.html; // written by the server, which escapes every value
  place.replaceChildren(template.content);
  if (focused) place.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  countdown();
}

addEventListener("keydown", keys);
document.querySelector("main").addEventListener("submit", send);
keepTyped();
countdown();
setInterval(countdown, 250);
keepAsking(refresh, 1500);
