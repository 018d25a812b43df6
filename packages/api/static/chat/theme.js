// Loaded in the head and not deferred, so that the page is never painted in the wrong theme first.
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
