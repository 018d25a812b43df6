/**
 * A binding that moves to a version whose server is elsewhere (sec.credential-destination): its secrets, headers and
 * sign-in were given for the old address, so they do not come along unless the change names them itself.
 */

import type { Binding, JsonObject, Package } from "@backplane/contract";
import { auditOf, type Caller, type KernelDeps } from "@backplane/ports";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import { type CheckedExport, findExport } from "./check-binding.ts";

export interface ServerMoves {
  /** The binding with what it may take along to the version; the same one where the server stays. */
  carried(before: Binding, to: CheckedExport): Promise<Binding>;
  /** After the move is written: the sign-in at the old address ends, and what was dropped is on the record. */
  moved(caller: Caller, before: Binding, row: Binding, to: CheckedExport): Promise<void>;
}

export function createServerMoves(
  deps: Pick<KernelDeps, "store" | "ids" | "clock">,
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">,
): ServerMoves {
  const { store } = deps;

  async function movesServer(before: Binding, to: CheckedExport): Promise<boolean> {
    if (before.package_version === to.package.version) return false;
    const from = await findExport(deps, before.scope.org_id, before);
    return isMoved(from.package, to.package);
  }

  return {
    async carried(before, to) {
      if (!(await movesServer(before, to))) return before;
      return { ...before, secrets: {}, config: withoutHeaders(before.config) };
    },
    async moved(caller, before, row, to) {
      if (!(await movesServer(before, to))) return;
      const { binding_id, scope } = before;
      const tokens = await revocation.readTokens(before);
      const slots = Object.keys(before.secrets).filter((slot) => row.secrets[slot] === undefined);
      const about = { slots, sign_in: tokens !== null };
      const audit = auditOf(deps, caller, "credential.drop", binding_id, about, scope);
      const signed = await store.sign_ins.remove(scope.org_id, binding_id, { audit });
      if (!signed && slots.length > 0) await store.audit.append(audit);
      void revocation.revoke(before, tokens);
    },
  };
}

interface Server {
  remote: boolean;
  url: string;
}

function isMoved(before: Package, after: Package): boolean {
  const [old, next] = [serverOf(before), serverOf(after)];
  if (!old.remote && !next.remote) return false;
  if (old.remote !== next.remote) return true;
  return old.url !== next.url;
}

function serverOf({ manifest: { runtime } }: Package): Server {
  return { remote: runtime.protocol === "mcp.http", url: runtime.entrypoint[0] ?? "" };
}

/** They go with every request, and are where a credential is put that is not a secret. */
function withoutHeaders({ headers: _given, ...config }: JsonObject): JsonObject {
  return config;
}
