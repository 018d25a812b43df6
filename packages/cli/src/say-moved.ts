/** What a move to another version kept, dropped and held back, with the command that gives it again. */
import type { Binding } from "@backplane/contract";
import type { Context } from "./context.ts";
import { plainLine } from "./plain-text.ts";

export function sayMoved({ out }: Context, binding: Binding): void {
  const { binding_id, package_version, previous } = binding;
  if (previous === undefined) return;
  const set = `backplane binding set ${binding_id}`;
  const lines = [
    `${binding_id} moved from ${previous.package_version} to ${package_version}; its other settings stay. Back: backplane binding rollback ${binding_id}`,
  ];
  if (previous.trust_dropped.includes("host_target"))
    lines.push(`It may no longer run on the host; if you trust this version too: ${set} --host-target`);
  if (previous.trust_dropped.includes("class"))
    lines.push(
      `Its class is the usual one again; if you trust this version too: ${set} --class ${previous.policy.class}`,
    );
  if (previous.permissions_held.length > 0)
    lines.push(
      `This version asks for more (${previous.permissions_held.join(", ")}) and does not get it; to give it: ${set} --grant-requested`,
    );
  for (const line of lines) out.note(plainLine(line));
}
