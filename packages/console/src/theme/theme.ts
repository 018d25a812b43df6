import { createTheme, type MantineColorScheme, type MantineColorSchemeManager } from "@mantine/core";

/**
 * Mantine writes no style elements in the console, because the content security policy refuses them. Scroll locking
 * would write one, so dialogs do not lock the scrolling of the page behind them. The components are named by strings,
 * because an import would load them with the first page.
 */
export const consoleTheme = createTheme({
  primaryColor: "indigo",
  defaultRadius: "md",
  cursorType: "pointer",
  autoContrast: true,
  respectReducedMotion: true,
  components: {
    Anchor: { defaultProps: { inherit: true, underline: "always" } },
    Drawer: { defaultProps: { lockScroll: false } },
    Modal: { defaultProps: { lockScroll: false, centered: true } },
    // By default only a pointer reaches the button that clears a selection, and assistive technology does not see it.
    Select: {
      defaultProps: {
        clearButtonProps: { tabIndex: 0, "aria-label": "Clear", "aria-hidden": false, size: 24 },
      },
    },
    Tooltip: { defaultProps: { openDelay: 300, events: { hover: true, focus: true, touch: true } } },
  },
});

/** The chat page uses the same storage key, so both have the same color scheme. The default is that of the system. */
const KEY = "theme";

export function createColorSchemeManager(): MantineColorSchemeManager {
  let onStorage: ((event: StorageEvent) => void) | undefined;
  return {
    get: (fallback) => toScheme(localStorage.getItem(KEY)) ?? fallback,
    set(value) {
      if (value === "auto") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, value);
    },
    subscribe(onUpdate) {
      onStorage = ({ key, newValue }) => {
        if (key === KEY) onUpdate(toScheme(newValue) ?? "auto");
      };
      addEventListener("storage", onStorage);
    },
    unsubscribe() {
      if (onStorage !== undefined) removeEventListener("storage", onStorage);
    },
    clear: () => localStorage.removeItem(KEY),
  };
}

function toScheme(stored: string | null): MantineColorScheme | null {
  return stored === "light" || stored === "dark" ? stored : null;
}
