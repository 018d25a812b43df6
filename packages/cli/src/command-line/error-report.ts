/**
 * Formats a failure as exactly three lines (`error[code] description`, reason, `fix: command`) or as the JSON document
 * of --json.
 */
import { type BackplaneError, ERROR_CODES, isErrorCode } from "@backplane/contract";
import { plainLine } from "../terminal/plain-text.ts";

/** The fields of a report; they come from a thrown BackplaneError or from the error of an invocation or a run. */
export interface ErrorReport {
  code: string;
  message: string;
  fix?: string | undefined;
  retryable?: boolean | undefined;
  details?: Record<string, unknown> | undefined;
  request_id?: string | undefined;
}

export function errorLines(failure: ErrorReport): string {
  const spec = isErrorCode(failure.code) ? ERROR_CODES[failure.code] : undefined;
  const description =
    spec?.description ?? "The gateway reported an error code that this version does not recognize.";
  return [
    `error[${failure.code}] ${description}`,
    reasonText(failure, description),
    `fix: ${fixText(failure)}`,
  ]
    .map(plainLine)
    .join("\n");
}

export function errorDocument(failure: ErrorReport, exit_code: number): { error: Record<string, unknown> } {
  const spec = isErrorCode(failure.code) ? ERROR_CODES[failure.code] : undefined;
  return {
    error: {
      code: failure.code,
      message: failure.message,
      retryable: failure.retryable ?? spec?.retryable ?? false,
      fix: fixText(failure),
      details: failure.details,
      request_id: failure.request_id,
      exit_code,
    },
  };
}

/** Moves the request id, which the client puts into the details, to its own field. */
export function toErrorReport(error: BackplaneError): ErrorReport {
  const { code, message, fix, retryable } = error;
  const { request_id, ...details } = error.details ?? {};
  return {
    code,
    message,
    fix,
    retryable,
    details: Object.keys(details).length === 0 ? undefined : details,
    request_id: typeof request_id === "string" ? request_id : undefined,
  };
}

/** The suggested fix, with the ids that the gateway returned. */
function fixText({ code, fix, details }: ErrorReport): string {
  const slot: unknown = Array.isArray(details?.unbound) ? details.unbound[0] : undefined;
  if (typeof slot === "string" && typeof details?.binding_id === "string") {
    return `backplane binding set ${details.binding_id} --secret ${slot}=NAME`;
  }
  const command = COMMANDS[code]?.(details ?? {});
  if (command !== undefined) return command;
  const remedy = isErrorCode(code) ? ERROR_CODES[code].remedy : undefined;
  return replaceFieldNames(
    fix ?? remedy ?? "Update Backplane, or look up the code in docs/errors.md.",
    details ?? {},
  );
}

/**
 * Remedies refer to details of the response, which are visible only with --json, so their values are inserted. Details
 * without text values, such as issues, are printed in the second line, so the remedy says "named above".
 */
function replaceFieldNames(remedy: string, details: Record<string, unknown>): string {
  return remedy
    .replace(/; details\.\w+ names [^.;]+/, "")
    .replace(/(?: named)? in details\.(\w+)/, (_whole, field: string) => {
      const values = [details[field] ?? []]
        .flat()
        .filter((value): value is string => typeof value === "string");
      return values.length === 0 ? " named above" : ` ${values.join(", ")}`;
    });
}

/** Fixes for the command line. Some contain error details, which are otherwise only visible with --json. */
const COMMANDS: Record<string, (details: Record<string, unknown>) => string | undefined> = {
  "package.bound": ({ bindings }) => commandForFirst(bindings, "backplane binding remove"),
  "session.not_found": () => "backplane session list",
  // The remedy in the error table is about HTTP routes.
  "run.not_found": () => "backplane run list",
  // The remedy in the error table is about HTTP headers.
  "request.precondition": () =>
    "The record was changed by another request at the same time. Review it, then run the command again.",
  "secret.in_use": ({ used_by }) => commandForFirst(used_by, "backplane binding set --unset-secret SLOT"),
  "binding.conflict": ({ binding_id }) =>
    typeof binding_id === "string" ? `backplane binding set ${binding_id} with the same flags` : undefined,
};

function commandForFirst(ids: unknown, command: string): string | undefined {
  if (!Array.isArray(ids) || ids.length === 0) return undefined;
  const more = ids.length > 1 ? ` (and ${ids.slice(1, 4).join(", ")}${ids.length > 4 ? ", …" : ""})` : "";
  return `${command} ${ids[0]}${more}`;
}

/** The second line is never empty and never repeats the first. */
function reasonText(failure: ErrorReport, description: string): string {
  const issues = issuesText(failure);
  const own_message = repeatsFirstIssue(failure) ? "" : stripDescription(failure.message, description);
  const requested = failure.details?.requested;
  const message =
    own_message === "" && typeof requested === "string" ? `${requested} was not found.` : own_message;
  const parts = message === "" ? [] : [message];
  if (issues !== "" && !message.includes(issues)) parts.push(issues);
  if (failure.request_id !== undefined) parts.push(`(request ${failure.request_id})`);
  return parts.length > 0 ? parts.join(" ") : "No further details are available.";
}

/** The message without the description at its start, if any. */
function stripDescription(message: string, description: string): string {
  if (message.startsWith(description)) return message.slice(description.length).trimStart();
  const start = `${description.replace(/\.$/, "")}: `;
  if (!message.startsWith(start)) return message;
  const reason = message.slice(start.length);
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}`;
}

/** With a list of issues, the gateway's message ends with the first issue. */
function repeatsFirstIssue({ message, details }: ErrorReport): boolean {
  const first: unknown = Array.isArray(details?.issues) ? details.issues[0]?.message : undefined;
  return typeof first === "string" && message.endsWith(`: ${first}`);
}

function formatIssue({ path = "", message = "", line }: { path?: string; message?: string; line?: number }) {
  const at = typeof line === "number" ? `line ${line}: ` : path === "" ? "(top): " : "";
  // Some messages start with the path.
  return `${at}${path === "" || message.startsWith(path) ? "" : `${path}: `}${message}`;
}

function issuesText({ message, details }: ErrorReport): string {
  if (!Array.isArray(details?.issues)) return "";
  const issues = details.issues.filter((issue) => issue?.message !== message);
  const lines = issues.slice(0, 5).map(formatIssue);
  if (issues.length > lines.length) lines.push(`and ${issues.length - lines.length} more`);
  return lines.join("; ");
}
