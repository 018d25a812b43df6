/** Runs the checks of `rterm.plugin.v1` and the author's cases: one process for each call. */
import {
  createRedactor,
  type Grant,
  isObject,
  type Json,
  type JsonObject,
  type ManifestToolExport,
  type Redactor,
} from "@backplane/contract";
import type { SchemaCheck } from "@backplane/ports";
import type { ProgramExit, StartedProgram } from "@backplane/runner";
import { checkSideHandshake, checkSideOutcome, checkSideResponse } from "@backplane/wire";
import type { OpenedPackage } from "../package/open-package.ts";
import { type AuthorCase, compareOutcome } from "./cases.ts";
import type { ConformanceLimits } from "./limits.ts";
import type { Failure, FailureContext, Findings } from "./report.ts";
import { RuleViolation } from "./rule-violation.ts";
import type { SideRule } from "./rules.ts";
import { makeSample } from "./samples.ts";
import { Transcript } from "./transcript.ts";

const PROTOCOL = "rterm.plugin.v1";
const MAX_REPORTED_LINES = 8;
const MAX_REPORTED_STDERR = 2_000;
const MAX_WAIT_MS = 30_000;

interface SideCall {
  tool_name: string;
  input: Json;
  config?: JsonObject;
  secrets?: Record<string, string>;
  /** The rule that is broken if there is no answer. */
  rule: SideRule;
}

interface BrokenRule {
  violation: RuleViolation;
  context: FailureContext;
}

export async function runSideChecks(
  plugin: OpenedPackage,
  limits: ConformanceLimits,
  cases: readonly AuthorCase[],
  findings: Findings,
): Promise<void> {
  const tools = plugin.manifest.exports.filter((each) => each.kind === "tool");
  const suite = new SideSuite(plugin, limits, findings);
  for (const tool of tools) {
    const sample = makeSample(plugin.getSchema(tool.tool.input_schema));
    const check = await plugin.compileSchema(tool.tool.input_schema);
    const valid = check === null || (await check(sample)).length === 0;
    if (valid && !(await suite.checkCall(tool, sample))) return;
    for (const each of cases.filter((test_case) => test_case.export === tool.id))
      await suite.runCase(tool, each);
  }
  const [first] = tools;
  if (first === undefined) return;
  await suite.checkUnusableInput(first);
  await suite.checkUnknownTool(first);
  await suite.checkEndOfInput(first);
}

class SideSuite {
  readonly #plugin: OpenedPackage;
  readonly #limits: ConformanceLimits;
  readonly #findings: Findings;

  constructor(plugin: OpenedPackage, limits: ConformanceLimits, findings: Findings) {
    this.#plugin = plugin;
    this.#limits = limits;
    this.#findings = findings;
  }

