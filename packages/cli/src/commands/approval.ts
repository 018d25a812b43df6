/** `approve`: lists and answers approval requests. */
import {
  ANSWER_COVERAGES,
  type AnswerCoverage,
  APPROVAL_STATUSES,
  type Approval,
  type ApprovalResponse,
  type ApprovalStatus,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { listWaitingUpgrades, noteWaitingUpgrades } from "../bindings/waiting-upgrades.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage, showRows } from "../context/page.ts";
import { fields } from "../terminal/output.ts";
import { exactJson } from "../terminal/plain-text.ts";

export function addApprovalCommands(program: Command, toAction: ToAction): void {
  const approve = program.command("approve").description("Answer calls that await approval.");
  addPageFlags(approve.command("list").description("List approvals, by default the pending ones."))
    .addOption(
      new Option("--status <status>", "only approvals with this status")
        .choices([...APPROVAL_STATUSES, "all"])
        .default("pending"),
    )
    .action(toAction(list));
  approve
    .command("show <id>")
    .description("Show an approval request with its exact arguments.")
    .action(toAction(show));
  approve
    .command("allow <id>")
    .description("Approve the call with exactly the arguments shown.")
    .addOption(
      new Option("--for-session", "also approve such calls for the rest of the session").conflicts("always"),
    )
    .option("--always", "create an allow rule for such calls")
    .addOption(
      new Option(
        "--covers <what>",
        "with --for-session: arguments (default) or tool; with --always: arguments, tool (default) or server",
      ).choices(ANSWER_COVERAGES),
    )
    .option("--feedback <text>", "message to the caller")
    .action(
      toAction((context, options: AnswerOptions, id: string) =>
        answer(context, id, responseOf(options), options),
      ),
    );
  approve
    .command("deny <id>")
    .description("Reject the call.")
    .option("--feedback <text>", "reason, shown to the caller")
    .action(
      toAction((context, options: AnswerOptions, id: string) => answer(context, id, "reject", options)),
    );
  approve
    .command("grants")
    .description("List approvals that are valid for a whole session.")
    .action(toAction(grants));
  approve.command("revoke <id>").description("Revoke an approval for a session.").action(toAction(revoke));
}

interface AnswerOptions {
  forSession?: boolean;
  always?: boolean;
  covers?: AnswerCoverage;
  feedback?: string;
}

async function list(
  context: CommandContext,
  options: PageFlags & { status: ApprovalStatus | "all" },
): Promise<undefined> {
  const { status, ...page } = options;
  const approvals = await context.client().approvals.list(status === "all" ? page : { ...page, status });
  showPage(context, approvals, ["ID", "TOOL", "RISK", "STATUS", "EXPIRES", "WHAT"], (item) => [
    item.id,
    item.tool,
    item.risk,
    item.status,
    item.expires_at,
    item.brief,
  ]);
  // Waiting upgrades are not approvals of calls, but people look for pending decisions here.
  if ((status === "pending" || status === "all") && !context.out.quiet)
    noteWaitingUpgrades(context, await listWaitingUpgrades(context));
  return undefined;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const approval = await context.client().approvals.get(id);
  context.out.data(approval, () => describe(approval));
  if (approval.status === "pending") context.out.note(`Answer: backplane approve allow ${id} (or deny)`);
  return undefined;
}

/** Sends the digest of the request, so that the answer cannot apply to a changed call. */
async function answer(
  context: CommandContext,
  id: string,
  response: ApprovalResponse,
  options: AnswerOptions,
): Promise<undefined> {
  const client = context.client();
  const { digest } = await client.approvals.get(id);
  const answered = await client.approvals.answer(id, {
    response,
    digest,
    ...(options.covers === undefined ? {} : { covers: options.covers }),
    ...(options.feedback === undefined ? {} : { feedback: options.feedback }),
  });
  context.out.data(
    answered,
    () => `${answered.status === "approved" ? "Allowed" : "Denied"} ${answered.tool} (${id})`,
  );
  // The call runs only if its arguments are unchanged and the policy still allows it.
  if (answered.status === "approved")
    context.out.note(`Follow the call: backplane invocation show ${answered.invocation_id}`);
  if (response === "approve_always") context.out.note("See and remove allow rules: backplane allow list");
  return undefined;
}

function responseOf({ always, forSession }: AnswerOptions): ApprovalResponse {
  if (always === true) return "approve_always";
  return forSession === true ? "approve_for_session" : "approve";
}

async function grants(context: CommandContext): Promise<undefined> {
  const items = await context.client().approvals.grants();
  const rows = items.map((item) => [
    item.id,
    item.tool,
    item.covers,
    item.session_id,
    item.granted_to,
    item.granted_by,
    item.granted_at,
  ]);
  showRows(
    context,
    { items },
    ["ID", "TOOL", "COVERS", "SESSION", "CALLER", "APPROVED BY", "APPROVED"],
    rows,
  );
  return undefined;
}

async function revoke(context: CommandContext, _options: object, id: string): Promise<undefined> {
  await context.client().approvals.revokeGrant(id);
  context.out.data({ revoked: id }, () => `Revoked ${id}`);
  return undefined;
}

/** The further calls that an answer may cover. */
function coverageText({ may_cover: { session, always } }: Approval): string | undefined {
  const texts = [
    ...(session.length === 0 ? [] : [`--for-session: ${session.join(", ")}`]),
    ...(always.length === 0 ? [] : [`--always: ${always.join(", ")}`]),
  ];
  return texts.length === 0 ? undefined : texts.join("; ");
}

function describe(approval: Approval): string {
  const {
    id,
    tool,
    package_id,
    package_version,
    risk,
    status,
    reason,
    brief,
    requested_at,
    expires_at,
    feedback,
    answered_by,
    replaces,
    changed,
  } = approval;
  const summary = fields({
    id,
    tool,
    package: `${package_id}@${package_version}`,
    risk,
    status,
    brief,
    reason,
    may_cover: coverageText(approval),
    replaces: replaces ?? undefined,
    changed_since: changed.length === 0 ? undefined : changed,
    requested_at,
    expires_at,
    answered_by: answered_by ?? undefined,
    feedback: feedback ?? undefined,
  });
  return `${summary}\narguments:\n${exactJson(approval.input)}`;
}
