/**
 * The tool. Its schemas are literals, so `input` and `call.config` are typed; a test compares them with
 * schemas/.
 */
import { definePlugin, tool } from "@backplane/sdk";

const hello = tool({
  id: "hello",
  input: {
    type: "object",
    properties: {
      name: { type: "string", minLength: 1, maxLength: 100, description: "Who to greet" },
      delay_ms: {
        type: "integer",
        minimum: 0,
        maximum: 60_000,
        description: "How long to wait before answering, in milliseconds",
      },
    },
    required: ["name"],
    additionalProperties: false,
  },
  output: {
    type: "object",
    properties: { greeting: { type: "string" } },
    required: ["greeting"],
    additionalProperties: false,
  },
  config: {
    type: "object",
    properties: {
      greeting: { type: "string", minLength: 1, maxLength: 40, description: "The word before the name" },
    },
    additionalProperties: false,
  },
  async run(input, call) {
    call.progress(`greeting ${input.name}`);
    if (input.delay_ms !== undefined) await call.sleep(input.delay_ms);
    return { greeting: `${call.config.greeting ?? "Hello"}, ${input.name}!` };
  },
});

export const plugin = definePlugin({ package_id: "acme/hello", version: "0.1.0", exports: [hello] });
