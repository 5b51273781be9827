// Before anything is drawn: light or dark as was chosen here, else as the system has it.
(() => {
  const chosen = localStorage.getItem("stream-tgat-theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
