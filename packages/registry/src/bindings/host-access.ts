/** Settings that give a plugin access to the host or to the gateway's own process. */
import { BackplaneError, type Binding, canonicalJson } from "@backplane/contract";
import { type Caller, HOST_ADMIN } from "@backplane/ports";
import { lowersIsolation } from "../grant/execution-class.ts";
import type { CheckedExport } from "./check-binding.ts";

/** A mount gives a plugin access to the host's disk, which no org owns, so only the host's admin may add one. */
export function requireMountAccess(caller: Caller, draft: Binding, before: Binding | null): void {
  if (caller.actor === HOST_ADMIN || (draft.policy.mounts ?? []).length === 0) return;
  const unchanged = before !== null && before.package_version === draft.package_version;
  const allowed = new Set(unchanged ? before.policy.mounts?.map((mount) => canonicalJson(mount)) : []);
  if (draft.policy.mounts?.every((mount) => allowed.has(canonicalJson(mount)))) return;
  throw new BackplaneError("policy.denied", "Only the admin token may mount a folder on the host.", {
    fix: "Leave policy.mounts unchanged, or ask the operator of the gateway.",
  });
}

/** With host_target, the code of the package runs as the gateway's own user. A new version is new code. */
export function requireHostAccess(caller: Caller, draft: Binding, before: Binding | null): void {
  if (caller.actor === HOST_ADMIN || draft.policy.host_target !== true) return;
  const unchanged = before !== null && before.package_version === draft.package_version;
  if (unchanged && before.policy.host_target === true) return;
  throw new BackplaneError("policy.denied", "Only the admin token may let tools run on the host.", {
    fix: "Leave policy.host_target out, or ask the operator of the gateway.",
  });
}

/**
 * Throws `binding.class_forbidden` if the caller may not lower the isolation class. Returns who lowered it, or null if
 * it is not lowered.
 */
export function requireClassAccess(
  caller: Caller,
  checked: CheckedExport,
  draft: Binding,
  before: Binding | null,
): string | null {
  const isolation = draft.policy.class;
  if (isolation === undefined || !lowersIsolation(isolation, checked.export)) return null;
  const unchanged = before !== null && before.class_lowered_by !== null && before.policy.class === isolation;
  if (unchanged && before.package_version === draft.package_version) return before.class_lowered_by;
  if (!caller.admin) throw new BackplaneError("binding.class_forbidden");
  // Inline code can do everything that the gateway can, in every org.
  if (isolation === "inline" && caller.actor !== HOST_ADMIN) {
    throw new BackplaneError(
      "binding.class_forbidden",
      "Only the admin token may run code inline, in the gateway's own process.",
      {
        fix: "Use class worker, or ask the operator of the gateway.",
      },
    );
  }
  return caller.actor;
}