  /** Resolves to false if a rule of the start, handshake or identity is broken: every other check would fail too. */
  async checkCall(tool: ManifestToolExport, input: Json): Promise<boolean> {
    const checkOutput = await this.#plugin.compileSchema(tool.tool.output_schema);
    await this.#run(tool, async (session) => {
      const response = await session.call({ tool_name: toolNameOf(tool), input, rule: "side.response" });
      await checkSideOutput(tool.id, response, checkOutput);
      this.#findings.markPassed(
        "start.runs",
        "side.handshake",
        "side.identity",
        "side.tools",
        "side.capabilities",
      );
      this.#findings.markPassed("side.response", "side.exit", "side.output");
      if (checkOutput !== null) this.#findings.markPassed("side.schema");
      if (tool.permissions.secret_slots.length > 0) this.#findings.markPassed("secrets.hidden");
    });
    return !START_RULES.some((rule) => this.#findings.isBroken(rule));
  }

  async checkUnusableInput(tool: ManifestToolExport): Promise<void> {
    await this.#run(tool, async (session) => {
      await session.call({ tool_name: toolNameOf(tool), input: [null], rule: "side.input" });
      this.#findings.markPassed("side.input");
    });
  }

  async checkUnknownTool(tool: ManifestToolExport): Promise<void> {
    await this.#run(tool, async (session) => {
      const response = await session.call({
        tool_name: "no_such_tool",
        input: {},
        rule: "side.unknown-tool",
      });
      if (response.status !== "error")
        throw new RuleViolation("side.unknown-tool", "The request was answered with status ok.", response);
      this.#findings.markPassed("side.unknown-tool");
    });
  }

  async checkEndOfInput(tool: ManifestToolExport): Promise<void> {
    await this.#run(tool, async (session) => {
      await session.handshake();
      session.closeInput();
      await session.waitForExit(this.#limits.handshake_ms, "side.stdin-end", "the end of stdin");
      this.#findings.markPassed("side.stdin-end");
    });
  }

  async runCase(
    tool: ManifestToolExport,
    { name, input, config, secrets, expect }: AuthorCase,
  ): Promise<void> {
    const rule = `The author's case: ${tool.id} gives the expected result.`;
    const checkOutput = await this.#plugin.compileSchema(tool.tool.output_schema);
    // Undefined until the result is compared. A rule that is broken after that, such as `secrets.hidden`, is reported
    // under its own id and does not change the result of the case, as with vai.rpc.v1.
    let compared: Failure | null | undefined;
    const failed = await this.#run(tool, async (session) => {
      const response = await session.call({
        tool_name: toolNameOf(tool),
        input: input ?? {},
        rule: "side.response",
        ...(config === undefined ? {} : { config }),
        ...(secrets === undefined ? {} : { secrets }),
      });
      await checkSideOutput(tool.id, response, checkOutput);
      const {
        status,
        output = null,
        error = null,
      } = response as JsonObject & { error?: { code: string; message: string } };
      const text = typeof output === "string" ? output : JSON.stringify(output);
      const outcome = { status: status === "ok" ? "succeeded" : "failed", output, text, error };
      const difference = compareOutcome(expect, outcome, false);
      compared =
        difference === null
          ? null
          : {
              message: `${tool.id}: ${difference}.`,
              frame: session.redact(JSON.stringify(response)),
              fix: "Correct the plugin, or the case in tests/.",
              ...session.failureContext(),
            };
    });
    this.#findings.addCase(name, rule, compared === undefined ? brokenRuleFailure(failed!) : compared);
  }

  /** Runs one check in a separate process. Resolves to the rule violation, or null if the check passed. */
  async #run(
    tool: ManifestToolExport,
    check: (session: SideSession) => Promise<void>,
  ): Promise<BrokenRule | null> {
    let session: SideSession | null = null;
    try {
      const program = await this.#plugin.start(requestedGrant(this.#plugin, tool));
      session = new SideSession(program, this.#plugin, tool, this.#limits);
      await check(session);
      await session.close();
      session.requireNoSecrets();
      return null;
    } catch (error) {
      await session?.close();
      const violation = toRuleViolation(error);
      const failure_context = session?.failureContext() ?? { export_id: tool.id, transcript: [], stderr: "" };
      this.#findings.recordFailure(violation, failure_context);
      return { violation, context: failure_context };
    }
  }
}

function brokenRuleFailure({ violation: { rule, message, frame }, context }: BrokenRule): Failure {
  return { message, frame, fix: `Fix the violation of the rule ${rule} first.`, ...context };
}

const START_RULES: readonly SideRule[] = ["start.runs", "side.handshake", "side.identity"];

class SideSession {
  readonly #program: StartedProgram;
  readonly #plugin: OpenedPackage;
  readonly #tool: ManifestToolExport;
  readonly #limits: ConformanceLimits;
  readonly #transcript = new Transcript();
  #redactor: Redactor | null = null;
  #unread = "";
  #all_output = "";
  #stderr = "";
  #exit: ProgramExit | null = null;
  #wake: () => void = () => {};

