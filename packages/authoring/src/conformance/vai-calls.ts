/** Calls to exports over a session, with the context that the gateway would send, and checks of their responses. */
import {
  canonicalJson,
  findCompactorIssue,
  type Grant,
  findHarnessIssue,
  isObject,
  type Json,
  type JsonObject,
  OPS,
  type PluginExport,
  parseToolResult,
} from "@backplane/contract";
import type { SchemaCheck } from "@backplane/ports";
import type { OpenedPackage } from "../package/open-package.ts";
import { RuleViolation } from "./rule-violation.ts";
import { buildRequestBody, findRequiredEntries, makeSample } from "./samples.ts";
import type { VaiTestSession } from "./vai-test-session.ts";

/** An export with the values that the suite sends to it. */
export interface TestedExport {
  exported: PluginExport;
  grant: Grant;
  /** Valid input; null if none could be generated from the input schema. */
  input: Json | null;
  config: JsonObject;
  checkOutput: SchemaCheck | null;
  /** How long the suite waits for an answer. */
  timeout_ms: number;
}

/** Longer timeouts of exports are for real work; the suite's inputs are small. */
const MAX_WAIT_MS = 30_000;

export async function createTestedExport(
  plugin: OpenedPackage,
  exported: PluginExport,
): Promise<TestedExport> {
  const { permissions, config_schema } = exported;
  const tool = exported.kind === "tool" ? exported.tool : undefined;
  const config = makeSample(plugin.getSchema(config_schema));
  return {
    exported,
    grant: {
      class: "isolated",
      network: permissions.network,
      // No domain is allowed, because the results must not depend on a server.
      allowed_domains: [],
      filesystem: permissions.filesystem,
      mounts: [],
      gateway_api_scopes: permissions.gateway_api_scopes,
      secret_slots: permissions.secret_slots,
      capabilities: [],
      tools: null,
    },
    input: await makeSampleInput(plugin, tool?.input_schema),
    config: isObject(config) ? config : {},
    checkOutput: await plugin.compileSchema(tool?.output_schema),
    timeout_ms: Math.min(exported.default_timeout_ms, MAX_WAIT_MS),
  };
}

async function makeSampleInput(plugin: OpenedPackage, path: string | undefined): Promise<Json | null> {
  const sample = makeSample(plugin.getSchema(path));
  const check = await plugin.compileSchema(path);
  return check === null || (await check(sample)).length === 0 ? sample : null;
}

export interface CallOptions {
  input?: Json;
  config?: JsonObject;
  secrets?: Record<string, string>;
  /** Replaces fields of the context. */
  context?: JsonObject;
}

/** The body of a request, with a context as the gateway sends it. */
export async function buildCallBody(
  session: VaiTestSession,
  { exported, grant, input, config }: TestedExport,
  options: CallOptions = {},
): Promise<JsonObject> {
  const count = session.nextCallNumber();
  const secrets =
    options.secrets ?? Object.fromEntries(grant.secret_slots.map((slot) => [slot, makeSecret()]));
  const token = grant.gateway_api_scopes.length > 0 ? makeSecret() : null;
  session.addSecrets([...Object.values(secrets), ...(token === null ? [] : [token])]);
  const scratch_dir = await session.makeScratch(`call_${count}`);
  const context: JsonObject = {
    invocation_id: `inv_test_${count}`,
    trace_id: `tr_test_${count}`,
    org_id: "org_local",
    project_id: "proj_default",
    session_id: "sess_test",
    chain_id: "ch_test",
    run_id: "run_test",
    deadline_at: new Date(Date.now() + exported.default_timeout_ms).toISOString(),
    gateway: {
      base_url: "http://127.0.0.1:7420",
      scopes: grant.gateway_api_scopes,
      ...(token === null ? {} : { delegation_token: token }),
    },
    config: options.config ?? config,
    secrets,
    grant: grant as unknown as JsonObject,
    ...(scratch_dir === null ? {} : { scratch_dir }),
    ...options.context,
  };
  return {
    export_id: exported.id,
    context,
    ...buildRequestBody(exported, count, options.input === undefined ? input : options.input),
  };
}

