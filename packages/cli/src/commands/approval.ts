/** `approve`: the answers of a person to calls that wait for one. */
import type { Approval, ApprovalResponse, ApprovalStatus } from "@backplane/contract";
import { APPROVAL_STATUSES } from "@backplane/contract";
import { type Command, Option } from "commander";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { type PageOptions, pageFlags, showPage, showRows } from "../context/page.ts";
import { fields } from "../terminal/output.ts";
import { exactJson } from "../terminal/plain-text.ts";

export function addApprovalCommands(program: Command, act: Act): void {
  const approve = program.command("approve").description("Answer calls that wait for a person.");
  pageFlags(
    approve.command("list").description("List approvals; the pending ones unless --status says otherwise."),
  )
    .addOption(
      new Option("--status <status>", "which ones").choices([...APPROVAL_STATUSES, "all"]).default("pending"),
    )
    .action(act(list));
  approve.command("show <id>").description("Show the very arguments that would run.").action(act(show));
  approve
    .command("allow <id>")
    .description("Let the call run, with exactly the arguments shown.")
    .option("--for-session", "and the same call again in the same session")
    .option("--feedback <text>", "a word to the caller")
    .action(
      act((context, options: AnswerOptions, id: string) =>
        answer(context, id, options.forSession === true ? "approve_for_session" : "approve", options),
      ),
    );
  approve
    .command("deny <id>")
    .description("Refuse the call.")
    .option("--feedback <text>", "why, for the caller")
    .action(act((context, options: AnswerOptions, id: string) => answer(context, id, "reject", options)));
  approve
    .command("grants")
    .description("List the answers that still hold for a session.")
    .action(act(grants));
  approve.command("revoke <id>").description("Take such an answer back.").action(act(revoke));
}

interface AnswerOptions {
  forSession?: boolean;
  feedback?: string;
}

async function list(
  context: Context,
  options: PageOptions & { status: ApprovalStatus | "all" },
): Promise<undefined> {
  const { status, ...page } = options;
  const found = await context.client().approvals.list(status === "all" ? page : { ...page, status });
  showPage(context, found, ["ID", "TOOL", "RISK", "STATUS", "EXPIRES", "WHAT"], (item) => [
    item.id,
    item.tool,
    item.risk,
    item.status,
    item.expires_at,
    item.brief,
  ]);
  return undefined;
}

async function show(context: Context, _options: object, id: string): Promise<undefined> {
  const found = await context.client().approvals.get(id);
  context.out.data(found, () => describe(found));
  if (found.status === "pending")
    context.out.note(`Answer: backplane approve allow ${id}, or: backplane approve deny ${id}`);
  return undefined;
}

/** Sends the digest of what the gateway shows now, so an answer never lands on changed arguments. */
async function answer(
  context: Context,
  id: string,
  response: ApprovalResponse,
  options: AnswerOptions,
): Promise<undefined> {
  const client = context.client();
  const { digest } = await client.approvals.get(id);
  const answered = await client.approvals.answer(id, {
    response,
    digest,
    ...(options.feedback === undefined ? {} : { feedback: options.feedback }),
  });
  context.out.data(
    answered,
    () => `${answered.status === "approved" ? "Allowed" : "Denied"} ${answered.tool} (${id})`,
  );
  // A yes runs it only if it still is what was asked about, and the policy still allows it.
  if (answered.status === "approved")
    context.out.note(`See what comes of it: backplane invocation show ${answered.invocation_id}`);
  return undefined;
}

async function grants(context: Context): Promise<undefined> {
  const items = await context.client().approvals.grants();
  const rows = items.map((item) => [
    item.id,
    item.tool,
    item.session_id,
    item.granted_to,
    item.granted_by,
    item.granted_at,
  ]);
  showRows(context, { items }, ["ID", "TOOL", "SESSION", "FOR", "BY", "SINCE"], rows);
  return undefined;
}

async function revoke(context: Context, _options: object, id: string): Promise<undefined> {
  await context.client().approvals.revokeGrant(id);
  context.out.data({ revoked: id }, () => `Revoked ${id}`);
  return undefined;
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
  const facts = fields({
    id,
    tool,
    package: `${package_id}@${package_version}`,
    risk,
    status,
    brief,
    reason,
    replaces: replaces ?? undefined,
    changed_since: changed.length === 0 ? undefined : changed,
    requested_at,
    expires_at,
    answered_by: answered_by ?? undefined,
    feedback: feedback ?? undefined,
  });
  return `${facts}\narguments:\n${exactJson(approval.input)}`;
}