  constructor(
    program: StartedProgram,
    plugin: OpenedPackage,
    tool: ManifestToolExport,
    limits: ConformanceLimits,
  ) {
    this.#program = program;
    this.#limits = limits;
    this.#plugin = plugin;
    this.#tool = tool;
    program.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      this.#unread += chunk;
      this.#all_output += chunk;
      this.#wake();
    });
    program.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      this.#stderr += chunk;
    });
    void program.exit.then((exit) => {
      this.#exit = exit;
      this.#wake();
    });
  }

  redact(text: string): string {
    return this.#redactor?.text(text) ?? text;
  }

  failureContext(): FailureContext {
    return {
      export_id: this.#tool.id,
      transcript: this.#transcript
        .last(MAX_REPORTED_LINES)
        .map((line) => ({ ...line, text: this.redact(line.text) })),
      stderr: this.redact(this.#stderr.slice(-MAX_REPORTED_STDERR)),
    };
  }

  async handshake(): Promise<void> {
    this.#send({ type: "handshake", protocol_version: PROTOCOL });
    const line = await this.#read("side.handshake", this.#limits.handshake_ms);
    const problem = checkSideHandshake(line);
    if (problem !== undefined)
      throw new RuleViolation("side.handshake", `The handshake is invalid: ${problem}.`, line);
    this.#checkManifest(line.manifest as JsonObject, line);
  }

  #checkManifest(
    { plugin_id, protocol_version, exposed_tools, capabilities = [] }: JsonObject,
    line: JsonObject,
  ): void {
    const { manifest } = this.#plugin;
    const { package_id, runtime } = manifest;
    const ids =
      runtime.plugin_id === undefined
        ? [package_id, package_id.slice(package_id.lastIndexOf("/") + 1)]
        : [runtime.plugin_id];
    if (!ids.includes(plugin_id as string))
      throw new RuleViolation(
        "side.identity",
        `plugin_id is ${JSON.stringify(plugin_id)}, expected ${ids.join(" or ")}.`,
        line,
      );
    if (protocol_version !== PROTOCOL)
      throw new RuleViolation(
        "side.identity",
        `protocol_version is ${JSON.stringify(protocol_version)}, expected ${PROTOCOL}.`,
        line,
      );
    const missing = manifest.exports.find(
      (each) => each.kind === "tool" && !(exposed_tools as Json[]).includes(toolNameOf(each)),
    );
    if (missing !== undefined)
      throw new RuleViolation("side.tools", `exposed_tools does not contain ${missing.id}.`, line);
    const reported = capabilities as string[];
    const allowed = runtime.capabilities;
    const invalid = reported.find(
      (name, index) =>
        name.trim() !== name ||
        name === "" ||
        reported.indexOf(name) !== index ||
        allowed?.includes(name) === false,
    );
    if (invalid !== undefined)
      throw new RuleViolation(
        "side.capabilities",
        `The capability ${JSON.stringify(invalid)} is empty, repeated or not in the manifest.`,
        line,
      );
  }

  /** Runs one exchange from the handshake to the exit of the process. */
  async call({ tool_name, input, config, secrets, rule }: SideCall): Promise<JsonObject> {
    await this.handshake();
    const request_id = `req_${crypto.randomUUID().slice(0, 8)}`;
    const slots = this.#tool.permissions.secret_slots;
    const values =
      secrets ?? Object.fromEntries(slots.map((slot) => [slot, `made-up-${crypto.randomUUID()}`]));
    this.#redactor = createRedactor(Object.values(values));
    const settings = config ?? makeSample(this.#plugin.getSchema(this.#tool.config_schema));
    const context = {
      invocation_id: "inv_test",
      trace_id: "tr_test",
      org_id: "org_local",
      deadline_at: new Date(Date.now() + this.#tool.default_timeout_ms).toISOString(),
      gateway: { base_url: "http://127.0.0.1:7420", scopes: [] },
      config: isObject(settings) ? settings : {},
      secrets: values,
      grant: requestedGrant(this.#plugin, this.#tool) as unknown as JsonObject,
    };
    this.#send({ type: "request", request_id, tool_name, context, input });
    const line = await this.#read(rule, Math.min(this.#tool.default_timeout_ms, MAX_WAIT_MS));
    const problem = checkSideResponse(line) ?? checkSideOutcome(line, request_id);
    if (problem !== undefined)
      throw new RuleViolation("side.response", `The response is invalid: ${problem}.`, line);
    const { code, message } = await this.waitForExit(this.#limits.teardown_ms, "side.exit", "the response");
    const trailing_output = this.#unread;
    if (trailing_output.trim() !== "")
      throw new RuleViolation("side.output", "stdout has output after the response.", trailing_output);
    if (code !== 0) throw new RuleViolation("side.exit", `The process did not exit with code 0. ${message}`);
    return line;
  }

  closeInput(): void {
    this.#transcript.add("host", "(end of stdin)");
    this.#program.stdin.end();
  }

  async waitForExit(ms: number, rule: SideRule, after: string): Promise<ProgramExit> {
    await this.#waitUntil(
      () => this.#exit !== null,
      ms,
      () => {
        throw new RuleViolation(rule, `The process was still running ${ms} ms after ${after}.`);
      },
    );
    return this.#exit!;
  }

  requireNoSecrets(): void {
    for (const [text, where] of [
      [this.#all_output, "stdout"],
      [this.#stderr, "stderr"],
    ] as const)
      if (this.redact(text) !== text)
        throw new RuleViolation(
          "secrets.hidden",
          `A secret of the call is in ${where}.`,
          this.redact(text.trim()),
        );
  }

  async close(): Promise<void> {
    this.#program.kill();
    await this.#program.exit;
  }

  #send(line: JsonObject): void {
    this.#transcript.add("host", line);
    if (this.#program.stdin.writable) this.#program.stdin.write(`${JSON.stringify(line)}\n`);
  }

  async #read(rule: SideRule, ms: number): Promise<JsonObject> {
    await this.#waitUntil(
      () => this.#unread.includes("\n") || this.#exit !== null,
      ms,
      () => {
        throw new RuleViolation(
          rule,
          `No line arrived within ${ms} ms.`,
          this.#unread === "" ? null : this.#unread,
        );
      },
    );
    const end = this.#unread.indexOf("\n");
    if (end === -1) {
      const reason = await this.#program.explainExit(this.#exit!, this.#stderr);
      throw new RuleViolation(rule === "side.handshake" ? "start.runs" : rule, reason);
    }
    const text = this.#unread.slice(0, end);
    this.#unread = this.#unread.slice(end + 1);
    this.#transcript.add("plugin", text);
    try {
      const line = JSON.parse(text) as Json;
      if (isObject(line)) return line;
    } catch {
      // Reported below.
    }
    throw new RuleViolation("side.output", "A line of stdout is not a JSON object.", text);
  }

  /** The wait is extended while the process gets little CPU time. */
  async #waitUntil(done: () => boolean, ms: number, onTimeout: () => never): Promise<void> {
    let expired = false;
    const stop = this.#program.after(ms, () => {
      expired = true;
      this.#wake();
    });
    try {
      while (!done()) {
        if (expired) onTimeout();
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      stop();
    }
  }
}

function toolNameOf({ id, tool }: ManifestToolExport): string {
  return tool.tool_name ?? id;
}

function requestedGrant({ manifest }: OpenedPackage, { permissions }: ManifestToolExport): Grant {
  return {
    class: "isolated",
    network: permissions.network,
    allowed_domains: [],
    filesystem: permissions.filesystem,
    mounts: [],
    gateway_api_scopes: [],
    secret_slots: permissions.secret_slots,
    capabilities: manifest.runtime.capabilities ?? [],
    tools: null,
  };
}

async function checkSideOutput(
  id: string,
  response: JsonObject,
  checkOutput: SchemaCheck | null,
): Promise<void> {
  if (response.status !== "ok" || checkOutput === null) return;
  const [issue] = await checkOutput(response.output ?? null);
  if (issue !== undefined)
    throw new RuleViolation("side.schema", `output${issue.path} of ${id} ${issue.message}.`, response);
}

function toRuleViolation(error: unknown): RuleViolation {
  if (error instanceof RuleViolation) return error;
  if ((error as { code?: string }).code === "launch_failed")
    return new RuleViolation("start.runs", (error as Error).message);
  throw error;
}