function makeSecret(): string {
  return `made-up-${crypto.randomUUID()}`;
}

/** Sends a request, by default with the sample input and config, and waits for its response. */
export async function callExport(
  session: VaiTestSession,
  tested: TestedExport,
  options: CallOptions = {},
  encode?: (frame: JsonObject) => (string | Buffer)[],
): Promise<JsonObject> {
  const body = await buildCallBody(session, tested, options);
  return await waitForAnswer(
    session,
    tested,
    session.request(OPS[tested.exported.kind], body, encode).response,
  );
}

export function waitForAnswer(
  session: VaiTestSession,
  { exported, timeout_ms }: Pick<TestedExport, "exported" | "timeout_ms">,
  response: Promise<JsonObject>,
): Promise<JsonObject> {
  return session.within(response, timeout_ms, () =>
    session.missingAnswer("response.answers", `${exported.id} did not answer within ${timeout_ms} ms`),
  );
}

/** Checks the status and the result of a response to a valid request. Throws a RuleViolation. */
export async function checkResult(
  { exported, checkOutput }: TestedExport,
  frame: JsonObject,
  check_retention = true,
): Promise<void> {
  if (frame.ok !== true) return;
  const { status, result = null } = frame.body as { status: string; result?: Json };
  if (status === (exported.kind === "hook" ? "succeeded" : "ack"))
    throw new RuleViolation(
      "response.status",
      `The ${exported.kind} ${exported.id} answered with status ${status}.`,
      frame,
    );
  if (status !== "succeeded") return;
  if (exported.kind === "tool") return await checkToolResult(exported.id, result, checkOutput, frame);
  const issue = !isObject(result)
    ? "the result is not an object"
    : exported.kind === "compactor"
      ? findCompactorIssue(result)
      : findHarnessIssue(result);
  if (issue !== null)
    throw new RuleViolation("result.shape", `The result of ${exported.id} is invalid: ${issue}.`, frame);
  if (exported.kind === "compactor" && check_retention)
    checkRetained(exported.compactor.supports_pinned_items, result as JsonObject, frame);
}

async function checkToolResult(
  id: string,
  value: Json,
  checkOutput: SchemaCheck | null,
  frame: JsonObject,
): Promise<void> {
  const result = parseToolResult(value);
  if (typeof result === "string")
    throw new RuleViolation("result.shape", `The result of ${id} is invalid: ${result}.`, frame);
  if (checkOutput === null || result.is_error) return;
  if (result.structured_output === undefined)
    throw new RuleViolation(
      "result.schema",
      `${id} has an output_schema, but its result has no structured_output.`,
      frame,
    );
  const [issue] = await checkOutput(result.structured_output);
  if (issue !== undefined)
    throw new RuleViolation(
      "result.schema",
      `structured_output${issue.path} of ${id} ${issue.message}.`,
      frame,
    );
}

/** Compares the seed with the sample conversation, as the host compares it with the chain. */
function checkRetained(
  supports_pinned_items: boolean,
  { seed_blocks = [] }: JsonObject,
  frame: JsonObject,
): void {
  const blocks = seed_blocks as JsonObject[];
  const seed_keys = new Set(blocks.map(comparisonKey));
  const lost = findRequiredEntries(supports_pinned_items).find(
    (block) => !seed_keys.has(comparisonKey(block)),
  );
  if (lost !== undefined)
    throw new RuleViolation(
      "compactor.retains",
      `The block ${JSON.stringify(lost)} is missing from seed_blocks.`,
      frame,
    );
  const call_ids = new Set<Json | undefined>();
  for (const { kind, tool_call_id } of blocks) {
    if (kind === "tool_call") call_ids.add(tool_call_id);
    if (kind === "tool_result" && !call_ids.has(tool_call_id))
      throw new RuleViolation(
        "compactor.retains",
        `The result of ${JSON.stringify(tool_call_id)} is not after its call.`,
        frame,
      );
  }
}

/** Leaves out the entry ids, which a compactor may change. */
function comparisonKey({ entry_id: _id, from_entries: _from, ...block }: JsonObject): string {
  return canonicalJson(block);
}
