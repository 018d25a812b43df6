import type { EventFilter, Json, SemanticEvent } from "@backplane/contract";

/** Whether the event has one of the wanted values in every field that the filter names. */
export function matchesFilter(event: SemanticEvent, filter: EventFilter | undefined): boolean {
  if (filter === undefined) return true;
  return Object.entries(filter).every(([path, wanted]) => {
    const found = fieldAt(event, path);
    return Array.isArray(wanted) ? wanted.some((value) => value === found) : wanted === found;
  });
}

function fieldAt(event: SemanticEvent, path: string): Json | undefined {
  let value: unknown = event;
  for (const part of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value as Json | undefined;
}
