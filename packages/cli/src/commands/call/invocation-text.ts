/** How the record of a call reads on a terminal, and which exit code it means. */
import type { Invocation, InvocationEvent } from "@backplane/contract";
import { EXIT, type ExitCode, exitCodeOf } from "../../command-line/exit-codes.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine, plainText } from "../../terminal/plain-text.ts";

/** The content blocks as text; what is no text is shown as JSON. */
export function resultText(invocation: Invocation): string {
  const block = invocation.tool_result;
  if (block === null) return invocation.result === null ? "" : pretty(invocation.result);
  const parts = block.content.map((item) =>
    typeof item.text === "string" ? plainText(item.text) : pretty(item),
  );
  if (parts.length === 0 && block.structured_output !== undefined) return pretty(block.structured_output);
  return parts.join("\n");
}

export function invocationExit(invocation: Invocation): ExitCode {
  if (invocation.status === "succeeded" && invocation.tool_result?.is_error !== true) return EXIT.ok;
  const { code = "", details } = invocation.error ?? {};
  // A slot whose secret is gone is a denial; `secret show` of a name that is not there is not.
  if (code === "secret.not_found") return EXIT.denied;
  const exit = exitCodeOf(code, details);
  return exit === EXIT.denied || exit === EXIT.timeout ? exit : EXIT.failed;
}

export function describeInvocation(invocation: Invocation): string {
  const { id, status, binding_id, session_id, approval_id, retry_count, error, requested_by, grant } =
    invocation;
  const facts = fields({
    id,
    export: `${invocation.export_id} (${invocation.export_kind})`,
    status,
    package: `${invocation.package_id}@${invocation.package_version}`,
    digest: invocation.package_digest,
    binding: `${binding_id} (generation ${invocation.binding_generation})`,
    class: classText(invocation),
    effect: invocation.effect_class,
    session: session_id ?? undefined,
    trace: invocation.trace_id,
    execution: invocation.execution_id,
    approval: approval_id ?? undefined,
    requested_by,
    retries: retry_count,
    violations: invocation.violations === 0 ? undefined : invocation.violations,
    created: invocation.created_at,
    started: invocation.started_at,
    ended: invocation.ended_at,
    grant: grant ?? undefined,
    error: error === null ? undefined : `${error.code}: ${error.message}`,
    fix: typeof error?.details?.fix === "string" ? error.details.fix : undefined,
  });
  const parts = [facts, `input:\n${pretty(invocation.input)}`];
  const result = resultText(invocation);
  if (result !== "") parts.push(`result:\n${result}`);
  if (invocation.egress !== null) parts.push(`refused connections:\n${refusedLines(invocation).join("\n")}`);
  if (invocation.stderr_tail) parts.push(`stderr:\n${plainText(invocation.stderr_tail).trimEnd()}`);
  return parts.join("\n");
}

/** The class is the binding's; a tool that the admin lets onto the host runs in none. */
export function classText({ class: name, grant }: Pick<Invocation, "class" | "grant">): string {
  return grant?.host === true ? "host" : name;
}

/** Each refusal of its way out, and last the command that opens it where a name is all that is missing. */
export function refusedLines({ egress, grant, binding_id }: Invocation): string[] {
  if (egress === null) return [];
  const { refused, refusals } = egress;
  const lines = refusals.map(({ host, port, reason, message, detail, shared }) => {
    const more = detail === undefined ? "" : ` (${detail})`;
    const whose = shared ? " [one of several calls on the same process]" : "";
    return plainLine(`${host === "" ? "(no name)" : host}:${port} ${reason}: ${message}${more}${whose}`);
  });
  if (refused > refusals.length) lines.push(`and ${refused - refusals.length} more`);
  const asked = refusals
    .filter(({ host, reason }) => reason === "domain.not_allowed" && host !== "")
    .map(({ host, port }) => (WEB_PORTS.includes(port) ? host : `${host}:${port}`));
  if (asked.length > 0) {
    // The flag takes the place of what was named before.
    const names = [...new Set([...(grant?.allowed_domains ?? []), ...asked])].join(",");
    lines.push(
      plainLine(`If you trust it with them: backplane binding set ${binding_id} --domains ${names}`),
    );
  }
  return lines;
}

const WEB_PORTS = [80, 443];

/** One plugin event in one line. */
export function eventLine(item: Pick<InvocationEvent, "event">): string {
  const { type, ...rest } = item.event;
  const text = rest.message ?? rest.text;
  if (typeof text === "string") return plainLine(`${type}: ${text}`);
  return plainLine(Object.keys(rest).length === 0 ? type : `${type}: ${JSON.stringify(rest)}`);
}

function pretty(value: unknown): string {
  return plainText(JSON.stringify(value, null, 2));
}
