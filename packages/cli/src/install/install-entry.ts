/**
 * Installs an entry of the marketplace. The request names the artifact of the card that was shown, because a catalog can
 * replace the card at any time.
 */
import { codeOf, definedFields, type Installation } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { canAsk, confirm } from "../terminal/prompts.ts";
import { describeApproval } from "./card-text.ts";
import { interruptedInstallationError } from "./send-installation.ts";

interface EntrySettings {
  bind?: boolean | undefined;
  org_wide?: boolean | undefined;
  dry_run?: boolean | undefined;
}

/** With `asks`, a person at a terminal has to confirm the card. */
export async function installEntry(
  context: CommandContext,
  id: string,
  settings: EntrySettings,
  { asks }: { asks: boolean },
): Promise<Installation> {
  const { io, flags, out } = context;
  const { marketplace } = context.client();
  const card = await marketplace.get(id);
  // The gateway explains why an entry cannot be installed. A dry run shows the package itself.
  if (card.installable && settings.dry_run !== true) {
    for (const line of describeApproval(card)) out.note(line);
    if (asks && canAsk(io, flags)) await confirm(io, flags, `Install ${card.name} ${card.package.version}?`);
  }
  const oci = card.oci === null ? {} : { oci: card.oci };
  try {
    return await marketplace.install(id, { ...definedFields(settings), ...oci });
  } catch (error) {
    if (codeOf(error) !== "request.cancelled") throw error;
    throw interruptedInstallationError(error, `marketplace:${id}`);
  }
}
