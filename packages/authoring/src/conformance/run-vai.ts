/** Runs the checks of `vai.rpc.v1` and the author's cases against a package. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";
import type { OpenedPackage } from "../package/open-package.ts";
import { type AuthorCase, type CaseOutcome, compareOutcome } from "./cases.ts";
import type { ConformanceLimits } from "./limits.ts";
import type { FailureContext, Findings } from "./report.ts";
import { RuleViolation } from "./rule-violation.ts";
import type { VaiRule } from "./rules.ts";
import { callExport, checkResult, createTestedExport, type TestedExport } from "./vai-calls.ts";
import { ENDING_CHECKS, EXPORT_CHECKS, PROTOCOL_CHECKS, type VaiCheck } from "./vai-checks.ts";
import { ProcessEnded, VaiTestSession } from "./vai-test-session.ts";

/** Rules that are checked in every session. Each passes unless a session broke it. */
const RULES_OF_EVERY_SESSION: readonly VaiRule[] = [
  "start.runs",
  "hello.answers",
  "hello.shape",
  "hello.identity",
  "hello.once",
  "stdout.frames",
  "frame.body",
  "frame.limits",
  "frame.type",
  "event.shape",
  "event.belongs",
];

interface VaiSuiteHost {
  version: string;
  limits: ConformanceLimits;
}

export async function runVaiChecks(
  plugin: OpenedPackage,
  host: VaiSuiteHost,
  cases: readonly AuthorCase[],
  findings: Findings,
): Promise<void> {
  const suite = new VaiSuite(plugin, host, findings);
  const tested: TestedExport[] = [];
  for (const exported of plugin.manifest.exports) tested.push(await createTestedExport(plugin, exported));
  // If the process does not start, every other check would fail for the same reason.
  if (!(await suite.tryStart(tested[0]!))) return;
  const ending_checks = Promise.all(
    ENDING_CHECKS.map((check) => suite.runInSeparateProcess(check, tested[0]!)),
  );
  try {
    for (const each of tested) {
      await suite.runAll(EXPORT_CHECKS, each);
      await suite.runCases(each, cases);
      if (each === tested[0]) await suite.runAll(PROTOCOL_CHECKS, each);
    }
  } finally {
    await ending_checks;
    await suite.close();
  }
  findings.markPassed(...RULES_OF_EVERY_SESSION);
  if (tested.some(({ exported }) => exported.kind === "compactor")) findings.markPassed("compactor.retains");
  if (tested.some(({ checkOutput }) => checkOutput !== null)) findings.markPassed("result.schema");
  const hasSecrets = ({ grant }: TestedExport) =>
    grant.secret_slots.length + grant.gateway_api_scopes.length > 0;
  if (tested.some(hasSecrets)) findings.markPassed("secrets.hidden");
}

class VaiSuite {
  readonly #plugin: OpenedPackage;
  readonly #host: VaiSuiteHost;
  readonly #findings: Findings;
  #session: { session: VaiTestSession; tested: TestedExport } | null = null;

  constructor(plugin: OpenedPackage, host: VaiSuiteHost, findings: Findings) {
    this.#plugin = plugin;
    this.#host = host;
    this.#findings = findings;
  }

