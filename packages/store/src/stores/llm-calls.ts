import { type LlmCall, type LlmCallStatus, type TokenUsage, tokenUsage } from "@backplane/contract";
import type { LlmCallStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listLlmCalls, readLlmCall } from "../ops/llm-calls.ts";
import type { Row } from "../ops/op.ts";
import type { EndpointUse } from "../ops/runs.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, projectOf } from "./scope.ts";

/** The part of a call that is stored as JSON; the id, the scope and the status are columns. */
type CallBody = Omit<LlmCall, "id" | "org_id" | "project_id" | "status">;

export function createLlmCallStore(backend: Backend): LlmCallStore {
  return {
    open: (call, deadline, uses, reserved, node_id) =>
      backend.write("openLlmCall", {
        row: [
          call.id,
          call.org_id,
          projectColumn(call.project_id),
          call.status,
          deadline,
          call.invocation_id,
          call.run_id,
          encodeBody(call, node_id),
        ],
        uses: [...uses],
        reserved,
      }),
    settle: (call, uses, tokens) =>
      backend.write("settleLlmCall", {
        id: call.id,
        status: call.status,
        body: encodeBody(call, null),
        uses: uses.map(({ subject, period, starts }) => ({ subject, period, starts })),
        tokens,
        run: toEndpointUse(call),
      }),
    endLost: (before, now) =>
      backend.write("endLostLlmCalls", {
        before,
        dead_nodes: now !== null && backend.dialect === "postgres",
        now: now === null ? null : backend.selectTime(now),
      }),
    async get(scope, id) {
      const row = await backend.read(() => readLlmCall(scope.org_id, id));
      if (row === undefined) return null;
      const call = decodeCall(row);
      return scope.project_id === null || call.project_id === scope.project_id ? call : null;
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listLlmCalls(filter, [
          scope.org_id,
          projectColumn(scope.project_id),
          pageCursor(page),
          page.limit + 1,
        ] as const),
      );
      return toPage(rows, page, (row) => row.id as string, decodeCall);
    },
  };
}

/**
 * A provider can report any number. The token totals of runs must stay far below the largest integer of the store and
 * of JavaScript.
 */
const MAX_CALL_TOKENS = 1_000_000_000;

/**
 * Null for a call without a run, and for a request that only counts tokens: it is not a model call and uses no tokens.
 */
function toEndpointUse({ run_id, operation, usage }: LlmCall): EndpointUse | null {
  if (run_id === null || operation !== "generate") return null;
  const reported = usage ?? tokenUsage();
  const count = (field: keyof TokenUsage) => {
    const tokens = reported[field];
    return Number.isSafeInteger(tokens) && tokens > 0 ? Math.min(tokens, MAX_CALL_TOKENS) : 0;
  };
  return {
    run_id,
    calls: 1,
    input_other: count("input_other"),
    input_cache_read: count("input_cache_read"),
    input_cache_creation: count("input_cache_creation"),
    output: count("output"),
  };
}

function encodeBody(
  { id: _i, org_id: _o, project_id: _p, status: _s, ...body }: LlmCall,
  node_id: string | null,
): string {
  return JSON.stringify({ ...(body satisfies CallBody), ...(node_id === null ? {} : { node_id }) });
}

function decodeCall(row: Row): LlmCall {
  const { node_id: _node, ...body } = JSON.parse(row.body as string) as CallBody & { node_id?: string };
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    status: row.status as LlmCallStatus,
    ...body,
  };
}
