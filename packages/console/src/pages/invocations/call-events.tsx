import type { Invocation } from "@backplane/contract";
import { useInvocationEvents } from "../../api/invocation-events.ts";
import { Card } from "../../parts/layout/card.tsx";
import { durationText } from "../../parts/text/time-text.ts";
import styles from "./invocations.module.css";

/** The events that the plugin reported while it ran. Renders nothing if there are none. */
export function CallEvents({ call: { id, created_at } }: { call: Invocation }) {
  const events = useInvocationEvents(id);
  if (events.length === 0) return null;
  const start = Date.parse(created_at);
  return (
    <Card title="Progress" flush>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long list must scroll with the keyboard too */}
      <ol className={styles.events} aria-label="Progress of the call" tabIndex={0}>
        {events.map(({ seq, at, event: { type, ...data } }) => (
          <li key={seq} className={styles.event}>
            <span>+{durationText(Date.parse(at) - start)}</span>
            <code>{type}</code>
            <span className={styles.eventData}>{eventText(data)}</span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

function eventText(data: Record<string, unknown>): string {
  const fields = Object.entries(data);
  const [only] = fields;
  if (fields.length === 1 && typeof only![1] === "string") return only![1];
  return fields.length === 0 ? "" : JSON.stringify(data);
}
