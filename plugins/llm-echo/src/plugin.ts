/**
 * The offline model: no key, no network. It echoes, or follows the script in the user's message (script.ts),
 * so that a person or a test can drive the whole loop with its tools, approvals and errors.
 */
import { llmProviderPlugin, MODELS_FIELD } from "@backplane/sdk/kernel";
import { answer, ScriptedErrors } from "./answer.ts";

export const plugin = llmProviderPlugin({
  name: "llm-echo",
  version: "0.1.0",
  configSchema: {
    type: "object",
    title: "Echo (offline)",
    properties: {
      model: { type: "string", title: "Model", description: "Any name; answers report it.", default: "echo" },
      models: MODELS_FIELD,
    },
    additionalProperties: false,
  },
  create() {
    const errors = new ScriptedErrors();
    return { generate: (request) => answer(request, errors) };
  },
});
