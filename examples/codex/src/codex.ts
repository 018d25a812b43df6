/**
 * Hosts Codex. Its models, tools and approvals are those of the gateway, reached with the token of the call, and its
 * messages and actions become part of the conversation. Codex keeps nothing: every start begins with the conversation
 * so far, so any other harness, or the gateway's own loop, can continue where Codex stopped.
 */
import { existsSync, globSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { type AgentAction, type Block, definePlugin, fail, type HarnessCall, harness } from "@backplane/sdk";
import { type ServerListener, startAppServer } from "./app-server.ts";
import { blocksOf, changesOf, itemsOf, plainText, type ThreadItem } from "./transcript.ts";
import { verifyProgram } from "./verify-program.ts";

interface CodexConfig {
  model?: string;
  workspace?: string;
  program?: string;
  program_sha256?: string;
  approval?: "ask" | "never";
}

/** The name of the gateway in the settings of Codex: as a provider of models and as an MCP server. */
const GATEWAY_NAME = "backplane";
const TOKEN_VARIABLE = "BACKPLANE_TOKEN";
const DIFF_CHARS = 20_000;
const CONTINUE = "You were interrupted. Continue where you stopped.";

const codex = harness({
  id: "codex",
  async run(_request, call) {
    const config = call.config as CodexConfig;
    const { workspace = "/workspace", program = "/opt/codex", approval = "ask" } = config;
    if (!existsSync(workspace))
      fail(`${workspace} is not mounted. Add it to the binding: --mount FOLDER:${workspace}:rw`);
    const executable = findProgram(program);
    const sha256 = await verifyProgram(executable, config.program_sha256);
    call.progress(`starting ${executable} (SHA-256 ${sha256})`);
    const model = config.model ?? (await findFirstModel(call));
    const { history, prompt } = splitConversation(await call.readConversation());
    const turn = new Turn(call);
    const running = startAppServer(
      executable,
      buildSettings(call, model, workspace),
      prepareEnvironment(call),
      turn,
    );
    const stop = () => running.stop();
    call.signal.addEventListener("abort", stop);
    try {
      return await Promise.race([running.ended, converse()]);
    } finally {
      call.signal.removeEventListener("abort", stop);
      stop();
    }

    async function converse() {
      const { server } = running;
      const clientInfo = { name: "backplane", title: "Backplane", version: "0.1.0" };
      await server.request("initialize", { clientInfo, capabilities: null });
      server.notify("initialized");
      const { thread } = await server.request<{ thread: { id: string } }>("thread/start", {
        cwd: workspace,
        // The gateway's sandbox confines Codex and forbids the namespaces that Codex's own sandbox needs.
        sandbox: "danger-full-access",
        approvalPolicy: approval === "ask" ? "untrusted" : "never",
        ephemeral: true,
      });
      const items = itemsOf(history);
      if (items.length > 0) await server.request("thread/inject_items", { threadId: thread.id, items });
      await server.request("turn/start", { threadId: thread.id, input: [{ type: "text", text: prompt }] });
      return await turn.ended;
    }
  },
});

export const plugin = definePlugin({ package_id: "backplane/codex", version: "0.1.0", exports: [codex] });

export type TurnCall = Pick<
  HarnessCall,
  "addToConversation" | "checkpoint" | "progress" | "requestPermission"
>;

/** One turn of Codex: records its work and answers its requests. */
export class Turn implements ServerListener {
  readonly #call: TurnCall;
  readonly #items = new Map<string, ThreadItem>();
  readonly #end = Promise.withResolvers<{ summary: { text: string } }>();
  /** Items are recorded one after another, in the order in which Codex completes them. */
  #writes: Promise<void> = Promise.resolve();
  #record_count = 0;
  /** The latest message, which becomes the summary if nothing follows it. */
  #message: ThreadItem | null = null;

  constructor(call: TurnCall) {
    this.#call = call;
    this.#end.promise.catch(() => {});
  }

  get ended(): Promise<{ summary: { text: string } }> {
    return this.#end.promise;
  }

  onNotification(method: string, params: unknown): void {
    const { item, turn } = params as { item?: ThreadItem; turn?: CompletedTurn };
    if (method === "item/started" && item !== undefined) {
      this.#items.set(item.id, item);
      this.#call.progress(describe(item));
    } else if (method === "item/completed" && item !== undefined) this.#complete(item);
    else if (method === "turn/completed" && turn !== undefined) this.#finish(turn);
  }

  async onRequest(method: string, params: unknown): Promise<unknown> {
    const request = params as ApprovalRequest;
    switch (method) {
      case "item/commandExecution/requestApproval": {
        const { command, cwd, reason } = request;
        const details = { ...(cwd == null ? {} : { cwd }), ...(reason == null ? {} : { reason }) };
        return this.#decide("command", command ?? "", details);
      }
      case "item/fileChange/requestApproval": {
        const changes = changesOf(this.#items.get(request.itemId)).map(({ path, kind, diff }) => ({
          path,
          kind: kind.type,
          diff: shorten(diff),
        }));
        // A person can approve only changes that can be shown.
        if (changes.length === 0) return { decision: "decline" };
        return this.#decide("edit", changes.map(({ path }) => path).join("\n"), { changes });
      }
      case "mcpServer/elicitation/request":
        // The gateway applies its own policy to each call to its tools, so Codex need not ask about them.
        return request.serverName === GATEWAY_NAME
          ? { action: "accept", content: {}, _meta: null }
          : { action: "decline", content: null, _meta: null };
      default:
        throw new Error(`${method} is not available here.`);
    }
  }

  async #decide(
    action: string,
    target: string,
    details: NonNullable<AgentAction["details"]>,
  ): Promise<{ decision: string }> {
    const { allowed, reason } = await this.#call.requestPermission({
      agent: "codex",
      action,
      target,
      details,
    });
    if (!allowed) this.#call.progress(`not allowed: ${reason}`);
    return { decision: allowed ? "accept" : "decline" };
  }

  #complete(item: ThreadItem): void {
    if (item.type === "userMessage") return;
    const blocks = [...(this.#message === null ? [] : blocksOf(this.#message))];
    this.#message = item.type === "agentMessage" ? item : null;
    if (this.#message === null) blocks.push(...blocksOf(item));
    this.#record(blocks);
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

  #finish({ status, error }: CompletedTurn): void {
    const text = this.#message === null ? "" : String(this.#message.text);
    if (status === "completed") {
      this.#writes.then(
        () => this.#end.resolve({ summary: { text } }),
        () => {},
      );
      return;
    }
    if (this.#message !== null) this.#record(blocksOf(this.#message));
    const reason = error?.message ?? `its turn ended as ${status}`;
    const reject = () => this.#end.reject(new Error(`Codex failed: ${reason}`));
    this.#writes.then(reject, reject);
  }
}

interface CompletedTurn {
  status: string;
  error: { message: string } | null;
}

interface ApprovalRequest {
  itemId: string;
  command?: string | null;
  cwd?: string | null;
  reason?: string | null;
  serverName?: string;
}

/** A shortened diff states how much is missing, so that nobody mistakes it for the whole change. */
function shorten(diff: string): string {
  const missing = diff.length - DIFF_CHARS;
  return missing <= 0 ? diff : `${diff.slice(0, DIFF_CHARS)}\n[${missing} more characters are not shown]`;
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

/** npm installs the program for this platform as a separate package. */
function findProgram(folder: string): string {
  const pattern = `node_modules/@openai/codex-linux-${process.arch}/vendor/*/bin/codex`;
  const [path] = globSync(pattern, { cwd: folder });
  const install = "npm install --prefix FOLDER @openai/codex";
  return path === undefined
    ? fail(`${folder} does not contain Codex. Run ${install} and mount the folder: --mount FOLDER:${folder}`)
    : join(folder, path);
}

/** Settings of Codex as `-c KEY=VALUE`, where the value is TOML. */
export function buildSettings(
  { gateway }: Pick<HarnessCall, "gateway">,
  model: string,
  workspace: string,
): string[] {
  const base = gateway.base_url.replace(/\/$/, "");
  const provider = {
    name: "Backplane",
    base_url: `${base}/v1`,
    wire_api: "responses",
    env_key: TOKEN_VARIABLE,
    requires_openai_auth: false,
  };
  const server = { url: `${base}/mcp`, bearer_token_env_var: TOKEN_VARIABLE };
  const settings: [string, unknown][] = [
    ["model", model],
    ["model_provider", GATEWAY_NAME],
    [`model_providers.${GATEWAY_NAME}`, provider],
    ["mcp_servers", gateway.scopes.includes("tools:invoke") ? { [GATEWAY_NAME]: server } : {}],
    // Rules and settings in the folder could allow commands without approval.
    ["projects", { [JSON.stringify(workspace)]: { trust_level: "untrusted" } }],
    // Sub-agents of Codex would work outside the conversation.
    ["features.multi_agent", false],
    ["features.goals", false],
    ["shell_environment_policy.exclude", [TOKEN_VARIABLE]],
    ["analytics.enabled", false],
    ["check_for_update_on_startup", false],
    ["web_search", "disabled"],
  ];
  return settings.flatMap(([key, value]) => ["-c", `${key}=${toToml(value)}`]);
}

/** A JSON string is also a valid TOML string. */
function toToml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toToml).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([key, each]) => `${key} = ${toToml(each)}`);
  return `{ ${fields.join(", ")} }`;
}

function prepareEnvironment(call: HarnessCall): Record<string, string> {
  const home = call.context.scratch_dir ?? fail("Codex needs a scratch folder.");
  const codex_home = join(home, ".codex");
  mkdirSync(codex_home, { recursive: true });
  const { PATH = "", LANG = "C.UTF-8", ...rest } = process.env;
  const git = Object.entries(rest).filter(([name]) => name.startsWith("GIT_CONFIG_")) as [string, string][];
  return {
    PATH,
    LANG,
    HOME: home,
    TMPDIR: home,
    CODEX_HOME: codex_home,
    [TOKEN_VARIABLE]: call.context.gateway.delegation_token ?? "",
    ...Object.fromEntries(git),
  };
}

function describe({ type, command, changes, tool }: ThreadItem): string {
  if (type === "commandExecution") return `runs ${String(command)}`;
  if (type === "fileChange")
    return `changes ${(changes as { path: string }[]).map(({ path }) => path).join(", ")}`;
  return type === "mcpToolCall" ? `calls ${String(tool)}` : type;
}
