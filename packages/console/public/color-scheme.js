// Loaded in the head and not deferred, so that the page is never painted in the wrong color scheme first.
(() => {
  const chosen = localStorage.getItem("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const scheme = chosen === "light" || chosen === "dark" ? chosen : dark ? "dark" : "light";
  document.documentElement.dataset.mantineColorScheme = scheme;
})();
