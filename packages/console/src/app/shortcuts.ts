/** Keys that work on every page: ⌘K or Ctrl+K, `?`, and `g` followed by the key of a page. */
import { useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { isTyping } from "../parts/lists/data-table.tsx";
import { NAVIGATION_ITEMS } from "./navigation.ts";

export type Overlay = "palette" | "help" | null;

/** How long `g` waits for the second key. */
const SEQUENCE_MS = 1_500;

export function useShortcuts(open: (overlay: Overlay) => void): void {
  const router = useRouter();
  useEffect(() => {
    let prefix_at = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("palette");
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
      if (document.querySelector('[role="dialog"]') !== null) return;
      const after_prefix = event.timeStamp - prefix_at < SEQUENCE_MS;
      prefix_at = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
      if (event.key === "?") open("help");
      const page = after_prefix ? NAVIGATION_ITEMS.find(({ key }) => key === event.key) : undefined;
      if (page === undefined) return;
      event.preventDefault();
      void router.navigate({ to: page.to as "/" });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [router, open]);
}
