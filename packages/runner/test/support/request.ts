/** Requests for the fixture programs. Does not depend on the test runner. */
import { fileURLToPath } from "node:url";
import type { Json } from "@backplane/contract";
import type { RunRequest } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";

export const FIXTURES = fileURLToPath(new URL("../fixtures", import.meta.url));

export type RequestChange = Partial<Omit<RunRequest, "package" | "grant" | "context">> & {
  entrypoint?: string[];
  protocol?: RunRequest["package"]["runtime"]["protocol"];
  package?: Partial<RunRequest["package"]>;
  env?: Record<string, string>;
  grant?: Partial<RunRequest["grant"]>;
  context?: Partial<RunRequest["context"]>;
  input?: Json;
};

/** A vai tool call by default. */
export function requestOf(change: RequestChange): RunRequest {
  const { entrypoint, protocol, package: pkg, env, grant, context, input, ...rest } = change;
  const invocation_id = rest.invocation_id ?? `inv_${Math.random().toString(36).slice(2)}`;
  const granted = grantWith({ class: "worker", ...grant });
  const entry = entrypoint ?? ["node", "./vai.mjs", "echo"];
  const variables = env ?? {};
  return {
    attempt: 1,
    export_id: "echo",
    op: "tool.invoke",
    body: { tool_execution_id: "toolx_1", input: input ?? { text: "hello" } },
    class: "worker",
    timeout_ms: 10_000,
    pool_key: JSON.stringify([entry, variables, granted]),
    binding_id: "bind_1",
    ...rest,
    invocation_id,
    package: {
      package_id: "acme/fixture",
      version: "1.0.0",
      digest: `sha256:${"0".repeat(64)}`,
      runtime: {
        protocol: protocol ?? "vai.rpc.v1",
        transport: "stdio",
        entrypoint: entry,
        env: variables,
        capabilities: [],
      },
      ...pkg,
    },
    grant: granted,
    context: {
      invocation_id,
      trace_id: "tr_1",
      org_id: "org_1",
      deadline_at: "2026-01-01T00:00:00Z",
      gateway: { base_url: "http://127.0.0.1:7420", scopes: [] },
      config: {},
      secrets: {},
      grant: granted,
      ...context,
    },
  };
}

/** A side-process call of one behavior in side.py. */
export function side(behavior: string, change: RequestChange = {}): RequestChange {
  return { protocol: "rterm.plugin.v1", entrypoint: ["python3", "./side.py", behavior], ...change };
}

export function vai(behavior: string, change: RequestChange = {}): RequestChange {
  return { entrypoint: ["node", "./vai.mjs", behavior], ...change };
}
