import type { Invocation } from "@backplane/contract";

/** Why the delivery has to be retried after this call; null after `ack` and after the hook's own `failed` (inv.retry). */
export function retryReasonOf(call: Pick<Invocation, "status" | "error">): string | null {
  return call.status === "succeeded" || hasFailedPermanently(call) ? null : describeError(call);
}

/** The error of a hook that returned `failed`, which completes the delivery; null for any other outcome. */
export function finalErrorOf(call: Pick<Invocation, "status" | "error">): string | null {
  return hasFailedPermanently(call) ? describeError(call) : null;
}

function hasFailedPermanently({ status, error }: Pick<Invocation, "status" | "error">): boolean {
  return status === "failed" && error?.code === "plugin_failed";
}

function describeError({ status, error }: Pick<Invocation, "status" | "error">): string {
  return `${error?.code ?? status}: ${error?.message ?? ""}`;
}
