/**
 * "Yes, for this session": remembered in memory only, for one session and one digest (tool, version, package
 * bytes, definition, arguments). Anything else asks again; a revoke works at once.
 */
import { AGENT_SEPARATOR, type Approval, type ApprovalGrant, BackplaneError } from "@backplane/contract";
import type { KernelDeps } from "../deps.ts";
import type { Admitted } from "../policy/admit.ts";
import type { Scope } from "../ports/index.ts";
import { approvalDigest } from "./new-approval.ts";

const KEPT = 10_000;

export class SessionGrants {
  readonly #deps: Pick<KernelDeps, "ids" | "clock">;
  readonly #byKey = new Map<string, ApprovalGrant>();

  constructor(deps: Pick<KernelDeps, "ids" | "clock">) {
    this.#deps = deps;
  }

  covers(admitted: Admitted): boolean {
    const { call } = admitted;
    const session_id = call.body.session_id;
    if (admitted.ask === null || session_id === undefined || this.#byKey.size === 0) return false;
    const { package: pack, binding } = call.plan.bound;
    const digest = approvalDigest(
      {
        export_id: binding.export_id,
        package_id: pack.package_id,
        package_version: pack.version,
        package_digest: pack.digest,
        input: call.input,
      },
      call.plan,
    );
    // A sub-agent inherits what was granted to the session that spawned it.
    for (let id = session_id; ; id = id.slice(0, id.lastIndexOf(AGENT_SEPARATOR))) {
      if (this.#byKey.has(keyOf(call.scope, id, digest))) return true;
      if (!id.includes(AGENT_SEPARATOR)) return false;
    }
  }

  remember(approval: Approval, granted_by: string): void {
    if (approval.session_id === null) return;
    const grant: ApprovalGrant = {
      id: this.#deps.ids.next("approval_grant"),
      session_id: approval.session_id,
      org_id: approval.org_id,
      project_id: approval.project_id,
      tool: approval.tool,
      digest: approval.digest,
      granted_by,
      granted_at: new Date(this.#deps.clock.now()).toISOString(),
    };
    this.#byKey.set(keyOf(approval, approval.session_id, approval.digest), grant);
    if (this.#byKey.size > KEPT) this.#byKey.delete(this.#byKey.keys().next().value as string);
  }

  list(scope: Scope): ApprovalGrant[] {
    return [...this.#byKey.values()].filter((grant) => visible(scope, grant));
  }

  revoke(scope: Scope, id: string): ApprovalGrant {
    for (const [key, grant] of this.#byKey) {
      if (grant.id === id && visible(scope, grant)) {
        this.#byKey.delete(key);
        return grant;
      }
    }
    throw new BackplaneError("approval.not_found", "there is no such session grant");
  }
}

function keyOf(scope: Scope, session_id: string, digest: string): string {
  return `${scope.org_id}\n${scope.project_id}\n${session_id}\n${digest}`;
}

function visible(scope: Scope, grant: ApprovalGrant): boolean {
  return (
    grant.org_id === scope.org_id && (scope.project_id === null || grant.project_id === scope.project_id)
  );
}
