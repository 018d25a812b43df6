/**
 * A plugin under test behind a real host peer, so that a test sees exactly the frames that the gateway would
 * see. Works over any transport: `runPlugin` uses memory, a process test uses stdio. If the plugin
 * does not respond to a cancel within the grace period, the call rejects with `timeout` or `cancelled`.
 */
import {
  BackplaneError,
  type ContentBlock,
  type ExportOp,
  type Json,
  type JsonObject,
  type TerminalStatus,
  VAI_TIMEOUTS,
} from "@backplane/contract";
import { type Transport, VaiHost } from "@backplane/wire";
import type {
  CompactAnswer,
  CompactRequest,
  HarnessAnswer,
  HarnessRequest,
  HookEvent,
} from "../contracts.ts";
import { type ContextOptions, DEFAULT_TIMEOUT_MS, testContext } from "./context.ts";

export interface CallOptions extends ContextOptions {
  /** Aborting this signal sends the cancel frame. */
  signal?: AbortSignal;
  onEvent?(event: JsonObject & { type: string }): void;
  /** Additional fields of the request's body, such as `attempt` of a delivery. */
  body?: JsonObject;
  cancel_grace_ms?: number;
}

export interface Outcome<Result> {
  status: TerminalStatus | "ack";
  result: Result;
  events: (JsonObject & { type: string })[];
  /** The text blocks of the result (for a failure, its message), or the text of a compaction's or harness's summary. */
  text: string;
}

export interface ToolOutcome {
  content: ContentBlock[];
  structured_output?: Json;
  is_error: boolean;
  retryable: boolean;
}

export interface PluginRun {
  invoke(export_id: string, input?: Json, options?: CallOptions): Promise<Outcome<ToolOutcome>>;
  deliver(export_id: string, event: TestEvent, options?: CallOptions): Promise<Outcome<Json | undefined>>;
  compact(
    export_id: string,
    request?: Partial<CompactRequest>,
    options?: CallOptions,
  ): Promise<Outcome<CompactAnswer>>;
  runHarness(
    export_id: string,
    request?: Partial<HarnessRequest>,
    options?: CallOptions,
  ): Promise<Outcome<HarnessAnswer>>;
  /** Violated protocol rules, by kind. A correct plugin has none. */
  readonly violations: readonly string[];
  readonly inFlight: number;
  /** Sends `shutdown`. */
  close(): void;
}

export type TestEvent = Pick<HookEvent, "type"> & Partial<HookEvent>;

/** Performs the handshake over the transport. The returned object can make all four kinds of call. */
export async function connectPlugin(
  transport: Transport,
  identity: { package_id: string; version: string },
): Promise<PluginRun> {
  const violations: string[] = [];
  const host = new VaiHost({
    transport,
    identity: { package_id: identity.package_id, version: identity.version },
    host: { name: "backplane-testing", version: "0.1.0" },
    onViolation: (violation) => violations.push(violation.kind),
    // Every pending call rejects with the same error, so the test sees it there.
    onFailure: () => {},
  });
  await host.hello();
  let count = 0;
  const call = async <Result>(op: ExportOp, export_id: string, body: JsonObject, options: CallOptions) => {
    const number = ++count;
    const context = testContext(`inv_test_${number}`, options);
    return sendRequest<Result>(
      host,
      `req_${number}`,
      op,
      { export_id, context, ...body, ...options.body },
      options,
    );
  };
  return {
    violations,
    get inFlight() {
      return host.inFlight;
    },
    invoke: (export_id, input = {}, options = {}) =>
      call("tool.invoke", export_id, { tool_execution_id: `toolx_test_${count + 1}`, input }, options),
    deliver: (export_id, event, options = {}) =>
      call(
        "hook.handle",
        export_id,
        {
          delivery_id: `del_test_${count + 1}`,
          attempt: 1,
          event: {
            occurred_at: new Date().toISOString(),
            subject: { kind: event.type.split(".")[0] ?? "run", id: "run_test" },
            summary: {},
            ...event,
          },
        },
        options,
      ),
    compact: (export_id, request = {}, options = {}) =>
      call("compactor.compact", export_id, { ...EMPTY_COMPACTION, ...(request as JsonObject) }, options),
    runHarness: (export_id, request = {}, options = {}) =>
      call("harness.run", export_id, { ...EMPTY_START, ...(request as JsonObject) }, options),
    close: () => host.shutdown(),
  };
}

const EMPTY_COMPACTION: JsonObject = {
  compaction_id: "cmp_test",
  source: {
    chain_id: "ch_test",
    projection: { transport: "inline", blocks: [], pinned_items: [], token_estimate: 0 },
  },
  target: { max_input_tokens: 32_000 },
  policy: {},
};
const EMPTY_START: JsonObject = {
  mode: "start",
  target: { session_id: "sess_test", chain_id: "ch_test", execution_id: "exec_test" },
  trigger: { type: "user_request", input: [] },
  policy: {},
};

async function sendRequest<Result>(
  host: VaiHost,
  id: string,
  op: ExportOp,
  body: Record<string, unknown>,
  options: CallOptions,
): Promise<Outcome<Result>> {
  const events: Outcome<Result>["events"] = [];
  const timers: NodeJS.Timeout[] = [];
  const stop = (reason: string, error: BackplaneError) => {
    host.cancel(id, reason);
    const grace = options.cancel_grace_ms ?? VAI_TIMEOUTS.cancel_grace_ms;
    timers.push(setTimeout(() => host.abandon(id, error), grace));
  };
  const cancel = () => stop("user", new BackplaneError("cancelled"));
  const pending = host.request(id, op, body, (event) => {
    events.push(event);
    options.onEvent?.(event);
  });
  timers.push(
    setTimeout(
      () => stop("deadline_exceeded", new BackplaneError("timeout")),
      options.timeout_ms ?? DEFAULT_TIMEOUT_MS,
    ),
  );
  if (options.signal?.aborted) cancel();
  else options.signal?.addEventListener("abort", cancel, { once: true });
  try {
    const response = await pending;
    if (!response.ok) {
      throw new BackplaneError("plugin_protocol_error", response.error.message, {
        details: { code: response.error.code },
      });
    }
    const { status, result } = response.body;
    return { status, result: result as Result, events, text: textOf(result) };
  } finally {
    for (const timer of timers) clearTimeout(timer);
    options.signal?.removeEventListener("abort", cancel);
  }
}

function textOf(result: unknown): string {
  const { content, summary } = (result ?? {}) as { content?: ContentBlock[]; summary?: { text?: string } };
  if (!Array.isArray(content)) return summary?.text ?? "";
  return content
    .flatMap((block) => (block.type === "text" && typeof block.text === "string" ? [block.text] : []))
    .join("\n");
}
