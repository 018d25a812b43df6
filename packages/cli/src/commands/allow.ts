/** `allow`: lasting permissions to call tools without asking each time. */
import {
  type AllowRule,
  type AllowRuleCreate,
  type ArgumentCondition,
  RULE_RISKS,
  type RuleRisk,
} from "@backplane/contract";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../context/page.ts";
import { plainLine } from "../terminal/plain-text.ts";

const EXAMPLES =
  "\nExamples:\n" +
  "  backplane allow add mcp_github_search_issues\n" +
  "  backplane allow add --server playwright --max-risk medium\n" +
  "  backplane allow add run_command --argument command='git *' --for everyone\n" +
  "In a pattern * matches any characters except control characters and ; | & $ < > `, and no .. folder.\n";

interface AddOptions {
  server?: string;
  argument?: Record<string, ArgumentCondition>;
  onlyTheseArguments?: boolean;
  maxRisk?: RuleRisk;
  for: string;
  orgWide?: boolean;
  note?: string;
}

export function addAllowCommands(program: Command, toAction: ToAction): void {
  const allow = program.command("allow").description("Allow calls to run without asking each time.");
  addPageFlags(allow.command("list").description("List the allow rules.")).action(toAction(list));
  allow
    .command("add [tool]")
    .description("Allow calls to a tool, or to all tools of a server, within the policy's lasting_approvals.")
    .option("--server <name>", "all tools of this server or package")
    .option("--argument <name=pattern>", "only calls whose argument matches; repeatable", parseArgument)
    .option("--only-these-arguments", "exclude calls with other arguments")
    .addOption(
      new Option("--max-risk <risk>", "up to this risk (default: the current risk)").choices(RULE_RISKS),
    )
    .option("--for <who>", "me, everyone, or the id of a key; all but me require the role admin", "me")
    .option("--org-wide", "for all projects of the organization")
    .option("--note <text>", "why the rule exists")
    .addHelpText("after", EXAMPLES)
    .action(toAction(add));
  allow
    .command("remove <id>")
    .description("Remove a rule; the next call requires approval again.")
    .action(toAction(remove));
}

/** Collects `name=pattern` pairs. A pattern without `*` matches only that text. */
function parseArgument(
  text: string,
  previous: Record<string, ArgumentCondition> = {},
): Record<string, ArgumentCondition> {
  const at = text.indexOf("=");
  if (at <= 0 || at === text.length - 1)
    throw new InvalidArgumentError("--argument takes NAME=PATTERN, as in command='git *'.");
  return { ...previous, [text.slice(0, at)]: { matches: text.slice(at + 1) } };
}

async function list(context: CommandContext, options: PageFlags): Promise<undefined> {
  const rules = await context.client().allow_rules.list(options);
  showPage(
    context,
    rules,
    ["ID", "COVERS", "MAX RISK", "CALLER", "CREATED BY", "CREATED", "STATUS"],
    (rule) => [
      rule.id,
      coverageText(rule),
      rule.max_risk,
      rule.identity ?? "everyone",
      rule.created_by,
      rule.created_at,
      rule.ended ?? rule.suspended ?? "in effect",
    ],
  );
  return undefined;
}

async function add(
  context: CommandContext,
  options: AddOptions,
  tool: string | undefined,
): Promise<undefined> {
  const { server, argument, onlyTheseArguments, maxRisk, orgWide, note } = options;
  const identity = options.for === "everyone" ? null : options.for;
  const body: AllowRuleCreate = {
    ...(tool === undefined ? {} : { tool }),
    ...(server === undefined ? {} : { server }),
    ...(argument === undefined ? {} : { arguments: argument }),
    ...(onlyTheseArguments === true ? { other_arguments: false } : {}),
    ...(maxRisk === undefined ? {} : { max_risk: maxRisk }),
    ...(identity === "me" ? {} : { identity }),
    ...(orgWide === true ? { org_wide: true } : {}),
    ...(note === undefined ? {} : { note }),
  };
  const rule = await context.client().allow_rules.create(body);
  context.out.data(rule, () => plainLine(`Allowed ${ruleText(rule)} (${rule.id})`));
  context.out.note(`To undo: backplane allow remove ${rule.id}`);
  return undefined;
}

async function remove(context: CommandContext, _options: object, id: string): Promise<undefined> {
  await context.client().allow_rules.remove(id);
  context.out.data({ removed: id }, () => `Removed ${id}`);
  return undefined;
}

/** Describes the calls that the rule covers. */
function ruleText(rule: AllowRule): string {
  const who = rule.identity === null ? "every caller" : rule.identity;
  return `${coverageText(rule)} for ${who}, up to ${rule.max_risk} risk`;
}

function coverageText({ covers, tool, package_id, arguments: conditions }: AllowRule): string {
  const target = covers === "tool" ? tool! : `all tools of ${package_id}`;
  if (conditions === null) return target;
  const tests = Object.entries(conditions).map(
    ([name, { matches, equals }]) => `${name}=${matches ?? JSON.stringify(equals)}`,
  );
  return tests.length === 0 ? `${target} without arguments` : `${target} with ${tests.join(", ")}`;
}
