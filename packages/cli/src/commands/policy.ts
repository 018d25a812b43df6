/** `policy`: what may be called, by whom, and what a person is asked first. */
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
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { fields, type Output, table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { parseValue, readJson, readStdin } from "../terminal/read-input.ts";

interface LevelOptions {
  level: PolicyLevel;
}

interface ExplainOptions {
  context: CallContext;
  role?: Role;
  input?: string;
}

const FIELDS =
  "\nFields: tolerance.conversation|background|headless (none, low, medium, full), allowed_tool_categories,\n" +
  "allowed_origins, roles.ROLE, risks.TOOL, floor, host, rules, deferred_tools. A value that is JSON is taken as JSON;\n" +
  "null takes a field back to its default; . is the whole policy. docs/policy.md explains each.\n\nExamples:\n" +
  "  backplane policy set tolerance.conversation medium\n" +
  '  backplane policy set allowed_origins \'["core","bundled","plugin"]\'\n' +
  '  backplane policy set roles.guest \'{"max_risk":"low"}\'\n' +
  "  backplane policy set . < policy.json\n";

export function addPolicyCommands(program: Command, act: Act): void {
  const policy = program
    .command("policy")
    .description("What may be called, by whom, and what a person is asked first.");
  atLevel(policy.command("show"))
    .description("Show what was set, and what holds with the defaults.")
    .action(act(show));
  atLevel(policy.command("set <field> [value]"))
    .description(
      "Set a field; without a value, or with -, it is read from stdin. Holds from the next call on.",
    )
    .addHelpText("after", FIELDS)
    .action(act(set));
  policy
    .command("explain <tool>")
    .description(
      "Say why a call of this tool would run, ask or be refused. Exit code 3 if it would be refused.",
    )
    .addOption(
      new Option("--context <context>", "who decides on the call")
        .choices(CALL_CONTEXTS)
        .default("conversation"),
    )
    .addOption(new Option("--role <role>", "as if the caller had this role").choices(ROLES))
    .option("--input <json>", "the arguments: JSON, or @file")
    .action(act(explain));
}

function atLevel(command: Command): Command {
  return command.addOption(
    new Option("--level <level>", "the org's, or what the project narrows")
      .choices(["org", "project"])
      .default("org"),
  );
}

async function show(context: Context, { level }: LevelOptions): Promise<undefined> {
  const found = await context.client().policy.get(level);
  const { effective, policy, generation, updated_by, updated_at } = found;
  context.out.data(found, () =>
    [
      fields({ level, generation, set_by: updated_by, set_at: updated_at, set: Object.keys(policy) }),
      "",
      ...Object.entries(effective).map(([field, value]) => `${field}: ${plainLine(JSON.stringify(value))}`),
      "",
      `backplane.toml: ${plainLine(JSON.stringify(found.host_file))}`,
    ].join("\n"),
  );
  return undefined;
}

async function set(
  context: Context,
  { level }: LevelOptions,
  field: string,
  argument: string | undefined,
): Promise<undefined> {
  const { policy } = context.client();
  const piped = argument === undefined || argument === "-";
  if (piped && context.io.stdin.isTTY === true) {
    throw new BackplaneError("cli.usage", "No value was given, and nothing is piped in.", {
      fix: `Name it, or pipe it in: backplane policy set ${field} < file`,
    });
  }
  const value = readField(field, piped ? (await readStdin(context.io)).toString("utf8") : argument);
  if (field === ".") {
    const written = await policy.put(value as Policy, { level });
    context.out.data(written, () => `Set the policy (generation ${written.generation})`);
    return undefined;
  }
  const written = await setField(context, level, field, value);
  const did = value === null ? "Took back" : "Set";
  context.out.data(written, () => `${did} ${field} (generation ${written.generation})`);
  if (value !== null) await sayUnmet(context, field);
  return undefined;
}

/** One field takes nothing from what another command sets meanwhile, so it is simply put into what is there then. */
async function setField(context: Context, level: PolicyLevel, field: string, value: Json) {
  const { policy } = context.client();
  for (let attempt = 1; ; attempt++) {
    const { policy: before, generation } = await policy.get(level);
    const patch = withField(before as JsonObject, field, value);
    try {
      return await policy.patch(patch, { level, generation });
    } catch (error) {
      if (codeOf(error) !== "request.precondition" || attempt === RACES) throw error;
    }
  }
}

const RACES = 20;

/** Words are words, but what begins like JSON and is none would be told of as a string of the wrong type. */
function readField(field: string, text: string): Json {
  const value = parseValue(text);
  if (typeof value !== "string") return value;
  if (value.trim() === "")
    throw new BackplaneError("cli.usage", `No value for ${field} came in.`, {
      fix: `Name it: backplane policy set ${field} VALUE; null takes it back to its default`,
    });
  if (/^\s*[[{"]/.test(value))
    throw new BackplaneError("cli.usage", `The value of ${field} is not JSON: ${value.slice(0, 80)}`, {
      fix: 'Quote it for the shell, as in backplane policy set roles.guest \'{"max_risk":"low"}\'',
    });
  return value;
}

/** A judgement may come before its tool, and a misspelt name looks the same: whoever wrote it can tell. */
async function sayUnmet(context: Context, field: string): Promise<void> {
  const [top, ...name] = field.split(".");
  if (top !== "risks" || name.length === 0 || context.out.quiet) return;
  const pattern = name.join(".");
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const meant = new RegExp(`^${parts.join(".*")}$`);
  const tools = await ifAllowed(context.client().catalog.list({ all: true }));
  if (tools === null || tools.some((entry) => meant.test(entry.name))) return;
  context.out.note(
    plainLine(`No tool here is called ${pattern}; it holds once one is. See: backplane tool list --all`),
  );
}

/** The top field that `path` lies in, with the value in its place; null removes. */
function withField(before: JsonObject, path: string, value: Json): JsonObject {
  const [top, ...below] = path.split(".");
  if (top === undefined || top === "" || below.includes("")) {
    throw new BackplaneError("cli.usage", `${path} is no field of a policy.`, {
      fix: "backplane policy set tolerance.conversation medium",
    });
  }
  return { [top]: placed(before[top], below, value) };
}

function placed(at: Json | undefined, path: readonly string[], value: Json): Json {
  const [name, ...below] = path;
  if (name === undefined) return value;
  const there: JsonObject = isObject(at) ? { ...at } : {};
  const next = placed(there[name], below, value);
  if (next === null) delete there[name];
  else there[name] = next;
  return there;
}

async function explain(context: Context, options: ExplainOptions, tool: string): Promise<number> {
  const { role, input } = options;
  const found = await context.client().policy.explain(tool, {
    context: options.context,
    ...(role === undefined ? {} : { role }),
    ...(input === undefined ? {} : { input: await readJson(context.io, "--input", input) }),
  });
  context.out.data(found, () => explained(context.out, found));
  if (found.decided_by === "risk") context.out.note(wayOut(found));
  return found.outcome === "deny" ? EXIT.denied : EXIT.ok;
}

/**
 * The operator's judgement takes the place of the author's word and of nobody's. What speaks for more besides, such as a
 * floor, needs a higher tolerance, which holds for every tool of that risk.
 */
function wayOut({ tool, context, risk_sources, tolerance }: PolicyExplanation): string {
  const stays = risk_sources.filter(
    ({ source, risk }) => !["author", "operator"].includes(source) && risk !== "unknown",
  );
  const least = stays.reduce<Risk>((highest, { risk }) => higherRisk(highest, risk), "low");
  const judged = `backplane policy set risks.${tool} low`;
  if (tolerance !== null && tolerates(tolerance, least)) return `To let it run unasked: ${judged}`;
  const wider = TOLERANCES.find((each) => tolerates(each, least));
  if (wider === undefined) return "What is critical asks at every tolerance.";
  const raised = `backplane policy set tolerance.${context} ${wider}`;
  return `To let it run unasked, and every other tool of ${least} risk: ${judged} && ${raised}`;
}

function explained(out: Output, found: PolicyExplanation): string {
  const { outcome, decided_by, reason, winner, losers, risk_sources, steps } = found;
  const verdict = { run: "runs", ask: "asks a person first", deny: "is refused" }[outcome];
  const why = decided_by === null ? "every rule lets it pass" : `${decided_by}: ${reason}`;
  return [
    out.paint("bold", plainLine(`${found.tool} ${verdict}. ${why}`)),
    fields({
      source: `${winner.package_id} ${winner.package_version} (${winner.origin})`,
      category: winner.category,
      role: found.role,
      context: found.context,
      tolerance: found.tolerance ?? "does not apply: the caller decides",
      risk: found.risk,
    }),
    "",
    table(
      out,
      ["RISK FROM", "BAND", "WHY"],
      risk_sources.map(({ source, risk, why: said }) => [source, risk, said]),
    ),
    "",
    table(
      out,
      ["RULE", "DECIDES", "WHY"],
      steps.map(({ rule, decision, reason: said, about }) => [rule, decision, said ?? about]),
    ),
    ...(losers.length === 0
      ? []
      : [
          "",
          table(
            out,
            ["ALSO NAMED SO", "ORIGIN", "STATUS", "WHY"],
            losers.map((one) => [`${one.package_id} ${one.name}`, one.origin, one.status, one.reason]),
          ),
        ]),
  ].join("\n");
}
