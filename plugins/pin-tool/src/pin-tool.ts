/** The `pin` tool: keeps messages and tool results of the conversation through every compaction. */
import {
  codeOf,
  type Json,
  type JsonObject,
  type KernelTool,
  kernelTool,
  markdownBlock,
  type PluginContext,
  toolError,
  toolOk,
} from "@backplane/sdk/kernel";

const PARAMETERS = {
  type: "object",
  properties: {
    action: { type: "string", enum: ["list", "pin", "unpin"], description: "What to do. Default: pin." },
    quote: {
      type: "string",
      minLength: 1,
      maxLength: 2000,
      description:
        "Exact words of the message or tool result to pin. If omitted, the last message of the user is pinned.",
    },
    entry_id: { type: "integer", minimum: 1, description: "The entry to unpin, as shown by `list`." },
  },
  additionalProperties: false,
} as const;

interface Pin {
  entry_id: number;
  text: string;
}

export function pinTool(ctx: PluginContext): KernelTool {
  return kernelTool({
    name: "pin",
    description:
      "Pins a message or tool result, so that it stays in this conversation word for word when older messages are summarized. Also lists and removes pins.",
    parameters: PARAMETERS,
    requires_approval: false,
    effect_class: "idempotent_write",
    timeout_ms: 15_000,
    async run({ action = "pin", quote, entry_id }, call) {
      const service = (name: string, args: JsonObject): Promise<Json> => ctx.service(name, args, call.as);
      try {
        if (action === "list") return buildListOutput((await service("pin.list", {})) as unknown as Pin[]);
        if (action === "unpin") {
          if (entry_id === undefined) return toolError("validation", "entry_id is missing");
          const removed = await service("pin.remove", { entry_id });
          return toolOk(removed === true ? `unpinned entry ${entry_id}` : `entry ${entry_id} is not pinned`);
        }
        const target: JsonObject = { ...(quote && { quote }), ...(entry_id && { entry_id }) };
        const pin = (await service("pin.add", target)) as unknown as Pin;
        return toolOk(`pinned entry ${pin.entry_id}`);
      } catch (error) {
        const kind = codeOf(error) === "request.invalid" ? "validation" : "internal";
        return toolError(kind, (error as Error).message);
      }
    },
  });
}

function buildListOutput(pins: readonly Pin[]) {
  const lines = pins.map(({ entry_id, text }) => `- entry ${entry_id}: ${text.replace(/\s+/g, " ")}`);
  const text = lines.length === 0 ? "Nothing is pinned." : lines.join("\n");
  return toolOk({ brief: `${pins.length} pinned`, display: markdownBlock(text) });
}
