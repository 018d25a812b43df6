import type { Invocation } from "@backplane/contract";

/** Why an ended call has to be delivered again; null after `ack` and after the hook's own `failed` (inv.retry). */
export function retryReason(ended: Pick<Invocation, "status" | "error">): string | null {
  return ended.status === "succeeded" || hasFailedPermanently(ended) ? null : errorText(ended);
}

/** The error of a hook that answered `failed`. Such a delivery is complete; the text describes the failure. */
export function finalError(ended: Pick<Invocation, "status" | "error">): string | null {
  return hasFailedPermanently(ended) ? errorText(ended) : null;
}

function hasFailedPermanently({ status, error }: Pick<Invocation, "status" | "error">): boolean {
  return status === "failed" && error?.code === "plugin_failed";
}

function errorText({ status, error }: Pick<Invocation, "status" | "error">): string {
  return `${error?.code ?? status}: ${error?.message ?? ""}`;
}
