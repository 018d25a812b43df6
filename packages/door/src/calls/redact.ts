/**
 * Removes the secrets of a call from its events before they are recorded, whichever runner they come from. A stream of
 * events may split a secret, so an event whose text ends with the beginning of a secret is held until the next event or
 * the end of the call.
 */
import { createRedactor, type Json, type JsonObject, REDACTED, type Redactor } from "@backplane/contract";

export { createRedactor, type Redactor };

export type PluginCallEvent = JsonObject & { type: string };

/** At most this many events are held. Then all are emitted, even if a text still ends with the start of a secret. */
const MAX_HELD = 64;
/** `partialSecretLength` does not notice fragments of up to this length, so the end of each text is remembered. */
const TAIL_CHARS = 3;
/** For how many texts the end is remembered. */
const MAX_PATHS = 32;
const MAX_DEPTH = 8;

export interface EventRedactor {
  add(event: PluginCallEvent): void;
  /** Emits the held events, because the call has ended and no event follows. */
  flush(): void;
}

type Path = readonly (string | number)[];

export function createEventRedactor(
  redactor: Redactor,
  emit: (event: PluginCallEvent) => void,
): EventRedactor {
  /** The end of the last text at each path. */
  const tails = new Map<string, string>();
  let held_events: PluginCallEvent[] = [];
  let open_text: { type: string; path: Path; before: string } | null = null;

  function add(event: PluginCallEvent): void {
    const clean = redactor.json(event);
    held_events.push(clean);
    if (open_text !== null && open_text.type !== clean.type && held_events.length < MAX_HELD) return;
    if (open_text !== null) redactAcrossEvents(open_text);
    open_text = held_events.length < MAX_HELD ? findOpenText(clean, open_text) : null;
    if (open_text === null) flush();
  }

  function flush(): void {
    for (const event of held_events) {
      for (const [path, text] of textsOf(event)) rememberTail(toTailKey(event.type, path), text);
      emit(event);
    }
    held_events = [];
    open_text = null;
  }

  /** Redacts secrets that appear only when the texts of several events are joined. */
  function redactAcrossEvents({ type, path, before }: NonNullable<typeof open_text>): void {
    const chunks = held_events.flatMap((event, index) => {
      const text = event.type === type ? valueAt(event, path) : undefined;
      return typeof text === "string" ? [{ index, text }] : [];
    });
    const joined = before + chunks.map(({ text }) => text).join("");
    const secret_ranges = redactor.ranges(joined);
    if (secret_ranges.length === 0) return;
    let from = before.length;
    for (const { index, text } of chunks) {
      const to = from + text.length;
      let clean = "";
      let copied = from;
      for (const [start, end] of secret_ranges) {
        if (end <= from || start >= to) continue;
        clean +=
          joined.slice(copied, Math.max(start, from)) +
          (start >= from || from === before.length ? REDACTED : "");
        copied = Math.min(end, to);
      }
      held_events[index] = replaceAt(
        held_events[index]!,
        path,
        clean + joined.slice(copied, to),
      ) as PluginCallEvent;
      from = to;
    }
  }

  /** The text that may end with the beginning of a secret, or null. */
  function findOpenText(event: PluginCallEvent, previous: typeof open_text): typeof open_text {
    if (previous !== null) {
      const chunks = held_events.map((event) =>
        event.type === previous.type ? valueAt(event, previous.path) : "",
      );
      if (
        redactor.partialSecretLength(
          previous.before + chunks.filter((text) => typeof text === "string").join(""),
        ) > 0
      )
        return previous;
    }
    for (const [path, text] of textsOf(event)) {
      const before = tails.get(toTailKey(event.type, path)) ?? "";
      if (redactor.partialSecretLength(before + text) > 0) return { type: event.type, path, before };
    }
    return null;
  }

  function rememberTail(name: string, text: string): void {
    const tail = ((tails.get(name) ?? "") + text).slice(-TAIL_CHARS);
    tails.delete(name);
    tails.set(name, tail);
    if (tails.size > MAX_PATHS) tails.delete(tails.keys().next().value!);
  }

  return { add, flush };
}

function toTailKey(type: string, path: Path): string {
  return JSON.stringify([type, ...path]);
}

function* textsOf(value: Json, path: Path = []): Generator<[Path, string]> {
  if (typeof value === "string") {
    if (path.length !== 1 || path[0] !== "type") yield [path, value];
  } else if (typeof value === "object" && value !== null && path.length < MAX_DEPTH) {
    for (const key of Object.keys(value)) {
      yield* textsOf((value as JsonObject)[key]!, [...path, Array.isArray(value) ? Number(key) : key]);
    }
  }
}

function valueAt(value: Json, path: Path): Json | undefined {
  let current: Json | undefined = value;
  for (const step of path) {
    if (typeof current !== "object" || current === null) return undefined;
    current = (current as JsonObject)[step];
  }
  return current;
}

function replaceAt(value: Json, path: Path, text: string): Json {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  const inner = replaceAt((value as JsonObject)[step]!, rest, text);
  if (Array.isArray(value)) return value.with(step as number, inner);
  return { ...(value as JsonObject), [step]: inner };
}
