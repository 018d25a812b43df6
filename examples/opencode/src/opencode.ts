/**
 * Hosts OpenCode. Its models, tools and approvals are those of the gateway, reached with the token of the call, and its
 * messages and actions become part of the conversation. OpenCode keeps nothing: every start begins with the
 * conversation so far, so any other harness, or the gateway's own loop, can continue where OpenCode stopped.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AgentAction, type Block, definePlugin, fail, type HarnessCall, harness } from "@backplane/sdk";
import { type OpenCodeServer, type ServerEvent, startServer } from "./server.ts";
import { blocksOf, describeHistory, GATEWAY_NAME, type MessagePart, plainText } from "./transcript.ts";
import { verifyProgram } from "./verify-program.ts";

interface OpenCodeConfig {
  model?: string;
  workspace?: string;
  program?: string;
  program_sha256?: string;
  approval?: "ask" | "never";
}

const CONTINUE = "You were interrupted. Continue where you stopped.";

const opencode = harness({
  id: "opencode",
  async run(_request, call) {
    const config = call.config as OpenCodeConfig;
    const { workspace = "/workspace", program = "/opt/opencode", approval = "ask" } = config;
    if (!existsSync(workspace))
      fail(`${workspace} is not mounted. Add it to the binding: --mount FOLDER:${workspace}:rw`);
    const executable = findProgram(program);
    const sha256 = await verifyProgram(executable, config.program_sha256);
    call.progress(`starting ${executable} (SHA-256 ${sha256})`);
    const model = config.model ?? (await findFirstModel(call));
    const { history, prompt } = splitConversation(await call.readConversation());
    const settings = buildSettings(call, model, approval);
    const server = await startServer(executable, workspace, prepareEnvironment(call, settings));
    const stop = () => server.stop();
    call.signal.addEventListener("abort", stop);
    try {
      return await Promise.race([server.ended, converse()]);
    } finally {
      call.signal.removeEventListener("abort", stop);
      stop();
    }

    async function converse() {
      const { id } = await server.send<{ id: string }>("POST", "/session", { title: "Backplane" });
      const turn = new Turn(call, server, id);
      await server.listen((event) => turn.onEvent(event));
      if (history.length > 0) {
        const parts = [{ type: "text", text: describeHistory(history) }];
        await server.send("POST", `/session/${id}/message`, { noReply: true, parts });
      }
      const parts = [{ type: "text", text: prompt }];
      turn.begin();
      await server.send("POST", `/session/${id}/prompt_async`, { parts });
      return await turn.ended;
    }
  },
});

export const plugin = definePlugin({
  package_id: "backplane/opencode",
  version: "0.1.0",
  exports: [opencode],
});

export type TurnCall = Pick<
  HarnessCall,
  "addToConversation" | "checkpoint" | "progress" | "requestPermission"
>;

/** One turn of OpenCode: records its work and answers its requests. */
export class Turn {
  readonly #call: TurnCall;
  readonly #server: Pick<OpenCodeServer, "send">;
  readonly #session_id: string;
  /** The blocks of each part by its id, in the order in which the parts began; null while a part is incomplete. */
  readonly #parts = new Map<string, Block[] | null>();
  /** How many parts have been processed: recorded, held in `#message`, or found to have no blocks. */
  #processed = 0;
  readonly #end = Promise.withResolvers<{ summary: { text: string } }>();
  /** Parts are recorded one after another, in the order in which they began. */
  #writes: Promise<void> = Promise.resolve();
  #record_count = 0;
  /** The latest message, which becomes the summary if nothing follows it. */
  #message: Block | null = null;
  #error: string | null = null;
  #begun = false;

  constructor(call: TurnCall, server: Pick<OpenCodeServer, "send">, session_id: string) {
    this.#call = call;
    this.#server = server;
    this.#session_id = session_id;
    this.#end.promise.catch(() => {});
  }

  get ended(): Promise<{ summary: { text: string } }> {
    return this.#end.promise;
  }

  /** Must be called before the prompt is sent. OpenCode may report idle before that, which does not end the turn. */
  begin(): void {
    this.#begun = true;
  }

  onEvent({ type, properties }: ServerEvent): void {
    if (type === "permission.asked") {
      // Not filtered by session: sub-agents of OpenCode ask in their own sessions.
      void this.#decide(properties as unknown as PermissionRequest);
      return;
    }
    if (properties.sessionID !== this.#session_id) return;
    if (type === "message.part.updated") this.#update(properties.part as MessagePart);
    else if (type === "session.error") this.#error = describeError(properties.error);
    else if (type === "session.idle" && this.#begun) this.#finish();
  }

  async #decide({ id, permission, patterns, metadata }: PermissionRequest): Promise<void> {
    try {
      const { command } = metadata;
      const { allowed, reason } = await this.#call.requestPermission({
        agent: "opencode",
        action: permission === "bash" ? "command" : permission,
        target: typeof command === "string" ? command : patterns.join("\n"),
        details: metadata as NonNullable<AgentAction["details"]>,
      });
      if (!allowed) this.#call.progress(`not allowed: ${reason}`);
      const reply = allowed ? { reply: "once" } : { reply: "reject", message: reason };
      await this.#server.send("POST", `/permission/${id}/reply`, reply);
    } catch (error) {
      this.#end.reject(error);
    }
  }

  #update(part: MessagePart): void {
    // OpenCode repeats parts that it has completed.
    if ((this.#parts.get(part.id) ?? null) !== null) return;
    const blocks = blocksOf(part);
    this.#parts.set(part.id, blocks);
    if (part.type === "tool" && blocks !== null) this.#call.progress(`called ${part.tool}`);
    this.#processCompleted();
  }

  /**
   * A text may be reported as complete after the call that follows it, so parts are processed in the order in which
   * they began.
   */
  #processCompleted(): void {
    for (const blocks of [...this.#parts.values()].slice(this.#processed)) {
      if (blocks === null) return;
      this.#processed++;
      if (blocks.length === 0) continue;
      const held_back = this.#message === null ? [] : [this.#message];
      this.#message = blocks[0]!.kind === "response" ? blocks[0]! : null;
      this.#record(this.#message === null ? [...held_back, ...blocks] : held_back);
    }
  }

  #record(blocks: Block[]): void {
    if (blocks.length === 0) return;
    this.#writes = this.#writes.then(async () => {
      await this.#call.addToConversation(blocks);
      // Shows the gateway that a restarted harness has made progress.
      this.#call.checkpoint({ records: ++this.#record_count });
    });
    this.#writes.catch((error: Error) => this.#end.reject(error));
  }

  #finish(): void {
    const error = this.#error;
    if (error === null) {
      const text = this.#message === null ? "" : plainText(this.#message);
      this.#writes.then(
        () => this.#end.resolve({ summary: { text } }),
        () => {},
      );
      return;
    }
    if (this.#message !== null) this.#record([this.#message]);
    const reject = () => this.#end.reject(new Error(`OpenCode failed: ${error}`));
    this.#writes.then(reject, reject);
  }
}

