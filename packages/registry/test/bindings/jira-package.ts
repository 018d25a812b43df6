/** A package whose tool has a config schema and a secret slot. */
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";

export const jira = manifest(
  [
    toolExport("jira_search", {
      config_schema: "schemas/config.json",
      permissions: { network: "egress", secret_slots: ["jira_token"] },
    }),
  ],
  {},
);
export const schemas = {
  "schemas/config.json": {
    type: "object",
    required: ["base_url"],
    properties: { base_url: { type: "string" }, max_results: { type: "integer", maximum: 50 } },
    additionalProperties: false,
  },
};
export const config = { base_url: "https://acme.atlassian.net", max_results: 10 };
