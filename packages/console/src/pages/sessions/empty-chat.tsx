/** The chat before its first message, with examples to try. */
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useClient } from "../../api/services.ts";
import { providerQueries } from "../../api/settings.ts";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import styles from "./sessions.module.css";

/** Scripts of the offline model, which answers until a provider is set up. */
const EXAMPLES = [
  ["Get an echo", "Hello there"],
  [
    "Watch a slow answer stream",
    "/think The person wants to see how an answer arrives.\n/slow 150\n/say **Streaming** works: this text arrives piece by piece, and you can stop it with `Esc`.",
  ],
  ["Ask for approval, then run a sub-agent", '/tool agent {"goal": "Say hello from a sub-agent"}'],
  ["See a tool call fail", '/tool no_such_tool {"why": "to see the card"}'],
] as const;

export function EmptyChat({ writable, onChoose }: { writable: boolean; onChoose: (text: string) => void }) {
  const providers = useQuery(providerQueries.list(useClient())).data ?? [];
  const offline = providers.find(({ active }) => active)?.plugin === "llm-echo";
  if (!writable)
    return (
      <div className={styles.emptyChat}>
        <EmptyView icon="session">Nothing has been said yet.</EmptyView>
      </div>
    );
  return (
    <div className={styles.emptyChat}>
      <h2>What should the assistant do?</h2>
      {offline && (
        <>
          <p className={styles.note}>
            The offline model answers. It echoes what you write, or follows a script. To use a real model,
            choose one below or <Link to="/settings">set up a provider</Link>.
          </p>
          <div className={styles.examples}>
            {EXAMPLES.map(([label, text]) => (
              <Button key={label} variant="default" onClick={() => onChoose(text)}>
                {label}
              </Button>
            ))}
          </div>
        </>
      )}
    </div>
  );
}
