// Countdowns, keys, and fresh data for the queue. Everything here is a comfort: the page works without it.
const place = document.querySelector("[data-live]");
const text = document.querySelector("textarea[name=text]");
const keep = document.querySelector("[data-keep]");
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

function move(step) {
  const links = [...document.querySelectorAll(".ticket")];
  const at = links.indexOf(document.activeElement);
  links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
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
  if (event.key === "j" || event.key === "k") { move(event.key === "j" ? 1 : -1); return; }
  if (!/^[a-z0-9]$/.test(event.key)) return;
  const goal = document.querySelector(`[data-key="${event.key}"]`);
  if (!goal) return;
  event.preventDefault();
  if (typing(goal)) goal.focus(); else goal.click();
}

// What is typed survives a reload of the page.
function remember() {
  if (!text) return;
  const name = `answer-${keep.dataset.keep}`;
  const saved = sessionStorage.getItem(name);
  if (saved && !text.value) text.value = saved;
  text.addEventListener("input", () => sessionStorage.setItem(name, text.value));
  text.form.addEventListener("submit", () => sessionStorage.removeItem(name));
}

function changed() {
  if (typing(document.activeElement)) {
    if (document.getElementById("changed")) return;
    const line = document.createElement("p");
    line.id = "changed";
    line.className = "notice bad";
    line.setAttribute("role", "status");
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = "Show it";
    line.append("This ticket has changed. What you typed is kept. ", link);
    place.after(line);
  } else location.replace(location.pathname);
}

async function refresh() {
  const answer = await fetch(place.dataset.live);
  if (!answer.ok) return;
  const fresh = await answer.json();
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

async function loop() {
  if (!document.hidden) await refresh().catch(() => {});
  setTimeout(loop, 1500);
}

addEventListener("keydown", keys);
remember();
countdown();
setInterval(countdown, 250);
setTimeout(loop, 1500);
