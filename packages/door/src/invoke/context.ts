/**
 * What the plugin is told (vai.context) and the body of its op. Ids that nobody gave are left out. Secret
 * values are read here, per dispatch, go into the order and nowhere else.
 */

import {
  type InvocationContext,
  type Json,
  type JsonObject,
  OPS,
  type PluginExport,
} from "@backplane/contract";
import type { InvocationRow, KernelDeps, RunOrder } from "@backplane/ports";
import { DEFAULT_WORKSPACE } from "@backplane/session";
import type { Approved } from "./approve.ts";
import type { Door } from "./door.ts";

export function runOrder(
  door: Pick<Door, "watched"> & { deps: Pick<KernelDeps, "clock" | "gateway"> },
  call: Approved,
  attempt: number,
  timeout_ms: number,
  secrets: Record<string, string>,
): RunOrder {
  const { row } = call.live;
  const { binding, package: pack } = call.plan.bound;
  return {
    invocation_id: row.id,
    attempt,
    package: {
      package_id: pack.package_id,
      version: pack.version,
      digest: pack.digest,
      runtime: pack.manifest.runtime,
    },
    export_id: row.export_id,
    ...nativeName(call.plan.export),
    op: OPS[row.export_kind],
    ...(row.turn === null ? {} : { tool_call_id: row.turn.tool_call_id }),
    body: bodyOf(row, attempt),
    context: contextOf(door, call, timeout_ms, secrets),
    grant: call.grant,
    class: call.grant.class,
    timeout_ms,
    pool_key: call.pool_key,
    binding_id: binding.binding_id,
  };
}

function nativeName(item: PluginExport): Pick<RunOrder, "native_name" | "param_headers"> {
  if (item.kind !== "tool") return {};
  const { tool_name, native_name = tool_name, param_headers } = item.tool;
  return {
    ...(native_name === undefined ? {} : { native_name }),
    ...(param_headers === undefined ? {} : { param_headers }),
  };
}

function contextOf(
  { deps, watched }: Parameters<typeof runOrder>[0],
  call: Approved,
  timeout_ms: number,
  secrets: Record<string, string>,
): InvocationContext {
  const { row } = call.live;
  const context: InvocationContext = {
    invocation_id: row.id,
    trace_id: row.trace_id,
    org_id: row.org_id,
    deadline_at: new Date(deps.clock.now() + timeout_ms).toISOString(),
    gateway: { base_url: deps.gateway.base_url(), scopes: call.grant.gateway_api_scopes },
    config: call.plan.bound.binding.config,
    secrets,
    grant: call.grant,
  };
  if (row.project_id !== null) context.project_id = row.project_id;
  if (row.session_id !== null) {
    const { org_id, project_id, session_id, turn } = row;
    const workspace = turn?.workspace ?? DEFAULT_WORKSPACE;
    context.session_id = session_id;
    if (watched({ scope: { org_id, project_id }, workspace, session_id })) context.interactive = true;
  }
  if (row.chain_id !== null) context.chain_id = row.chain_id;
  if (row.run_id !== null) context.run_id = row.run_id;
  if (call.token !== null) context.gateway.delegation_token = call.token;
  return context;
}

function bodyOf(row: InvocationRow, attempt: number): JsonObject {
  switch (row.export_kind) {
    case "tool":
      return { tool_execution_id: row.execution_id, input: row.input };
    case "hook":
      return { delivery_id: row.execution_id, attempt, event: row.input };
    case "compactor":
      return { ...objectOf(row.input), compaction_id: row.execution_id };
    case "harness": {
      const input = objectOf(row.input);
      const target = { ...objectOf(input.target ?? {}), execution_id: row.execution_id };
      return { mode: "start", ...input, target };
    }
  }
}

function objectOf(value: Json): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
