/**
 * The last line before anything is recorded: the secrets of a call are taken out of its result, events and error,
 * whatever runner they come from. A stream of events may cut a secret in two, so an event whose text ends with the
 * beginning of one waits for the next event (or the end of the call) before it is let go.
 */
import { createRedactor, type Json, type JsonObject, REDACTED, type Redactor } from "@backplane/contract";

export { createRedactor, type Redactor };

export type PluginEvent = JsonObject & { type: string };

/** So many events wait at most; then they go as they are. */
const HELD = 64;
/** Pieces shorter than what `begun` notices are remembered, for so many texts. */
const TAIL = 3;
const PATHS = 32;
const DEPTH = 8;

export interface EventRedactor {
  take(event: PluginEvent): void;
  /** The call is over: nothing follows. */
  flush(): void;
}

type Path = readonly (string | number)[];

export function redactEvents(redactor: Redactor, emit: (event: PluginEvent) => void): EventRedactor {
  /** What came last at a path, when nothing waits. */
  const tails = new Map<string, string>();
  let held: PluginEvent[] = [];
  let open: { type: string; path: Path; before: string } | null = null;

  function take(event: PluginEvent): void {
    const clean = redactor.json(event);
    held.push(clean);
    if (open !== null && open.type !== clean.type && held.length < HELD) return;
    if (open !== null) joinPieces(open);
    open = held.length < HELD ? waitsFor(clean, open) : null;
    if (open === null) flush();
  }

  function flush(): void {
    for (const event of held) {
      for (const [path, text] of textsOf(event)) remember(nameOf(event.type, path), text);
      emit(event);
    }
    held = [];
    open = null;
  }

  /** Takes out what only shows when the pieces stand together. */
  function joinPieces({ type, path, before }: NonNullable<typeof open>): void {
    const places = held.flatMap((event, at) => {
      const text = event.type === type ? valueAt(event, path) : undefined;
      return typeof text === "string" ? [{ at, text }] : [];
    });
    const joined = before + places.map(({ text }) => text).join("");
    const found = redactor.ranges(joined);
    if (found.length === 0) return;
    let from = before.length;
    for (const { at, text } of places) {
      const to = from + text.length;
      let clean = "";
      let kept = from;
      for (const [start, end] of found) {
        if (end <= from || start >= to) continue;
        clean +=
          joined.slice(kept, Math.max(start, from)) +
          (start >= from || from === before.length ? REDACTED : "");
        kept = Math.min(end, to);
      }
      held[at] = replaceAt(held[at]!, path, clean + joined.slice(kept, to)) as PluginEvent;
      from = to;
    }
  }

  function waitsFor(event: PluginEvent, was: typeof open): typeof open {
    if (was !== null) {
      const pieces = held.map((one) => (one.type === was.type ? valueAt(one, was.path) : ""));
      if (redactor.begun(was.before + pieces.filter((text) => typeof text === "string").join("")) > 0)
        return was;
    }
    for (const [path, text] of textsOf(event)) {
      const before = tails.get(nameOf(event.type, path)) ?? "";
      if (redactor.begun(before + text) > 0) return { type: event.type, path, before };
    }
    return null;
  }

  function remember(name: string, text: string): void {
    const tail = ((tails.get(name) ?? "") + text).slice(-TAIL);
    tails.delete(name);
    tails.set(name, tail);
    if (tails.size > PATHS) tails.delete(tails.keys().next().value!);
  }

  return { take, flush };
}

function nameOf(type: string, path: Path): string {
  return JSON.stringify([type, ...path]);
}

function* textsOf(value: Json, path: Path = []): Generator<[Path, string]> {
  if (typeof value === "string") {
    if (path.length !== 1 || path[0] !== "type") yield [path, value];
  } else if (typeof value === "object" && value !== null && path.length < DEPTH) {
    for (const key of Object.keys(value)) {
      yield* textsOf((value as JsonObject)[key]!, [...path, Array.isArray(value) ? Number(key) : key]);
    }
  }
}

function valueAt(value: Json, path: Path): Json | undefined {
  let here: Json | undefined = value;
  for (const step of path) {
    if (typeof here !== "object" || here === null) return undefined;
    here = (here as JsonObject)[step];
  }
  return here;
}

function replaceAt(value: Json, path: Path, text: string): Json {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  const inner = replaceAt((value as JsonObject)[step]!, rest, text);
  if (Array.isArray(value)) return value.with(step as number, inner);
  return { ...(value as JsonObject), [step]: inner };
}
