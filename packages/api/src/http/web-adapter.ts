/**
 * The chat page and its socket belong to the bundled web adapter: they are unavailable while the operator has disabled
 * it (plug.web-adapter), and available again as soon as it is enabled.
 */
import { BackplaneError } from "@backplane/contract";
import type { Kernel } from "@backplane/ports";

export const WEB_ADAPTER = "web";

export function requireWebAdapter(adapters: Pick<Kernel["adapters"], "isDisabled">): void {
  if (!adapters.isDisabled(WEB_ADAPTER)) return;
  throw new BackplaneError("route.not_found", "The web adapter is disabled.", {
    fix: `Run \`backplane plugin enable ${WEB_ADAPTER}\`.`,
  });
}
