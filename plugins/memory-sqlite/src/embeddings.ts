/**
 * Vectors for notes, from the org's embedding model. A note without a vector is stored and found by its words, so
 * nothing waits for the model and nothing is lost if it fails or changes: notes of another space are embedded again in
 * the background.
 */
import type { PluginContext } from "@backplane/sdk/kernel";
import type { NoteScope } from "./notes.ts";
import type { OpenNotes } from "./open-notes.ts";

interface TextVectors {
  space: string;
  vectors: number[][];
}

const NOTES_PER_REQUEST = 32;
/** Only the start of a long note is embedded; all its words are still indexed. */
const TEXT_CHARS = 8_000;
/** A query waits this long for its vector and then searches by words alone. */
const QUERY_MS = 3_000;

export class NoteEmbeddings {
  /** The running work of each scope. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #query_ms: number;

  constructor(query_ms = QUERY_MS) {
    this.#query_ms = query_ms;
  }

  /** Returns null if the query is blank, if there is no embedding model, or if the model fails or takes too long. */
  async embedQuery(ctx: PluginContext, query: string): Promise<{ space: string; vector: number[] } | null> {
    if (query.trim() === "") return null;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), this.#query_ms);
    });
    const answer = embed(ctx, [query]).catch((error: unknown) => {
      ctx.log.warn({ err: error }, "a query was not embedded; the memory is searched by words");
      return null;
    });
    const first = await Promise.race([answer, timeout]);
    clearTimeout(timer);
    return first === null ? null : { space: first.space, vector: first.vectors[0]! };
  }

  /**
   * Embeds the notes of a scope that have no vector of `space` in the background, unless such work is already running.
   * If `space` is null, the first batch consists of notes without any vector, and its answer determines the space.
   */
  start(ctx: PluginContext, notes: OpenNotes, scope: NoteScope, space: string | null): void {
    const key = JSON.stringify([scope.org_id, scope.project_id]);
    if (this.#running.has(key)) return;
    const work = this.#embedNotes(ctx, notes, scope, space)
      .catch((error: unknown) => {
        ctx.log.warn({ err: error }, "notes were not embedded; the next write or query tries again");
      })
      .finally(() => this.#running.delete(key));
    this.#running.set(key, work);
  }

  async #embedNotes(
    ctx: PluginContext,
    notes: OpenNotes,
    scope: NoteScope,
    initial_space: string | null,
  ): Promise<void> {
    let space = initial_space;
    for (;;) {
      const missing = await notes.listUnembedded(scope, space, NOTES_PER_REQUEST);
      if (missing.length === 0) return;
      const answer = await embed(
        ctx,
        missing.map(({ text }) => text.slice(0, TEXT_CHARS).toWellFormed()),
      );
      if (answer === null) return;
      space = answer.space;
      const vectors = missing.map(({ n }, at) => ({ n, vector: answer.vectors[at]! }));
      await notes.embed({ space, vectors });
    }
  }
}

async function embed(ctx: PluginContext, texts: string[]): Promise<TextVectors | null> {
  return (await ctx.service("embedding.embed", { texts })) as TextVectors | null;
}
