/**
 * Starts the new version of a package before bindings move to it (bind.hot). A version that does not start, does not
 * complete its handshake or reports itself unhealthy is refused, and the bindings keep their version.
 */
import { BackplaneError, type Binding, type ErrorCode, toBackplaneError } from "@backplane/contract";
import type { KernelDeps, Operation } from "@backplane/ports";
import type { DefinitionsService } from "../definitions/definitions.ts";
import { createProcessRequest, sendProcessRequest } from "../definitions/process-request.ts";
import type { Policies } from "../policy/policies.ts";
import type { SignInTokens } from "../secrets/sign-in-tokens.ts";
import type { PlannedChange } from "./plan-change.ts";

const PROBE_MS = 30_000;

/** Failures of the package. Others, such as a missing sandbox, say nothing about the new version. */
const PACKAGE_FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "launch_failed",
  "handshake_failed",
  "protocol_version_mismatch",
  "capability_not_declared",
  "capability_not_allowed",
  "timeout",
  "crashed",
  "malformed_response",
  "frame_invalid",
  "frame_too_large",
  "plugin_failed",
  "plugin_protocol_error",
  "plugin.invalid",
]);

export interface VersionProbe {
  /**
   * Throws `binding.invalid` if the new version of one of these changes does not start because of a failure of its
   * package. Other failures are only logged.
   */
  requireStart(changes: readonly PlannedChange[], operation?: Operation): Promise<void>;
}

interface VersionProbeDeps {
  deps: KernelDeps;
  policies: Pick<Policies, "getEffective">;
  tokens: SignInTokens;
  definitions: Pick<DefinitionsService, "hasDescription">;
}

export function createVersionProbe({ deps, policies, tokens, definitions }: VersionProbeDeps): VersionProbe {
  return {
    async requireStart(changes, operation) {
      const { probe } = deps.runner;
      if (probe === undefined) return;
      const started = new Set<string>();
      for (const { before, row, checked } of changes) {
        const { package: pack, export: item } = checked;
        if (before === null || before.package_version === row.package_version || row.status !== "active")
          continue;
        // Skills are text files, so there is nothing to start.
        if (pack.manifest.runtime.protocol === "skills") continue;
        // All exports of a package run in the same program.
        if (started.has(pack.digest) || definitions.hasDescription(row.binding_id, pack.digest)) continue;
        started.add(pack.digest);
        const bound = { binding: row, package: pack };
        try {
          const request = await createProcessRequest(deps, policies, bound, row.scope, item);
          await sendProcessRequest(tokens, bound, request, (complete) =>
            probe({ ...complete, timeout_ms: PROBE_MS }, operation),
          );
        } catch (error) {
          const failure = toBackplaneError(error);
          if (failure.code === "request.cancelled") throw failure;
          const fields = { binding_id: row.binding_id, code: failure.code, err: error };
          deps.log.warn(fields, "the new version of a binding could not be started");
          if (PACKAGE_FAILURES.has(failure.code)) throw notStartedError(before, row, failure);
        }
      }
    },
  };
}

function notStartedError(before: Binding, row: Binding, { code, message }: BackplaneError): BackplaneError {
  const text = `${row.package_id} ${row.package_version} does not start (${code}): ${message} ${before.package_version} stays in use.`;
  return new BackplaneError("binding.invalid", text, {
    details: { issues: [{ path: "/package_version", message: text }], code },
    fix: `Correct the version and install it again. To move the binding without this check, disable it first: backplane binding disable ${row.binding_id}`,
  });
}
