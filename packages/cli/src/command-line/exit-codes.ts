/** Maps error codes to exit codes. A code that is not listed exits with 1. */
import type { ErrorCode } from "@backplane/contract";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  denied: 3,
  auth: 4,
  unreachable: 5,
  trust: 6,
  conformance: 7,
  /** Some parts succeeded; the output lists those that did not. */
  partial: 8,
  timeout: 124,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const BY_CODE: Partial<Record<ErrorCode, ExitCode>> = {
  "cli.usage": EXIT.usage,
  "listen.unsafe": EXIT.usage,

  "policy.denied": EXIT.denied,
  "approval.rejected": EXIT.denied,
  "approval.expired": EXIT.denied,
  "approval.changed": EXIT.denied,
  "sandbox.unavailable": EXIT.denied,
  "binding.not_active": EXIT.denied,
  "binding.class_forbidden": EXIT.denied,
  "package.source_forbidden": EXIT.denied,
  capability_not_allowed: EXIT.denied,

  "auth.missing": EXIT.auth,
  "auth.invalid": EXIT.auth,
  "auth.scope": EXIT.auth,
  "auth.host": EXIT.auth,
  "auth.origin": EXIT.auth,
  "auth.link_used": EXIT.auth,

  "daemon.unreachable": EXIT.unreachable,
  "package.corrupt": EXIT.trust,
  "package.digest_mismatch": EXIT.trust,
  "signature.missing": EXIT.trust,
  "signature.invalid": EXIT.trust,
  "signature.mismatch": EXIT.trust,
  "signature.untrusted": EXIT.trust,
  "signature.revoked": EXIT.trust,
  "signature.expired": EXIT.trust,
  "signature.rollback": EXIT.trust,
  "provenance.missing": EXIT.trust,
  "provenance.invalid": EXIT.trust,
  "provenance.mismatch": EXIT.trust,
  "package.source_mismatch": EXIT.trust,
  "registry.invalid": EXIT.trust,
  timeout: EXIT.timeout,
};

/** `details.signal` marks an interruption at this terminal; a cancellation by someone else is a failure. */
export function toExitCode(code: string, details?: Record<string, unknown>): ExitCode {
  if (details?.signal === "SIGINT") return EXIT.interrupted;
  // An unbound secret slot is a denial under every error code.
  if (Array.isArray(details?.unbound) && details.unbound.length > 0) return EXIT.denied;
  return Object.hasOwn(BY_CODE, code) ? (BY_CODE[code as ErrorCode] ?? EXIT.failed) : EXIT.failed;
}
