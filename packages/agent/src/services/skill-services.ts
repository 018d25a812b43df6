/** The services `skill.*` for the bundled skill tool. They act in the scope of the call that the tool handles. */

import { BackplaneError, type Json } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type { Skills } from "@backplane/registry";
import type { KernelService, ServiceIdentity } from "../plugins/plugins-port.ts";
import { optional, text } from "./arguments.ts";

export function createSkillServices(skills: Skills): [string, KernelService][] {
  return [
    ["skill.list", async (_args, identity) => (await skills.list(scopeOf(identity))) as Json],
    [
      "skill.read",
      async (args, identity) => {
        const { file } = optional(args, "file", text);
        return (await skills.read(scopeOf(identity), text(args, "name"), file)) as unknown as Json;
      },
    ],
  ];
}

function scopeOf({ caller, call }: ServiceIdentity): Scope {
  const scope = caller?.scope ?? call?.scope;
  if (scope === undefined)
    throw new BackplaneError("request.invalid", "Skills can only be read during a tool call.");
  return scope;
}
