/** Compactions: a new chain that begins with a summary of the session. The parent chain keeps all entries. */
import { BackplaneError, type Chain, definedFields, type JsonObject } from "@backplane/contract";
import { ChainSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { createOnce } from "../requests/idempotency.ts";
import {
  IdParams,
  listSchema,
  PageQuery,
  refOf,
  SessionId,
  splitPage,
  Workspace,
  WorkspaceQuery,
} from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const READ = { scope: "sessions:read", delegated: "compactions:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "compactions:write" } as const;

const CompactionCreate = z.strictObject({ session_id: SessionId, workspace: Workspace.optional() });
const CompactionSchema = z.object({
  chain: ChainSchema,
  summary: z.string(),
  source: z.object({ chain_id: z.string(), last_entry_id: z.int() }),
  tokens_before: z.int().nullable(),
  tokens_after: z.int().nullable(),
});

export function compactionRoutes({ kernel }: RouteDeps): Route[] {
  const { sessions, chains } = kernel;
  return [
    defineRoute({
      method: "POST",
      path: "/v1/compactions",
      operation_id: "compactSession",
      summary: "Compact a session",
      description:
        "Starts a new chain with a summary of the old one. Responds 429 session.busy while a turn is running.",
      tag: "Compactions",
      auth: WRITE,
      query: WorkspaceQuery,
      body: CompactionCreate,
      idempotent: true,
      responses: { 201: { description: "The new chain and its source.", schema: CompactionSchema } },
      handler({ caller, query, body, request }) {
        const wanted = definedFields({ ...query, ...body });
        return createOnce(kernel, caller, request, wanted, async () => {
          const ref = refOf(body.session_id, wanted);
          await sessions.get(caller, ref);
          return { status: 201, json: await describe(caller, await sessions.compact(caller, ref)) };
        });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/compactions",
      operation_id: "listCompactions",
      summary: "List the compactions of a session, newest first",
      tag: "Compactions",
      auth: READ,
      query: PageQuery.extend({ session_id: SessionId, workspace: Workspace.optional() }),
      responses: { 200: { description: "A page.", schema: listSchema(CompactionSchema) } },
      async handler({ caller, query }) {
        const ref = refOf(query.session_id, query);
        await sessions.get(caller, ref);
        const page = await chains.list(caller, ref, splitPage(query).page);
        const compacted = page.items.filter(({ origin }) => origin === "compaction");
        const items = await Promise.all(compacted.map((chain) => describe(caller, chain)));
        return { status: 200, json: { items, next: page.next } };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/compactions/{id}:undo",
      operation_id: "undoCompaction",
      summary: "Undo a compaction",
      description:
        "Makes the parent chain the head again. Later messages stay on the compacted chain. Responds 409 if that chain is not the head.",
      tag: "Compactions",
      auth: WRITE,
      params: IdParams,
      responses: { 200: { description: "The chain that is now the head.", schema: ChainSchema } },
      async handler({ caller, params }) {
        const chain = await chains.get(caller, params.id);
        if (chain.origin !== "compaction")
          throw new BackplaneError("request.invalid", "This chain is not a compaction.");
        const inside = inProjectOf(caller, chain);
        const { head_chain_id } = await sessions.get(inside, chain);
        if (head_chain_id !== chain.id) throw new BackplaneError("chain.changed");
        return { status: 200, json: await sessions.undoCompaction(inside, chain) };
      },
    }),
  ];

  /** The first entry of the chain is an anchor with the summary and its source. */
  async function describe(caller: Caller, chain: Chain): Promise<z.output<typeof CompactionSchema>> {
    const [anchor] = await sessions.entries(inProjectOf(caller, chain), chain, chain.fork_entry_id, 1);
    const state = (anchor?.kind === "anchor" ? (anchor.payload.state ?? {}) : {}) as JsonObject;
    const { summary, source, tokens_before, tokens_after } = state;
    const from = (source ?? {}) as { chain_id?: string; last_entry_id?: number };
    return {
      chain,
      summary: typeof summary === "string" ? summary : "",
      source: {
        chain_id: from.chain_id ?? chain.parent_chain_id ?? "",
        last_entry_id: from.last_entry_id ?? chain.fork_entry_id,
      },
      tokens_before: typeof tokens_before === "number" ? tokens_before : null,
      tokens_after: typeof tokens_after === "number" ? tokens_after : null,
    };
  }
}

/** The caller may see the chain, so it may read the session in the chain's own project. */
function inProjectOf(caller: Caller, { org_id, project_id }: Chain): Caller {
  return { ...caller, scope: { org_id, project_id } };
}
