// The controls for the model and the theme.
import { call } from "./api.js";
import { el } from "./dom.js";

const THEMES = ["system", "light", "dark"];

export function setUpTheme(button, name) {
  let theme = document.documentElement.dataset.theme ?? "system";
  const show = () => {
    name.textContent = theme;
    button.setAttribute("aria-label", `Theme: ${theme}`);
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    show();
  });
  show();
}

export function setUpProviders(select, showError, speak) {
  let active = "";

  async function refresh() {
    try {
      const rows = await call("GET", "/api/llm-providers");
      active = rows.find((row) => row.active)?.id ?? "";
      const options = rows.map((row) => el("option", { value: row.id }, optionText(row)));
      if (active === "") options.unshift(el("option", { value: "" }, "None active"));
      select.replaceChildren(...options);
      select.value = active;
      select.disabled = rows.length === 0;
    } catch (error) {
      if (error.status !== 401) showError(error);
    }
  }

  select.addEventListener("change", () => {
    const name = select.value;
    call("PATCH", "/api/llm-providers/active", { name }).then(
      () => {
        active = name;
        speak(`${name} is now active`);
      },
      (error) => {
        select.value = active;
        showError(error);
      },
    );
  });
  return { refresh };
}

/** Marks a provider whose required configuration is missing. */
function optionText({ id, label, plugin, config, config_schema }) {
  const title = label || id;
  const full = title.includes(plugin) ? title : `${title} (${plugin})`;
  const ready = (config_schema?.required ?? []).every((name) => name in config);
  return ready ? full : `${full}, not configured`;
}
