/** ⌘K: finds pages and tools by name. A combobox whose list is always open. */
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useMemo, useState } from "react";
import { catalogQueries } from "../api/catalog.ts";
import { useClient } from "../api/services.ts";
import { Icon, type IconName } from "../parts/layout/icon.tsx";
import { NAVIGATION_ITEMS } from "./navigation.ts";
import { rankMatches } from "./rank-matches.ts";
import styles from "./shell.module.css";

interface Target {
  name: string;
  hint: string;
  icon: IconName;
  open: () => void;
}

const MAX_SHOWN = 30;

export default function Palette({ onClose }: { onClose: () => void }) {
  const router = useRouter();
  const id = useId();
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const tools = useQuery(catalogQueries.list(useClient()));

  const targets = useMemo<Target[]>(
    () => [
      ...NAVIGATION_ITEMS.map(({ label, to, icon, external }) => ({
        name: label,
        hint: "Page",
        icon,
        open: () => (external === true ? location.assign(to) : void router.navigate({ to: to as "/" })),
      })),
      { name: "Chat", hint: "Page", icon: "session", open: () => void router.navigate({ to: "/sessions" }) },
      ...(tools.data ?? []).map(({ name, package_id }) => ({
        name,
        hint: package_id,
        icon: "plugin" as const,
        open: () => void router.navigate({ to: "/invocations", search: { export: name } }),
      })),
    ],
    [router, tools.data],
  );
  const matches = rankMatches(targets, text, ({ name, hint }) => `${name} ${hint}`).slice(0, MAX_SHOWN);
  const at = Math.min(selected, matches.length - 1);

  const choose = (target: Target | undefined) => {
    if (target === undefined) return;
    onClose();
    target.open();
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const move = moves[event.key];
    if (move !== undefined) {
      event.preventDefault();
      setSelected((at + move + matches.length) % Math.max(1, matches.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(matches[at]);
    }
  };

  return (
    <Modal
      opened
      onClose={onClose}
      withCloseButton={false}
      centered={false}
      padding={0}
      size="lg"
      yOffset="12vh"
      aria-label="Search pages and tools"
    >
      <input
        className={styles.paletteInput}
        data-autofocus
        type="text"
        role="combobox"
        aria-label="Search pages and tools"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
        placeholder="Go to a page or a tool…"
        value={text}
        onChange={({ currentTarget }) => {
          setText(currentTarget.value);
          setSelected(0);
        }}
        onKeyDown={onKey}
      />
      <div className={styles.paletteList} id={`${id}-list`} role="listbox" aria-label="Results">
        {matches.map((target, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys belong to the input, which keeps the focus
          <div
            key={`${target.hint}/${target.name}`}
            id={`${id}-${index}`}
            className={styles.option}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onClick={() => choose(target)}
            onPointerMove={() => setSelected(index)}
          >
            <Icon name={target.icon} size={16} />
            {target.name}
            <span className={styles.optionHint}>{target.hint}</span>
          </div>
        ))}
      </div>
      {matches.length === 0 && <p className={styles.paletteEmpty}>Nothing matches “{text}”.</p>}
    </Modal>
  );
}