interface PermissionRequest {
  id: string;
  permission: string;
  patterns: string[];
  metadata: Record<string, unknown>;
}

function describeError(error: unknown): string {
  const { name, data } = (error ?? {}) as { name?: string; data?: { message?: string } };
  return data?.message ?? name ?? "it reported no reason";
}

/**
 * The conversation ends with the message that started the call, or with the work of an attempt that was interrupted.
 */
function splitConversation(blocks: readonly Block[]): { history: Block[]; prompt: string } {
  const last = blocks.at(-1);
  return last?.kind === "input"
    ? { history: blocks.slice(0, -1), prompt: plainText(last) }
    : { history: [...blocks], prompt: CONTINUE };
}

async function findFirstModel(call: HarnessCall): Promise<string> {
  const { data } = await call.gateway.json<{ data: { id: string }[] }>("/v1/models");
  return data[0]?.id ?? fail("No model is available. Add one: backplane provider add PLUGIN");
}

/** npm installs the program for this platform as a separate package; `baseline` runs on every processor. */
function findProgram(folder: string): string {
  const names = [`opencode-linux-${process.arch}-baseline`, `opencode-linux-${process.arch}`];
  const program = names.map((name) => join(folder, "node_modules", name, "bin/opencode")).find(existsSync);
  const install = "npm install --prefix FOLDER opencode-ai";
  return (
    program ??
    fail(`${folder} does not contain OpenCode. Run ${install} and mount the folder: --mount FOLDER:${folder}`)
  );
}

/** The content of opencode.json. */
export function buildSettings(
  { gateway, context }: Pick<HarnessCall, "gateway" | "context">,
  model: string,
  approval: "ask" | "never",
): object {
  const base = gateway.base_url.replace(/\/$/, "");
  const token = context.gateway.delegation_token ?? "";
  const permission = approval === "ask" ? "ask" : "allow";
  return {
    model: `${GATEWAY_NAME}/${model}`,
    small_model: `${GATEWAY_NAME}/${model}`,
    enabled_providers: [GATEWAY_NAME],
    provider: {
      [GATEWAY_NAME]: {
        npm: "@ai-sdk/openai-compatible",
        name: "Backplane",
        options: { baseURL: `${base}/v1`, apiKey: token },
        models: { [model]: { name: model, tool_call: true } },
      },
    },
    mcp: gateway.scopes.includes("tools:invoke")
      ? {
          [GATEWAY_NAME]: {
            type: "remote",
            url: `${base}/mcp`,
            headers: { Authorization: `Bearer ${token}` },
            oauth: false,
          },
        }
      : {},
    // The gateway applies its own policy to each call to its tools, so OpenCode need not ask about them.
    permission: {
      edit: permission,
      bash: permission,
      external_directory: permission,
      webfetch: "deny",
      websearch: "deny",
      question: "deny",
      doom_loop: "deny",
    },
    autoupdate: false,
    share: "disabled",
    snapshot: false,
  };
}

/** Writes the settings to a file in the scratch folder, and returns the environment in which OpenCode reads it. */
export function prepareEnvironment(
  call: Pick<HarnessCall, "context">,
  settings: object,
): Record<string, string> {
  const home = call.context.scratch_dir ?? fail("OpenCode needs a scratch folder.");
  const { PATH = "", LANG = "C.UTF-8", ...rest } = process.env;
  const git = Object.entries(rest).filter(([name]) => name.startsWith("GIT_CONFIG_")) as [string, string][];
  // PROJECT_CONFIG is disabled because settings in the folder could allow commands without approval.
  const disabled_features = [
    "PROJECT_CONFIG",
    "AUTOUPDATE",
    "MODELS_FETCH",
    "LSP_DOWNLOAD",
    "DEFAULT_PLUGINS",
    "CLAUDE_CODE",
  ];
  // The settings are in a file, because commands inherit the environment and the settings contain the token.
  const file = join(home, "opencode.json");
  writeFileSync(file, JSON.stringify(settings), { mode: 0o600 });
  return {
    PATH,
    LANG,
    HOME: home,
    TMPDIR: home,
    OPENCODE_CONFIG: file,
    ...Object.fromEntries(disabled_features.map((name) => [`OPENCODE_DISABLE_${name}`, "1"])),
    ...Object.fromEntries(git),
  };
}
