import type { LlmCall, LlmCallStatus } from "@backplane/contract";
import type { LlmCallStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listLlmCalls, readLlmCall } from "../ops/llm-calls.ts";
import type { Row } from "../ops/op.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, projectOf } from "./scope.ts";

/** The status and the scope are columns. */
type CallBody = Omit<LlmCall, "id" | "org_id" | "project_id" | "status">;

export function createLlmCallStore(backend: Backend): LlmCallStore {
  return {
    open: (call, deadline, uses, reserved) =>
      backend.write("openLlmCall", {
        row: [
          call.id,
          call.org_id,
          projectColumn(call.project_id),
          call.status,
          deadline,
          call.invocation_id,
          call.run_id,
          encodeBody(call),
        ],
        uses: [...uses],
        reserved,
      }),
    settle: (call, uses, tokens) =>
      backend.write("settleLlmCall", {
        id: call.id,
        status: call.status,
        body: encodeBody(call),
        uses: uses.map(({ subject, period, starts }) => ({ subject, period, starts })),
        tokens,
      }),
    endLost: (before) => backend.write("endLostLlmCalls", { before }),
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

function encodeBody({ id: _i, org_id: _o, project_id: _p, status: _s, ...body }: LlmCall): string {
  return JSON.stringify(body satisfies CallBody);
}

function decodeCall(row: Row): LlmCall {
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    status: row.status as LlmCallStatus,
    ...(JSON.parse(row.body as string) as CallBody),
  };
}
