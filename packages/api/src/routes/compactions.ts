/** Compactions: a new chain that begins with a summary of the session. The parent chain keeps all entries. */
import { BackplaneError, type Chain, definedFields } from "@backplane/contract";
import { ChainSchema, CompactedEntrySchema, CompactionSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import {
  EntryCursor,
  IdParams,
  listSchema,
  nameSchema,
  PageQuery,
  SessionId,
  splitPage,
  toSessionRef,
  Workspace,
  WorkspaceQuery,
} from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const READ = { scope: "sessions:read", delegated: "compactions:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "compactions:write" } as const;

const CompactionCreate = z.strictObject({
  session_id: SessionId,
  workspace: Workspace.optional(),
  compactor: nameSchema(512)
    .min(1)
    .optional()
    .describe(
      "A binding id, an export id or `package_id/export_id`; `model` for the built-in summary. By default the gateway chooses.",
    ),
  target_context: nameSchema(64)
    .min(1)
    .optional()
    .describe(
      "Prefers compactors made for it. Default: `target_context` in the session's metadata, then `general`.",
    ),
  target: z
    .strictObject({
      max_input_tokens: z.int().min(1).optional().describe("The size to aim for."),
      target_model: nameSchema(256).min(1).optional().describe("Default: the active model."),
    })
    .optional(),
  policy: z
    .strictObject({
      retain_system: z.boolean().default(true).describe("Keep system messages unchanged."),
      retain_open_tasks: z
        .boolean()
        .default(true)
        .describe("Keep messages without an answer and calls without a result."),
    })
    .optional(),
});
const EntriesQuery = z.strictObject({
  after: EntryCursor.default(0).describe("Returns entries after this one."),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
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
        const fields = definedFields({ ...query, ...body });
        return respondOnce(kernel, caller, request, fields, async () => {
          const ref = toSessionRef(body.session_id, fields);
          await sessions.get(caller, ref);
          const { compactor, target_context, target, policy } = body;
          const options = definedFields({ compactor, target_context, ...target, ...policy });
          const { id } = await sessions.compact(caller, ref, options);
          return { status: 201, json: await sessions.getCompaction(caller, id) };
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
        const ref = toSessionRef(query.session_id, query);
        await sessions.get(caller, ref);
        const page = await chains.list(caller, ref, splitPage(query).page);
        const compactions = page.items.filter(({ origin }) => origin === "compaction");
        const items = await Promise.all(compactions.map(({ id }) => sessions.getCompaction(caller, id)));
        return { status: 200, json: { items, next: page.next } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/compactions/{id}",
      operation_id: "getCompaction",
      summary: "Read a compaction by the id of its chain",
      tag: "Compactions",
      auth: READ,
      params: IdParams,
      responses: { 200: { description: "The compaction.", schema: CompactionSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await sessions.getCompaction(caller, params.id),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/compactions/{id}/entries",
      operation_id: "listCompactedEntries",
      summary: "List what a compaction did with each entry",
      description: "Each entry of the source was kept, condensed into another entry, or dropped.",
      tag: "Compactions",
      auth: READ,
      params: IdParams,
      query: EntriesQuery,
      responses: {
        200: { description: "A page, oldest entry first.", schema: listSchema(CompactedEntrySchema) },
      },
      async handler({ caller, params, query }) {
        const all = await sessions.listCompactedEntries(caller, params.id);
        const remaining = all.filter(({ entry_id }) => entry_id > query.after);
        const items = remaining.slice(0, query.limit);
        const next = remaining.length > items.length ? String(items.at(-1)!.entry_id) : null;
        return { status: 200, json: { items, next } };
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
        const project_caller = withProject(caller, chain);
        const { head_chain_id } = await sessions.get(project_caller, chain);
        if (head_chain_id !== chain.id) throw new BackplaneError("chain.changed");
        return { status: 200, json: await sessions.undoCompaction(project_caller, chain) };
      },
    }),
  ];
}

/** The caller may see the chain, so it may read the session in the chain's own project. */
function withProject(caller: Caller, { org_id, project_id }: Chain): Caller {
  return { ...caller, scope: { org_id, project_id } };
}
