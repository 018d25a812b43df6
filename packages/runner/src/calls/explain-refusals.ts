/** Adds refused connections to the error of a process that failed outside a call, because they are often the reason. */
import { BackplaneError, REDACTED, specificFix } from "@backplane/contract";
import { formatDestination } from "../egress/destinations/destination.ts";
import { REFUSAL_REASONS, type Refusal, type RefusalReason } from "../egress/destinations/refusals.ts";
import type { Worker } from "../pool/worker.ts";
import { GATEWAY_TOKEN, refusalRedactor } from "../secrets/redact.ts";

const MAX_LISTED = 3;

export function explainRefusals(
  error: BackplaneError,
  { refusals, subject: { binding_id } }: Pick<Worker, "refusals" | "subject">,
  secrets: readonly string[],
  when: "while it started" | "" = "while it started",
): BackplaneError {
  const redactor = refusalRedactor(secrets);
  // The port of a lookup is that of the name server, so it is left out.
  const nameOf = (refusal: Refusal) =>
    redactor
      .text(formatDestination(refusal, refusal.reason === "direct.lookup" ? refusal.port : 0))
      .replace(GATEWAY_TOKEN, REDACTED);
  const by_destination = new Map(refusals.early.map((refusal) => [nameOf(refusal), refusal]));
  const [first] = by_destination;
  if (first === undefined) return error;
  const reasons = [...by_destination]
    .slice(0, MAX_LISTED)
    .map(([name, { reason }]) => `${name} (${clauseOf(reason)})`);
  const more = by_destination.size > MAX_LISTED ? `, and ${by_destination.size - MAX_LISTED} more` : "";
  const [destination, { reason }] = first;
  const { code, message, details } = error;
  const intro = when === "" ? "Connections refused" : `Connections refused ${when}`;
  const fix = specificFix(error) ?? fixFor(reason, destination, binding_id);
  return new BackplaneError(
    code,
    `${message}${/[.!?)]$/.test(message) ? "" : "."} ${intro}: ${reasons.join(", ")}${more}.`,
    {
      ...(details === undefined ? {} : { details }),
      ...(fix === undefined ? {} : { fix }),
      cause: error,
    },
  );
}

function clauseOf(reason: RefusalReason): string {
  const sentence = REFUSAL_REASONS[reason].replace(/\.$/, "");
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}

function fixFor(reason: RefusalReason, destination: string, binding_id: string): string | undefined {
  if (reason === "domain.not_allowed" || reason === "direct.lookup")
    return `If the plugin needs this destination: backplane binding set ${binding_id} --domains ${destination}`;
  if (reason === "address.forbidden" || reason === "address.literal")
    return `If you trust this destination, ask the operator to add "${destination}" to egress.allow_private in backplane.toml.`;
  if (reason === "direct.connection")
    return `If you trust this destination, ask the operator to add "${destination}" to egress.allow_private in backplane.toml, then: backplane binding set ${binding_id} --domains ${destination}`;
  return undefined;
}
