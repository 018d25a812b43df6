/** Formats an invocation for the terminal and maps it to an exit code. */
import {
  type ContentBlock,
  describeContent,
  type Invocation,
  type InvocationEvent,
  isArtifact,
} from "@backplane/contract";
import { EXIT, type ExitCode, toExitCode } from "../../command-line/exit-codes.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine, plainText } from "../../terminal/plain-text.ts";

/** Content blocks as text; a block that a terminal cannot show is described, with the command that saves its file. */
export function invocationResultText(invocation: Invocation): string {
  const block = invocation.tool_result;
  if (block === null) return invocation.result === null ? "" : formatJson(invocation.result);
  const parts = block.content.map((item) => plainText(describeContent(item)) + saveHint(invocation.id, item));
  if (parts.length === 0 && block.structured_output !== undefined) return formatJson(block.structured_output);
  return parts.join("\n");
}

function saveHint(id: string, block: ContentBlock): string {
  if (!isArtifact(block) || typeof block.sha256 !== "string") return "";
  const file = typeof block.path === "string" ? block.path.split("/").at(-1)! : "FILE";
  return plainText(`\n  backplane invocation artifact ${id} ${block.sha256} --output ${shellWord(file)}`);
}

function shellWord(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function invocationExit(invocation: Invocation): ExitCode {
  if (invocation.status === "succeeded" && invocation.tool_result?.is_error !== true) return EXIT.ok;
  const { code = "", details } = invocation.error ?? {};
  // Here a missing secret denies the call; for `secret show` the same code is an ordinary failure.
  if (code === "secret.not_found") return EXIT.denied;
  const exit = toExitCode(code, details);
  return exit === EXIT.denied || exit === EXIT.timeout || exit === EXIT.trust ? exit : EXIT.failed;
}

export function describeInvocation(invocation: Invocation): string {
  const { id, status, binding_id, session_id, approval_id, retry_count, error, requested_by, grant } =
    invocation;
  const summary = fields({
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
    allowed_by: invocation.allowed_by ?? undefined,
    requested_by,
    retries: retry_count,
    fallback_from: fallbackText(invocation),
    violations: invocation.violations === 0 ? undefined : invocation.violations,
    created: invocation.created_at,
    started: invocation.started_at,
    ended: invocation.ended_at,
    grant: grant ?? undefined,
    error: error === null ? undefined : `${error.code}: ${error.message}`,
    failure: failureText(invocation),
    fix: typeof error?.details?.fix === "string" ? error.details.fix : undefined,
  });
  const parts = [summary, `input:\n${formatJson(invocation.input)}`];
  const result = invocationResultText(invocation);
  if (result !== "") parts.push(`result:\n${result}`);
  if (invocation.egress !== null) parts.push(`refused connections:\n${refusedLines(invocation).join("\n")}`);
  if (invocation.stderr_tail) parts.push(`stderr:\n${plainText(invocation.stderr_tail).trimEnd()}`);
  const { fallback_from } = invocation;
  if (fallback_from?.stderr_tail)
    parts.push(
      `stderr of ${fallback_from.package_version}:\n${plainText(fallback_from.stderr_tail).trimEnd()}`,
    );
  return parts.join("\n");
}

/** The version on trial that failed before the version in the field `package` ran. */
function fallbackText({ fallback_from }: Invocation): string | undefined {
  if (fallback_from === undefined) return undefined;
  const { package_version, error } = fallback_from;
  return `${package_version} ended with ${error.code}: ${error.message}`;
}

/** The kind of a failed tool call, the author's own code, and whether a retry may help. */
function failureText({ tool_result }: Invocation): string | undefined {
  if (tool_result?.failure === undefined) return undefined;
  const { kind, plugin_code, retryable } = tool_result.failure;
  return plainLine(
    [kind, plugin_code, retryable ? "retryable" : undefined].filter((part) => part !== undefined).join(", "),
  );
}

/** The class of the binding, or `host` for a tool that runs on the host. */
export function classText({ class: name, grant }: Pick<Invocation, "class" | "grant">): string {
  return grant?.host === true ? "host" : name;
}

/** Refused connections, and the commands for those that a grant can allow. */
export function refusedLines({ egress, grant, binding_id }: Invocation): string[] {
  if (egress === null) return [];
  const { refused, refusals } = egress;
  const lines = refusals.map(({ host, port, reason, message, detail, count, shared }) => {
    const detail_text = detail === undefined ? "" : ` (${detail})`;
    const times = count === undefined ? "" : ` (${count} times)`;
    const shared_note = shared ? " [shared process: may belong to another call]" : "";
    return `${host === "" ? "(no host)" : bracketIpv6(host)}:${port} ${reason}: ${message}${detail_text}${times}${shared_note}`;
  });
  const listed = refusals.reduce((sum, { count = 1 }) => sum + count, 0);
  if (refused > listed) lines.push(`and ${refused - listed} more`);
  const allowed = grant?.allowed_domains ?? [];
  // The flag replaces the list, so the domains that are already allowed are repeated.
  const setDomains = (names: readonly string[]) =>
    `backplane binding set ${binding_id} --domains ${[...new Set([...allowed, ...names])].join(",")}`;
  const grantable = refusals.filter(
    ({ host, reason }) => FIXED_BY_DOMAIN_GRANT.includes(reason) && host !== "",
  );
  const missing = grantable.filter(({ host }) => !matchesWildcard(allowed, host)).map(formatDestination);
  const bypassing_proxy = grantable
    .filter(({ host }) => matchesWildcard(allowed, host))
    .map(formatDestination);
  if (missing.length > 0) lines.push(`To allow them: ${setDomains(missing)}`);
  if (bypassing_proxy.length > 0) {
    lines.push(
      `Allowed, but only for programs that use the proxy (HTTP_PROXY): ${bypassing_proxy.join(", ")}`,
    );
  }
  const addresses = [...new Set(refusals.filter(isAddress).map(formatDestination))];
  if (addresses.length > 0) {
    const list = JSON.stringify(addresses);
    lines.push(
      `The operator must add ${list} to egress.allow_private in backplane.toml, then ${setDomains(addresses)}`,
    );
  }
  return lines.map(plainLine);
}

type RefusalEntry = NonNullable<Invocation["egress"]>["refusals"][number];

/** The reasons for a refusal that do not apply once the grant contains the host name. */
const FIXED_BY_DOMAIN_GRANT = ["domain.not_allowed", "direct.lookup"];
const WEB_PORTS = [80, 443];

/** The destination as `--domains` accepts it. A lookup has no port, and the web ports need none. */
function formatDestination({ host, port, reason }: RefusalEntry): string {
  const is_any_port =
    reason === "direct.lookup" || (reason === "domain.not_allowed" && WEB_PORTS.includes(port));
  return is_any_port ? host : `${bracketIpv6(host)}:${port}`;
}

function bracketIpv6(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** IPv6 addresses are reachable only through the proxy, which refuses them with the reason address.literal. */
function isAddress({ host, reason }: RefusalEntry): boolean {
  return reason === "address.literal" || (reason === "direct.connection" && !host.includes(":"));
}

function matchesWildcard(allowed: readonly string[], name: string): boolean {
  return allowed.some(
    (pattern) => pattern === "*" || (pattern.startsWith("*.") && name.endsWith(pattern.slice(1))),
  );
}

/** Without a scratch folder there is no /tmp, and a program reports only that a file is missing or read-only. */
const NO_TMP =
  /(?:ENOENT|EROFS|EACCES|No such file|Read-only file system).*["' ]\/tmp\b|\/tmp\b.*(?:No such file|Read-only file system)/i;

/** Explains how to request the permission that a failed write to /tmp needs. */
export function scratchHint({ error, tool_result, grant }: Invocation): string | null {
  if (grant === null || grant.filesystem === "scratch" || grant.host === true) return null;
  const lines = [
    error?.message ?? "",
    ...(tool_result?.content ?? []).map(({ text }) => (typeof text === "string" ? text : "")),
  ];
  if (!lines.some((text) => NO_TMP.test(text))) return null;
  return 'The plugin has no /tmp, because its call was not granted a scratch folder. If the plugin does not request one, its author can add filesystem = "scratch" to the permissions of the manifest, or "filesystem": "scratch" to backplane.permissions of its package.json.';
}

/** A plugin event as one line. */
export function eventLine(item: Pick<InvocationEvent, "event">): string {
  const { type, ...rest } = item.event;
  const text = rest.message ?? rest.text;
  if (typeof text === "string") return plainLine(`${type}: ${text}`);
  return plainLine(Object.keys(rest).length === 0 ? type : `${type}: ${JSON.stringify(rest)}`);
}

function formatJson(value: unknown): string {
  return plainText(JSON.stringify(value, null, 2));
}
