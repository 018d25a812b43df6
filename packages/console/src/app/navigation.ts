/** The pages in the order of the sidebar. The palette and the key sequences use the same list. */
import type { IconName } from "../parts/layout/icon.tsx";

export interface NavigationItem {
  label: string;
  to: string;
  icon: IconName;
  /** Pressed after `g`. */
  key?: string;
  /** A page of the gateway that is not part of the console. */
  external?: true;
}

export interface NavigationGroup {
  label: string | null;
  items: readonly NavigationItem[];
}

export const NAVIGATION: readonly NavigationGroup[] = [
  {
    label: null,
    items: [
      { label: "Home", to: "/", icon: "home", key: "h" },
      { label: "Approvals", to: "/approvals", icon: "approval", key: "a" },
      { label: "Sessions", to: "/sessions", icon: "session", key: "s" },
    ],
  },
  {
    label: "Plugins",
    items: [
      { label: "Marketplace", to: "/marketplace", icon: "market", key: "m" },
      { label: "Plugins", to: "/plugins", icon: "plugin", key: "p" },
      { label: "Bindings", to: "/bindings", icon: "binding", key: "b" },
      { label: "Tools", to: "/tools", icon: "terminal", key: "t" },
      { label: "Secrets", to: "/secrets", icon: "secret", key: "k" },
    ],
  },
  {
    label: "Observe",
    items: [
      { label: "Invocations", to: "/invocations", icon: "invocation", key: "i" },
      { label: "Runs", to: "/runs", icon: "play", key: "r" },
      { label: "Model calls", to: "/model-calls", icon: "rerun" },
      { label: "Deliveries", to: "/deliveries", icon: "download", key: "d" },
      { label: "Events", to: "/events", icon: "event", key: "e" },
      { label: "Health", to: "/health", icon: "health" },
      { label: "Audit", to: "/audit", icon: "audit" },
    ],
  },
  {
    label: "Gateway",
    items: [
      { label: "Settings", to: "/settings", icon: "settings" },
      { label: "API explorer", to: "/explorer", icon: "explorer", external: true },
    ],
  },
];

export const NAVIGATION_ITEMS: readonly NavigationItem[] = NAVIGATION.flatMap(({ items }) => items);
