const folds = () => document.querySelectorAll("details");
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let fold = target && target.closest("details");
  if (!fold) return;
  for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
addEventListener("load", reveal);
addEventListener("beforeprint", () => folds().forEach((d) => { d.dataset.was = d.open ? "open" : ""; d.open = true; }));
addEventListener("afterprint", () => folds().forEach((d) => { d.open = d.dataset.was === "open"; }));
