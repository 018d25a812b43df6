/** The services `pin.*` for the bundled pin tool. They act on the session of the turn that called the tool. */

import { BackplaneError, type Json } from "@backplane/contract";
import type { Pins } from "../compaction/pins.ts";
import type { Turn } from "../loop/turn.ts";
import type { KernelService, ServiceIdentity } from "../plugins/plugins-port.ts";
import { integer, optional, text } from "./arguments.ts";

export function createPinServices(
  pins: Pins,
  findTurn: (invocation_id: string) => Turn | undefined,
): [string, KernelService][] {
  const requireTurn = ({ call }: ServiceIdentity): Turn => {
    const turn = call === null ? undefined : findTurn(call.invocation_id);
    if (turn === undefined)
      throw new BackplaneError("request.invalid", "Pins can only be used in a tool call of a running turn.");
    return turn;
  };
  return [
    ["pin.list", async (_args, identity) => (await pins.list(requireTurn(identity).key)) as unknown as Json],
    [
      "pin.add",
      async (args, identity) => {
        const { key, caller } = requireTurn(identity);
        const { entry_id = await pins.findByText(key, optional(args, "quote", text).quote) } = optional(
          args,
          "entry_id",
          integer,
        );
        return (await pins.pin(key, caller, entry_id)) as unknown as Json;
      },
    ],
    ["pin.remove", (args, identity) => pins.unpin(requireTurn(identity).key, integer(args, "entry_id"))],
  ];
}
