/** Filters events, and writes them as text for the list and for the export. */
import type { SemanticEvent } from "@backplane/contract";

export interface EventListFilter {
  type?: string | undefined;
  session?: string | undefined;
  /** Matches anywhere in the event. */
  q?: string | undefined;
}

export function filterEvents(
  events: readonly SemanticEvent[],
  { type, session, q }: EventListFilter,
): readonly SemanticEvent[] {
  const searched_text = q?.toLowerCase();
  return events.filter(
    (event) =>
      (type === undefined || event.type === type) &&
      (session === undefined || event.session_id === session) &&
      (searched_text === undefined || JSON.stringify(event).toLowerCase().includes(searched_text)),
  );
}

/** The summary as one line: `status: succeeded, export_id: pay`. */
export function summaryText(summary: SemanticEvent["summary"]): string {
  return Object.entries(summary)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

/** One JSON document per line, oldest first, as `backplane events tail --json` prints them. */
export function toJsonLines(events: readonly SemanticEvent[]): string {
  return events
    .toReversed()
    .map((event) => `${JSON.stringify(event)}\n`)
    .join("");
}
