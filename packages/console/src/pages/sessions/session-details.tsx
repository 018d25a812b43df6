/** Facts about a session, its related sessions, and the command that shows the same in a terminal. */
import type { Session } from "@backplane/contract";
import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useClient } from "../../api/services.ts";
import { type SessionAddress, sessionQueries } from "../../api/sessions.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { SessionLink } from "./messages.tsx";
import { isSubAgent, sessionTitle } from "./session-text.ts";
import styles from "./sessions.module.css";

export function SessionDetails({ session, address }: { session: Session; address: SessionAddress }) {
  const { id, workspace } = session;
  return (
    <aside className={styles.side} aria-label="Details of the session">
      <Card title="Details">
        <Fields items={detailsOf(session)} />
      </Card>
      <Related session={session} address={address} />
      <Card title="The same in a terminal">
        <CliCommand
          command={shellCommand(
            "backplane",
            "session",
            "show",
            id,
            ...(workspace === "default" ? [] : ["--workspace", workspace]),
          )}
        />
      </Card>
    </aside>
  );
}

function detailsOf(session: Session) {
  const { id, workspace, head_chain_id, last_entry_id, metadata } = session;
  const strategy = typeof metadata.strategy === "string" ? metadata.strategy : null;
  return [
    ["Id", id],
    ["Workspace", workspace],
    ["Entries", String(last_entry_id)],
    ["Chain", head_chain_id],
    ["Strategy", strategy],
    [
      "Context",
      <Anchor
        key="context"
        component={Link}
        to="/session-admin/$id"
        params={{ id } as never}
        search={(workspace === "default" ? {} : { workspace }) as never}
      >
        compactions, pins, reset
      </Anchor>,
    ],
    [
      "Calls",
      <Anchor key="calls" component={Link} to="/invocations" search={{ session: id } as never}>
        of this session
      </Anchor>,
    ],
    [
      "Events",
      <Anchor key="events" component={Link} to="/events" search={{ session: id } as never}>
        of this session
      </Anchor>,
    ],
  ] as const;
}

/** The session that this one was forked from or that started it as a sub-agent, its forks and its sub-agents. */
function Related({ session, address }: { session: Session; address: SessionAddress }) {
  const children = useQuery(sessionQueries.children(useClient(), address)).data ?? [];
  const { parent_session_id, workspace } = session;
  if (parent_session_id === null && children.length === 0) return null;
  return (
    <Card title="Related sessions">
      <ul className={styles.related}>
        {parent_session_id !== null && (
          <li>
            {isSubAgent(session) ? "Sub-agent of " : "Fork of "}
            <SessionLink id={parent_session_id} workspace={workspace}>
              {parent_session_id}
            </SessionLink>
          </li>
        )}
        {children.map((child) => (
          <li key={child.id}>
            {isSubAgent(child) ? "Sub-agent " : "Fork "}
            <SessionLink id={child.id} workspace={workspace}>
              {sessionTitle(child)}
            </SessionLink>
          </li>
        ))}
      </ul>
    </Card>
  );
}
