/** `policy`: which calls are allowed, for whom, and which need approval. */
import {
  BackplaneError,
  CALL_CONTEXTS,
  type CallContext,
  codeOf,
  higherRisk,
  isObject,
  type Json,
  type JsonObject,
  type Policy,
  type PolicyExplanation,
  type PolicyLevel,
  type Risk,
  ROLES,
  type Role,
  TOLERANCES,
  tolerates,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { ifAllowed } from "../bindings/report-tools.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import { similarNames } from "../command-line/similar-names.ts";
import { toolPattern } from "../command-line/tool-pattern.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { fields, type Output, table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { parseValue, readJson, readStdin } from "../terminal/read-input.ts";

interface LevelOptions {
  level: PolicyLevel;
}

interface ExplainOptions {
  context: CallContext;
  role?: Role;
  channel?: string;
  input?: string;
}

const FIELDS =
  "\nFields: tolerance.conversation|background|headless (none, low, medium, full), allowed_tool_categories,\n" +
  "allowed_origins, roles.ROLE, channels.CHANNEL, risks.TOOL, floor, host, rules, lasting_approvals (none, low,\n" +
  "medium, full), deferred_tools, pinned_tools, tool_token_budget, tool_profiles.NAME, llm. JSON values are stored as\n" +
  "JSON; null resets a field to its default; . is the whole policy.\n" +
  "See docs/policy.md.\n\nExamples:\n" +
  "  backplane policy set tolerance.conversation medium\n" +
  '  backplane policy set allowed_origins \'["core","bundled","plugin"]\'\n' +
  '  backplane policy set roles.guest \'{"max_risk":"low"}\'\n' +
  '  backplane policy set channels.web \'{"allowed_tool_categories":["coding"]}\'\n' +
  "  backplane policy set . < policy.json\n";

export function addPolicyCommands(program: Command, toAction: ToAction): void {
  const policy = program
    .command("policy")
    .description("Which calls are allowed, for whom, and which need approval.");
  addLevelFlag(policy.command("show"))
    .description("Show the configured and the effective policy.")
    .action(toAction(show));
  addLevelFlag(policy.command("set <field> [value]"))
    .description(
      "Set a field; without a value, or with -, the value is read from stdin. Applies from the next call.",
    )
    .addHelpText("after", FIELDS)
    .action(toAction(set));
  policy
    .command("explain <tool>")
    .description(
      "Explain why a call to this tool would run, need approval or be denied. Exit code 3 if it would be denied.",
    )
    .addOption(
      new Option("--context <context>", "risk context of the call")
        .choices(CALL_CONTEXTS)
        .default("conversation"),
    )
    .addOption(new Option("--role <role>", "as if the caller had this role").choices(ROLES))
    .option(
      "--channel <channel>",
      "as if the call came through this channel: api, ws, mcp or the name of an adapter plugin",
    )
    .option("--input <json>", "arguments as JSON, or @file")
    .action(toAction(explain));
}

function addLevelFlag(command: Command): Command {
  return command.addOption(
    new Option("--level <level>", "policy of the organization, or of the project")
      .choices(["org", "project"])
      .default("org"),
  );
}

async function show(context: CommandContext, { level }: LevelOptions): Promise<undefined> {
  const state = await context.client().policy.get(level);
  const { effective, policy, generation, updated_by, updated_at } = state;
  context.out.data(state, () =>
    [
      fields({ level, generation, set_by: updated_by, set_at: updated_at, set: Object.keys(policy) }),
      "",
      ...Object.entries(effective).map(([field, value]) => `${field}: ${plainLine(JSON.stringify(value))}`),
      "",
      `backplane.toml: ${plainLine(JSON.stringify(state.host_file))}`,
    ].join("\n"),
  );
  return undefined;
}

async function set(
  context: CommandContext,
  { level }: LevelOptions,
  field: string,
  argument: string | undefined,
): Promise<undefined> {
  const { policy } = context.client();
  const piped = argument === undefined || argument === "-";
  if (piped && context.io.stdin.isTTY === true) {
    throw new BackplaneError("cli.usage", "No value was specified, and stdin is a terminal.", {
      fix: `Add a value, or pipe it in: backplane policy set ${field} < file`,
    });
  }
  const value = readField(field, piped ? (await readStdin(context.io)).toString("utf8") : argument);
  if (field === ".") {
    const written = await policy.put(value as Policy, { level });
    context.out.data(written, () => `Set the policy (generation ${written.generation})`);
    return undefined;
  }
  const written = await setField(context, level, field, value);
  const verb = value === null ? "Reset" : "Set";
  context.out.data(written, () => `${verb} ${field} (generation ${written.generation})`);
  if (value !== null) await noteUnmatchedPattern(context, field);
  return undefined;
}

/** Setting one field does not conflict with changes to other fields, so a rejected patch is built and sent again. */
async function setField(context: CommandContext, level: PolicyLevel, field: string, value: Json) {
  const { policy } = context.client();
  for (let attempt = 1; ; attempt++) {
    const { policy: current, generation, effective } = await policy.get(level);
    assertKnownField(field, Object.keys(effective ?? {}));
    const patch = buildPatch(current as JsonObject, field, value);
    try {
      return await policy.patch(patch, { level, generation });
    } catch (error) {
      if (codeOf(error) !== "request.precondition" || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

const MAX_ATTEMPTS = 20;

function assertKnownField(field: string, known: readonly string[]): void {
  const [name = ""] = field.split(".", 1);
  if (known.length === 0 || known.includes(name)) return;
  const similar = similarNames(name, known);
  const hint = similar.length === 0 ? "" : ` Did you mean ${similar.join(" or ")}?`;
  throw new BackplaneError("cli.usage", `${name} is not a field of the policy.${hint}`, {
    fix: `Use one of: ${known.join(", ")}. See: backplane policy set --help`,
  });
}

/** A value that starts like JSON but is invalid is rejected here; the gateway would only report a wrong type. */
function readField(field: string, text: string): Json {
  const value = parseValue(text);
  if (typeof value !== "string") return value;
  if (value.trim() === "")
    throw new BackplaneError("cli.usage", `The value of ${field} is empty.`, {
      fix: `backplane policy set ${field} VALUE (null resets it to its default)`,
    });
  if (/^\s*[[{"]/.test(value))
    throw new BackplaneError("cli.usage", `The value of ${field} is not JSON: ${value.slice(0, 80)}`, {
      fix: 'Quote it for the shell, as in backplane policy set roles.guest \'{"max_risk":"low"}\'',
    });
  return value;
}

/** A risk may be set before its tool exists, but the name may also be misspelled, so a note is printed. */
async function noteUnmatchedPattern(context: CommandContext, field: string): Promise<void> {
  const [top, ...name] = field.split(".");
  if (top !== "risks" || name.length === 0 || context.out.quiet) return;
  const pattern = name.join(".");
  const tool_pattern = toolPattern(pattern);
  const tools = await ifAllowed(context.client().catalog.list({ all: true }));
  if (tools === null || tools.some((entry) => tool_pattern.test(entry.name))) return;
  context.out.note(
    plainLine(
      `No tool matches ${pattern} yet; the setting applies as soon as one does. See: backplane tool list --all`,
    ),
  );
}

/** Builds a patch of the top-level field of `path`; the value null removes the field at `path`. */
function buildPatch(current: JsonObject, path: string, value: Json): JsonObject {
  const [top, ...below] = path.split(".");
  if (top === undefined || top === "" || below.includes("")) {
    throw new BackplaneError("cli.usage", `${path} is not a policy field.`, {
      fix: "backplane policy set tolerance.conversation medium",
    });
  }
  return { [top]: setPath(current[top], below, value) };
}

function setPath(parent: Json | undefined, path: readonly string[], value: Json): Json {
  const [name, ...below] = path;
  if (name === undefined) return value;
  const copy: JsonObject = isObject(parent) ? { ...parent } : {};
  const next = setPath(copy[name], below, value);
  if (next === null) delete copy[name];
  else copy[name] = next;
  return copy;
}

async function explain(context: CommandContext, options: ExplainOptions, tool: string): Promise<number> {
  const { role, channel, input } = options;
  const explanation = await context.client().policy.explain(tool, {
    context: options.context,
    ...(role === undefined ? {} : { role }),
    ...(channel === undefined ? {} : { channel }),
    ...(input === undefined ? {} : { input: await readJson(context.io, "--input", input) }),
  });
  context.out.data(explanation, () => describeExplanation(context.out, explanation));
  if (explanation.decided_by === "risk") context.out.note(suggestPolicyChange(explanation));
  return explanation.outcome === "deny" ? EXIT.denied : EXIT.ok;
}

/**
 * A risk set by the operator overrides the author's and an unknown risk. Other sources, such as a floor, still apply;
 * they need a higher tolerance, which affects every tool of that risk.
 */
function suggestPolicyChange({ tool, context, risk_sources, ...explanation }: PolicyExplanation): string {
  const remaining = risk_sources.filter(
    ({ source, risk }) => !["author", "operator"].includes(source) && risk !== "unknown",
  );
  const remaining_risk = remaining.reduce<Risk>((highest, { risk }) => higherRisk(highest, risk), "low");
  const risk_command = `backplane policy set risks.${tool} low`;
  const { tolerance, tolerance_channel } = explanation;
  if (tolerance !== null && tolerates(tolerance, remaining_risk))
    return `To run it without approval: ${risk_command}`;
  const wider = TOLERANCES.find((each) => tolerates(each, remaining_risk));
  if (wider === undefined) return "Critical calls need approval at every tolerance.";
  const channel_prefix = tolerance_channel === null ? "" : `channels.${tolerance_channel}.`;
  const tolerance_command = `backplane policy set ${channel_prefix}tolerance.${context} ${wider}`;
  return `To run it and every other tool of ${remaining_risk} risk without approval: ${risk_command} && ${tolerance_command}`;
}

function describeExplanation(out: Output, explanation: PolicyExplanation): string {
  const { outcome, decided_by, reason, winner, losers, risk_sources, steps } = explanation;
  const verdict = { run: "runs", ask: "needs approval", deny: "is denied" }[outcome];
  const cause = decided_by === null ? "no rule prevents it" : `${decided_by}: ${reason}`;
  return [
    out.paint("bold", plainLine(`${explanation.tool} ${verdict}. ${cause}`)),
    fields({
      source: `${winner.package_id} ${winner.package_version} (${winner.origin})`,
      category: winner.category,
      role: explanation.role,
      channel: explanation.channel ?? "none",
      context: explanation.context,
      tolerance: explanation.tolerance ?? "not applicable: the caller decides",
      risk: explanation.risk,
    }),
    "",
    table(
      out,
      ["RISK FROM", "RISK", "WHY"],
      risk_sources.map(({ source, risk, why: text }) => [source, risk, text]),
    ),
    "",
    table(
      out,
      ["RULE", "DECIDES", "WHY"],
      steps.map(({ rule, decision, reason: text, about }) => [rule, decision, text ?? about]),
    ),
    ...(losers.length === 0
      ? []
      : [
          "",
          table(
            out,
            ["SAME NAME", "ORIGIN", "STATUS", "WHY"],
            losers.map((loser) => [
              `${loser.package_id} ${loser.name}`,
              loser.origin,
              loser.status,
              loser.reason,
            ]),
          ),
        ]),
  ].join("\n");
}
