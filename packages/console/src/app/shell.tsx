/** The frame of every page: navigation, search, the state of the connection and the color scheme. */
import { ActionIcon } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { useClient } from "../api/services.ts";
import { statusQueries } from "../api/status.ts";
import { Icon } from "../parts/layout/icon.tsx";
import { ColorSchemeButton } from "./color-scheme-button.tsx";
import { LiveChip, useLiveState } from "./live-chip.tsx";
import styles from "./shell.module.css";
import { type Overlay, useShortcuts } from "./shortcuts.ts";
import { Sidebar } from "./sidebar.tsx";
import { SignInPage } from "./sign-in-page.tsx";
import { SignOutButton } from "./sign-out-button.tsx";

const Palette = lazy(() => import("./palette.tsx"));
const KeyboardHelp = lazy(() => import("./keyboard-help.tsx"));
const IS_MAC = /Mac|iPhone|iPad/.test(navigator.userAgent);

export function Shell() {
  const live = useLiveState();
  return live === "signed-out" ? <SignInPage /> : <SignedInShell />;
}

function SignedInShell() {
  const [overlay, setOverlay] = useState<Overlay>(null);
  const [menu_open, setMenuOpen] = useState(false);
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const status = useQuery(statusQueries.current(useClient()));
  useShortcuts(setOverlay);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page closes the menu
  useEffect(() => setMenuOpen(false), [path]);

  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main">
        Skip to the content
      </a>
      <Sidebar
        open={menu_open}
        pending_approvals={status.data?.invocations.waiting_approval ?? 0}
        version={status.data?.version ?? null}
      />
      <div className={styles.column}>
        <header className={styles.header}>
          <ActionIcon
            className={styles.menu}
            variant="subtle"
            color="gray"
            aria-label="Navigation"
            aria-expanded={menu_open}
            onClick={() => setMenuOpen((open) => !open)}
          >
            <Icon name="menu" />
          </ActionIcon>
          <button type="button" className={styles.search} onClick={() => setOverlay("palette")}>
            <Icon name="search" size={16} />
            <span className={styles.searchText}>Search pages and tools</span>
            <kbd className={styles.keys}>{IS_MAC ? "⌘" : "Ctrl"} K</kbd>
          </button>
          <div className={styles.grow} />
          <LiveChip />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label="Keyboard shortcuts"
            title="Keyboard shortcuts (?)"
            onClick={() => setOverlay("help")}
          >
            <Icon name="help" />
          </ActionIcon>
          <ColorSchemeButton />
          <SignOutButton />
        </header>
        <main className={styles.main} id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Suspense>
        {overlay === "palette" && <Palette onClose={() => setOverlay(null)} />}
        {overlay === "help" && <KeyboardHelp onClose={() => setOverlay(null)} />}
      </Suspense>
    </div>
  );
}
