import type { EventFilter, Json, SemanticEvent } from "@backplane/contract";

/** Whether the event has an accepted value in every field that the filter lists. */
export function matchesFilter(event: SemanticEvent, filter: EventFilter | undefined): boolean {
  if (filter === undefined) return true;
  return Object.entries(filter).every(([path, accepted]) => {
    const actual = fieldAt(event, path);
    return Array.isArray(accepted) ? accepted.some((value) => value === actual) : accepted === actual;
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