  async tryStart(tested: TestedExport): Promise<boolean> {
    return (await this.#sessionFor(tested)) !== null;
  }

  async runAll(checks: readonly VaiCheck[], tested: TestedExport): Promise<void> {
    for (const check of checks) {
      // Every other check waits for an answer too, and would fail for the same reason.
      if (check.rule !== "shutdown.exits" && this.#findings.isBroken("response.answers")) continue;
      const session = await this.#sessionFor(tested);
      if (session === null) return;
      await this.#run(check, session, tested);
    }
  }

  /** Runs the check in a separate process, which the check ends. */
  async runInSeparateProcess(check: VaiCheck, tested: TestedExport): Promise<void> {
    const session = await this.#startSession(tested);
    if (session === null) return;
    await this.#run(check, session, tested);
    await session.close();
  }

  async runCases(tested: TestedExport, cases: readonly AuthorCase[]): Promise<void> {
    for (const each of cases.filter((test_case) => test_case.export === tested.exported.id)) {
      const session = await this.#sessionFor(tested);
      if (session === null) return;
      await this.#runCase(each, session, tested);
    }
  }

  async close(): Promise<void> {
    const current = this.#session;
    this.#session = null;
    if (current === null) return;
    await current.session.close();
    this.#collectViolations(current.session, current.tested);
  }

  async #run(check: VaiCheck, session: VaiTestSession, tested: TestedExport): Promise<void> {
    try {
      const running = check.run(session, tested);
      if (running === null) return;
      await running;
      this.#findings.markPassed(check.rule, ...(check.covers ?? []));
    } catch (error) {
      this.#findings.recordFailure(toRuleViolation(error, check.rule), describeContext(session, tested));
      // A late answer to a failed check must not reach the next check.
      await session.close();
    }
    this.#collectViolations(session, tested);
  }

  async #runCase(each: AuthorCase, session: VaiTestSession, tested: TestedExport): Promise<void> {
    const { name, input, config, secrets, expect } = each;
    const rule = `The author's case: ${tested.exported.id} gives the expected result.`;
    try {
      const frame = await callExport(session, tested, {
        ...(input === undefined ? {} : { input }),
        ...(config === undefined ? {} : { config }),
        ...(secrets === undefined ? {} : { secrets }),
      });
      await checkResult(tested, frame, false);
      const difference = compareOutcome(expect, outcomeOf(frame), tested.exported.kind === "hook");
      if (difference === null) this.#findings.addCase(name, rule, null);
      else
        this.#findings.addCase(name, rule, {
          message: `${tested.exported.id}: ${difference}.`,
          frame: session.redact(JSON.stringify(frame)),
          fix: "Correct the plugin, or the case in tests/.",
          ...describeContext(session, tested),
        });
    } catch (error) {
      const violation = toRuleViolation(error, "response.answers");
      this.#findings.recordFailure(violation, describeContext(session, tested));
      this.#findings.addCase(name, rule, {
        message: violation.message,
        frame: violation.frame,
        fix: `Fix the violation of the rule ${violation.rule} first.`,
        ...describeContext(session, tested),
      });
      await session.close();
    }
    this.#collectViolations(session, tested);
  }

  #collectViolations(session: VaiTestSession, tested: TestedExport): void {
    for (const { violation, transcript } of session.takeViolations())
      this.#findings.recordFailure(violation, { ...describeContext(session, tested), transcript });
  }

  /** Returns the running session for exports with this grant, or starts one. Null if it could not be started. */
  async #sessionFor(tested: TestedExport): Promise<VaiTestSession | null> {
    const current = this.#session;
    if (current?.session.usable && sameGrant(current.tested, tested)) return current.session;
    await this.close();
    const session = await this.#startSession(tested);
    if (session !== null) this.#session = { session, tested };
    return session;
  }

  /** Resolves to null if the process could not be started; the broken rule is then recorded. */
  async #startSession(tested: TestedExport): Promise<VaiTestSession | null> {
    const { package_id, version } = this.#plugin.manifest;
    let session: VaiTestSession | null = null;
    try {
      session = new VaiTestSession(await this.#plugin.start(tested.grant), this.#host.limits);
      await session.hello(this.#host.version, { package_id, version });
      return session;
    } catch (error) {
      if (session === null && (error as { code?: string }).code !== "launch_failed") throw error;
      this.#findings.recordFailure(
        toRuleViolation(error, "start.runs"),
        session === null ? { export_id: null, transcript: [], stderr: "" } : describeContext(session, tested),
      );
      await session?.close();
      return null;
    }
  }
}

function sameGrant(first: TestedExport, second: TestedExport): boolean {
  return first === second || JSON.stringify(first.grant) === JSON.stringify(second.grant);
}

function toRuleViolation(error: unknown, rule: VaiRule): RuleViolation {
  if (error instanceof RuleViolation) {
    // A check that gets no answer breaks its own rule.
    return error.rule === "response.answers" ? new RuleViolation(rule, error.message, error.frame) : error;
  }
  if (error instanceof ProcessEnded || (error as { code?: string }).code === "launch_failed")
    return new RuleViolation(rule, (error as Error).message);
  throw error;
}

function describeContext(session: VaiTestSession, { exported }: TestedExport): FailureContext {
  return { export_id: exported.id, transcript: session.lastFrames(), stderr: session.stderr };
}

function outcomeOf(frame: JsonObject): CaseOutcome {
  if (frame.ok !== true) {
    const error = frame.error as { code: string; message: string };
    return { status: "failed", output: null, text: error.message, error };
  }
  const {
    status,
    result = null,
    error: outer,
  } = frame.body as { status: string; result?: Json; error?: Json };
  const {
    content,
    structured_output,
    summary,
    error = outer,
  } = (isObject(result) ? result : {}) as JsonObject;
  const text = Array.isArray(content)
    ? content
        .flatMap((block) => (isObject(block) && typeof block.text === "string" ? [block.text] : []))
        .join("\n")
    : isObject(summary) && typeof summary.text === "string"
      ? summary.text
      : "";
  const error_fields = isObject(error) ? error : {};
  return {
    status,
    output: structured_output === undefined ? result : structured_output,
    text,
    error:
      status === "succeeded" || status === "ack"
        ? null
        : {
            code: stringOr(error_fields.code, "plugin_failed"),
            message: stringOr(error_fields.message, text),
          },
  };
}

function stringOr(value: Json | undefined, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}
