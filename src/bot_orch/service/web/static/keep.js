// What a person types stays until the answer is final: over reloads, lost leases, expired tickets and failed requests.
// It is kept in this tab only.
const ticket = document.querySelector("[data-ticket]");
const fields = [...document.querySelectorAll("textarea[name=text], input[name=reason]")];
const prefix = ticket && `typed-${ticket.dataset.ticket}-`;

function nameOf(field) {
  return prefix + field.name;
}

function saved() {
  return Object.keys(sessionStorage).filter((name) => name.startsWith(prefix)).sort();
}

function store(field) {
  if (field.value.trim() && field.value !== field.defaultValue) sessionStorage.setItem(nameOf(field), field.value);
  else sessionStorage.removeItem(nameOf(field));
}

// Texts that have no field on this page, because the ticket is closed or not this person's any more.
function showRest() {
  const place = document.getElementById("kept");
  const shown = new Set(fields.map(nameOf));
  const rest = saved().filter((name) => !shown.has(name));
  if (!rest.length || place.children.length) return;
  const card = document.createElement("section");
  card.className = "card kept";
  const title = document.createElement("h2");
  title.textContent = "What you typed";
  const hint = document.createElement("p");
  hint.className = "muted";
  hint.textContent = "It was not sent. It stays here until you discard it or close this tab.";
  const boxes = rest.map((name) => {
    const box = document.createElement("textarea");
    box.readOnly = true;
    box.rows = 4;
    box.value = sessionStorage.getItem(name);
    box.setAttribute("aria-label", "What you typed");
    return box;
  });
  const row = document.createElement("div");
  row.className = "row";
  row.append(
    button("Copy", async (self) => {
      boxes[0].select();
      await navigator.clipboard.writeText(boxes.map((box) => box.value).join("\n\n")).catch(() => document.execCommand("copy"));
      self.textContent = "Copied";
    }),
    button("Discard", () => { rest.forEach((name) => sessionStorage.removeItem(name)); card.remove(); }),
  );
  card.append(title, hint, ...boxes, row);
  place.replaceChildren(card);
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => act(made));
  return made;
}

export function keepTyped() {
  if (!ticket) return;
  if (ticket.dataset.final) saved().forEach((name) => sessionStorage.removeItem(name));
  for (const field of fields) {
    const before = sessionStorage.getItem(nameOf(field));
    if (before !== null) field.value = before;
    field.addEventListener("input", () => store(field));
  }
  if (!ticket.dataset.final) showRest();
}
