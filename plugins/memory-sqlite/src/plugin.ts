/**
 * Long-term memory in one SQLite file (memory.store). Users and models shape the input, so no input makes
 * a handler fail: it is truncated, ignored or answered with no hits. Only a problem with the file itself makes a
 * handler fail.
 */
import {
  type BusEvent,
  defineKernelPlugin,
  type HealthReport,
  type JsonObject,
  type KernelPlugin,
  type MemoryEntry,
  type PluginContext,
} from "@backplane/sdk/kernel";
import { checkNotes } from "./check-notes.ts";
import { NoteEmbeddings } from "./embeddings.ts";
import type { Note, NoteScope } from "./notes.ts";
import { type OpenNotes, openNotes } from "./open-notes.ts";
import { CONFIG_SCHEMA, readSettings } from "./settings.ts";

const MAX_HITS = 50;
const TEXT_BYTES = 64 * 1024;
const META_BYTES = 16 * 1024;
const ID_LENGTH = 200;

export function createMemoryPlugin(options: { full_text?: boolean } = {}): KernelPlugin {
  let notes: OpenNotes | null = null;
  const embeddings = new NoteEmbeddings();
  const requireNotes = (): OpenNotes => {
    if (notes === null) throw new Error("The memory is not open.");
    return notes;
  };

  return defineKernelPlugin({
    name: "memory-sqlite",
    version: "0.1.0",
    category: "memory",
    memory: "long-term",
    configSchema: CONFIG_SCHEMA,
    subscriptions: () => ["memory.query", "memory.write"],

    async onLoad(ctx) {
      await notes?.close();
      notes = openNotes({ dir: ctx.stateDir, ...options });
      // The file is checked here because the thread, which costs about 8 MB, starts only with the first request.
      const { entries, full_text } = checkNotes({ dir: ctx.stateDir, ...options });
      ctx.log.debug({ entries }, "memory opened");
      if (!full_text) {
        ctx.log.warn({}, "this SQLite has no FTS5: searches read every entry and match substrings only");
      }
    },

    async onEvent(event, ctx) {
      if (event.kind === "memory.write")
        await handleWrite(event as BusEvent<"memory.write">, ctx, requireNotes(), embeddings);
      if (event.kind === "memory.query")
        await handleQuery(event as BusEvent<"memory.query">, ctx, requireNotes(), embeddings);
    },

    async onUnload() {
      const closing = notes;
      notes = null;
      await closing?.close();
    },

    async healthCheck(ctx) {
      try {
        return await checkHealth(ctx, requireNotes());
      } catch (error) {
        return { status: "failed", summary: (error as Error).message };
      }
    },
  });
}

export const plugin = createMemoryPlugin();

async function handleWrite(
  event: BusEvent<"memory.write">,
  ctx: PluginContext,
  notes: OpenNotes,
  embeddings: NoteEmbeddings,
): Promise<void> {
  const note = toNote(event.payload.entry, Math.round(event.ts * 1000));
  if (note === null) {
    ctx.log.warn({ session_id: event.session_id }, "a memory entry without text was ignored");
    return;
  }
  const { settings } = readSettings(await ctx.config());
  await notes.write({ scope: scopeOf(event), note, max_entries: settings.max_entries });
  if (settings.embeddings) embeddings.start(ctx, notes, scopeOf(event), null);
}

async function handleQuery(
  event: BusEvent<"memory.query">,
  ctx: PluginContext,
  notes: OpenNotes,
  embeddings: NoteEmbeddings,
): Promise<void> {
  let hits: MemoryEntry[] = [];
  try {
    const { settings } = readSettings(await ctx.config());
    const { half_life_days, min_similarity } = settings;
    const embedded = settings.embeddings ? await embeddings.embedQuery(ctx, event.payload.query) : null;
    hits = await notes.query({
      scope: scopeOf(event),
      query: event.payload.query,
      k: Math.min(MAX_HITS, Math.max(0, Math.trunc(event.payload.k) || 0)),
      now: Math.round(event.ts * 1000),
      ...(half_life_days === undefined ? {} : { half_life_days }),
      ...(embedded === null ? {} : { embedded: { ...embedded, min_similarity } }),
    });
    if (embedded !== null) embeddings.start(ctx, notes, scopeOf(event), embedded.space);
  } finally {
    // An answer is sent even if the file fails, so that the turn continues without notes instead of waiting.
    await ctx.emit(
      "memory.result",
      { hits: hits as (MemoryEntry & Record<string, unknown>)[], request_id: event.id },
      { session_id: event.session_id },
    );
  }
}

async function checkHealth(ctx: PluginContext, notes: OpenNotes): Promise<HealthReport> {
  const { problems } = readSettings(await ctx.config());
  const { entries, full_text } = await notes.check();
  if (!full_text) problems.push("this SQLite has no FTS5, so searches are slow");
  const summary = `${entries} ${entries === 1 ? "entry" : "entries"}`;
  if (problems.length === 0) return { status: "ok", summary };
  return {
    status: "degraded",
    summary: `${summary}; ${problems[0]}`,
    details: problems.map((message) => ({ name: "configuration", status: "degraded", message })),
  };
}

function scopeOf({ org_id, project_id }: BusEvent): NoteScope {
  return { org_id, project_id };
}

function toNote(entry: Record<string, unknown>, now: number): Note | null {
  if (typeof entry.text !== "string" || entry.text.trim() === "") return null;
  const stated_at = typeof entry.at === "string" ? Date.parse(entry.at) : Number.NaN;
  const note: Note = {
    text: truncate(entry.text.toWellFormed(), TEXT_BYTES),
    at: Number.isNaN(stated_at) ? now : Math.min(stated_at, now),
  };
  if (typeof entry.id === "string" && entry.id !== "" && entry.id.length <= ID_LENGTH) {
    note.id = entry.id.toWellFormed();
  }
  const { meta } = entry;
  if (typeof meta === "object" && meta !== null && !Array.isArray(meta)) {
    if (Buffer.byteLength(JSON.stringify(meta)) <= META_BYTES) note.meta = meta as JsonObject;
  }
  return note;
}

/** Truncates to this many bytes of UTF-8, never inside a character. */
function truncate(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  return encoded.toString("utf8", 0, bytes).replace(/\uFFFD$/, "");
}
