import { useSyncExternalStore } from "react";
import type { LiveState } from "../api/live.ts";
import { useServices } from "../api/services.ts";
import styles from "./shell.module.css";

const CHIPS: Record<LiveState, { text: string; tone: string; title: string }> = {
  connecting: { text: "Connecting", tone: "quiet", title: "Connecting to the gateway." },
  live: { text: "Live", tone: "good", title: "Changes appear as they happen." },
  reconnecting: {
    text: "Reconnecting",
    tone: "warn",
    title: "The gateway does not respond. This page shows the last known state.",
  },
  paused: { text: "Paused", tone: "quiet", title: "Updates continue when this tab is visible." },
  "signed-out": { text: "Signed out", tone: "bad", title: "This browser is not signed in." },
};

export function useLiveState(): LiveState {
  const { live } = useServices();
  return useSyncExternalStore(live.onState, live.state);
}

export function LiveChip() {
  const state = useLiveState();
  const { text, tone, title } = CHIPS[state];
  return (
    <span
      className={styles.chip}
      role="status"
      data-state={state}
      title={title}
      style={{ "--chip-color": `var(--${tone})` } as object}
    >
      {text}
    </span>
  );
}
