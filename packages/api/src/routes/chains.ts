/** Chains, their lineage, and their entries as blocks. */
import { type Block, definedFields } from "@backplane/contract";
import { BlockSchema, ChainSchema, RunSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { createInTransaction } from "../requests/idempotency.ts";
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

const READ = { scope: "sessions:read", delegated: "chains:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "chains:write" } as const;

const LastInherited = z.int().min(0).optional().describe("The last inherited entry; default all.");
const ChainCreate = z.strictObject({
  session_id: SessionId,
  workspace: Workspace.optional(),
  from_chain_id: nameSchema(128).min(1).optional().describe("Default: the session's head."),
  at: LastInherited,
});
const ChainFork = z.strictObject({
  at: LastInherited,
  child_id: SessionId.optional().describe(
    "The id of a new session; by default the fork stays in this session.",
  ),
});
const BlocksQuery = z.strictObject({
  after: EntryCursor.optional().describe(
    "Returns entries after this one. Default: the last compaction; 0 includes the entries that it replaced.",
  ),
  limit: z.coerce.number().int().min(1).max(500).default(100),
});
const NewBlocks = z.strictObject({
  blocks: z
    .array(BlockSchema.omit({ entry_id: true }))
    .min(1)
    .max(500),
});
const VerifiedSchema = z.object({
  valid: z.boolean(),
  broken: z.object({ chain_id: z.string(), entry_id: z.int() }).nullable(),
});

/** Most entries of a busy tape are not blocks, so filling a page may take several reads, up to a limit. */
const ENTRIES_PER_READ = 500;
const READS_PER_PAGE = 20;

export function chainRoutes({ kernel }: RouteDeps): Route[] {
  const { chains, runs } = kernel;
  return [
    defineRoute({
      method: "POST",
      path: "/v1/chains",
      operation_id: "createChain",
      summary: "Create another chain of a session",
      description:
        "The new chain inherits the entries of its source without copying them. The head of the session does not change.",
      tag: "Chains",
      auth: WRITE,
      query: WorkspaceQuery,
      body: ChainCreate,
      idempotent: true,
      responses: { 201: { description: "The chain.", schema: ChainSchema } },
      handler({ caller, query, body, request }) {
        const fields = definedFields({ ...query, ...body });
        return createInTransaction(kernel, caller, request, fields, 201, {
          create: (once) => chains.create(caller, fields, once),
          readExisting: ({ id }: { id: string }) => chains.get(caller, id),
        });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/chains",
      operation_id: "listChains",
      summary: "List the chains of a session, newest first, including archived ones",
      tag: "Chains",
      auth: READ,
      query: PageQuery.extend({ session_id: SessionId, workspace: Workspace.optional() }),
      responses: { 200: { description: "A page.", schema: listSchema(ChainSchema) } },
      async handler({ caller, query }) {
        const { page } = splitPage(query);
        const ref = toSessionRef(query.session_id, query);
        await kernel.sessions.get(caller, ref);
        return { status: 200, json: await chains.list(caller, ref, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/chains/{id}",
      operation_id: "getChain",
      summary: "Read a chain",
      tag: "Chains",
      auth: READ,
      params: IdParams,
      responses: { 200: { description: "The chain.", schema: ChainSchema } },
      handler: async ({ caller, params }) => ({ status: 200, json: await chains.get(caller, params.id) }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/chains/{id}:fork",
      operation_id: "forkChain",
      summary: "Fork a chain, in the same session or into a new one",
      tag: "Chains",
      auth: WRITE,
      params: IdParams,
      body: ChainFork.optional(),
      idempotent: true,
      responses: { 201: { description: "The new chain.", schema: ChainSchema } },
      handler: ({ caller, params, body, request }) =>
        createInTransaction(kernel, caller, request, body, 201, {
          create: (once) => chains.fork(caller, params.id, definedFields(body ?? {}), once),
          readExisting: ({ id }: { id: string }) => chains.get(caller, id),
        }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/chains/{id}/blocks",
      operation_id: "listBlocks",
      summary: "List the blocks of a chain from its last compaction on, including inherited ones",
      description:
        "The attachments of a user's message are its last blocks of content. `attachment` marks them: true, or " +
        "`untyped` if they were sent without a type.",
      tag: "Chains",
      auth: READ,
      params: IdParams,
      query: BlocksQuery,
      responses: { 200: { description: "A page.", schema: listSchema(BlockSchema) } },
      handler: async ({ caller, params, query }) => ({
        status: 200,
        json: await readBlockPage(caller, params.id, query.after, query.limit),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/chains/{id}/blocks",
      operation_id: "addBlocks",
      summary: "Add blocks to a chain",
      description: "Adds all of them or none. The blocks are on disk when the response is sent.",
      tag: "Chains",
      auth: WRITE,
      params: IdParams,
      body: NewBlocks,
      idempotent: true,
      responses: {
        201: {
          description: "The blocks with their entry ids.",
          schema: z.object({ items: z.array(BlockSchema) }),
        },
      },
      handler: ({ caller, params, body, request }) =>
        createInTransaction(kernel, caller, request, body, 201, {
          create: async (once) => ({ items: await chains.addBlocks(caller, params.id, body.blocks, once) }),
          async readExisting({ entry_id }: { entry_id: number }) {
            const first = entry_id - body.blocks.length + 1;
            return { items: body.blocks.map((block, n): Block => ({ ...block, entry_id: first + n })) };
          },
        }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/chains/{id}/runs",
      operation_id: "listRuns",
      summary: "List the runs of a chain, newest first",
      tag: "Chains",
      auth: { ...READ, delegated: "runs:read" },
      params: IdParams,
      query: PageQuery,
      responses: { 200: { description: "A page.", schema: listSchema(RunSchema) } },
      async handler({ caller, params, query }) {
        await chains.get(caller, params.id);
        return {
          status: 200,
          json: await runs.list(caller, { chain_id: params.id }, splitPage(query).page),
        };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/chains/{id}:verify",
      operation_id: "verifyChain",
      summary: "Verify the hashes of a chain",
      tag: "Chains",
      auth: READ,
      params: IdParams,
      responses: {
        200: { description: "The first entry with a wrong hash, if any.", schema: VerifiedSchema },
      },
      async handler({ caller, params }) {
        await chains.get(caller, params.id);
        const broken = await chains.verify(caller, params.id);
        return { status: 200, json: { valid: broken === null, broken } };
      },
    }),
  ];

  async function readBlockPage(caller: Caller, id: string, after: number | undefined, limit: number) {
    const { last_entry_id } = await chains.get(caller, id);
    const items: Block[] = [];
    let read_to = after ?? (await chains.findViewStart(caller, id));
    for (let reads = 0; reads < READS_PER_PAGE && items.length < limit && read_to < last_entry_id; reads++) {
      const blocks = await chains.listBlocks(caller, id, read_to, ENTRIES_PER_READ);
      items.push(...blocks);
      // Entry ids increase by at least one, so a read of this many entries reaches at least this id.
      read_to = Math.max(read_to + ENTRIES_PER_READ, blocks.at(-1)?.entry_id ?? 0);
    }
    const page = items.slice(0, limit);
    const end = items.length > limit ? page.at(-1)!.entry_id! : read_to;
    return { items: page, next: end < last_entry_id ? String(end) : null };
  }
}
