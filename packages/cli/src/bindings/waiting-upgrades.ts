/** Upgrades that await a decision, for the commands that list pending work. */
import { codeOf, type WaitingUpgrade } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** Empty if the credential may not read bindings, or if an older gateway does not list them. */
export async function listWaitingUpgrades(context: CommandContext): Promise<WaitingUpgrade[]> {
  try {
    return await context.client().bindings.waitingUpgrades();
  } catch (error) {
    const code = codeOf(error);
    if (code === "auth.scope" || code === "route.not_found") return [];
    throw error;
  }
}

export function noteWaitingUpgrades({ out }: CommandContext, waiting: readonly WaitingUpgrade[]): void {
  for (const { message, fix } of waiting) {
    out.note(plainLine(`Upgrade: ${message}`));
    out.note(plainLine(`fix: ${fix}`));
  }
}
