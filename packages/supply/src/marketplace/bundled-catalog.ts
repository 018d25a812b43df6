/**
 * The entries that come with the gateway. An entry is `available` only when its artifact is published, pinned and
 * signed; until then it states what is missing.
 */
import { MARKETPLACE_FORMAT, type MarketplaceCatalog } from "@backplane/contract/schema";

const PUBLISHER = { name: "Backplane" };
const HARNESS_PERMISSIONS = {
  network: "none",
  filesystem: "scratch",
  gateway_api_scopes: ["chains:read", "chains:write", "llm:invoke", "tools:invoke"],
} as const;
const HARNESS_REQUIREMENTS = [
  "Supports the modes start and resume; after a crash the harness continues from the conversation on the tape.",
  "Calls models only through the gateway's model endpoints, with the delegated token (llm:invoke).",
  "Calls tools only through the gateway's MCP endpoint, with the delegated token (tools:invoke).",
  "Writes its transcript to the chain, so that another harness can continue it.",
];

export const BUNDLED_CATALOG: MarketplaceCatalog = {
  format: MARKETPLACE_FORMAT,
  name: "Backplane",
  entries: [
    {
      id: "codex-harness",
      name: "OpenAI Codex Hosted Harness",
      description: "Runs OpenAI Codex as a harness, with the gateway's models, tools, approvals and records.",
      status: "contract-ready",
      reason:
        "No signed artifact with a dependency lock has been published yet. " +
        "The harness comes with Backplane: examples/codex",
      package: {
        package_id: "backplane/codex",
        version: "0.1.0",
        exports: [{ id: "codex", kind: "harness" }],
      },
      publisher: PUBLISHER,
      review: { status: "unreviewed" },
      source: {
        references: [{ title: "@openai/codex", url: "https://www.npmjs.com/package/@openai/codex" }],
      },
      install_policy: { scope: "project" },
      permissions: {
        ...HARNESS_PERMISSIONS,
        gateway_api_scopes: [...HARNESS_PERMISSIONS.gateway_api_scopes],
      },
      tokens: 0,
      contract: { kind: "harness", document: "docs/harnesses.md", requirements: HARNESS_REQUIREMENTS },
    },
    {
      id: "opencode-harness",
      name: "OpenCode Hosted Harness",
      description:
        "Runs the OpenCode server as a harness, with the gateway's models, tools, approvals and records.",
      status: "contract-ready",
      reason:
        "No signed artifact with a dependency lock has been published yet. " +
        "The harness comes with Backplane: examples/opencode",
      package: {
        package_id: "backplane/opencode",
        version: "0.1.0",
        exports: [{ id: "opencode", kind: "harness" }],
      },
      publisher: PUBLISHER,
      review: { status: "unreviewed" },
      source: {
        references: [
          { title: "opencode-ai", url: "https://www.npmjs.com/package/opencode-ai" },
          { title: "@opencode-ai/sdk", url: "https://www.npmjs.com/package/@opencode-ai/sdk" },
        ],
      },
      install_policy: { scope: "project" },
      permissions: {
        ...HARNESS_PERMISSIONS,
        gateway_api_scopes: [...HARNESS_PERMISSIONS.gateway_api_scopes],
      },
      tokens: 0,
      contract: { kind: "harness", document: "docs/harnesses.md", requirements: HARNESS_REQUIREMENTS },
    },
    {
      id: "thread-weave",
      name: "Thread Weave Compactor",
      description:
        "Keeps recent coding context unchanged; older history becomes one block per topic that names its entries.",
      status: "contract-ready",
      reason:
        "No signed artifact has been published yet. " +
        "The compactor comes with Backplane: backplane plugin install example:thread-weave --bind",
      package: {
        package_id: "backplane/thread-weave",
        version: "0.1.0",
        exports: [{ id: "thread_weave", kind: "compactor" }],
      },
      publisher: PUBLISHER,
      review: { status: "unreviewed" },
      source: { license: "Apache-2.0" },
      install_policy: { scope: "project" },
      permissions: { filesystem: "scratch" },
      tokens: 0,
      contract: {
        kind: "compactor",
        document: "spec/protocol.md",
        requirements: [
          "Returns seed blocks, a summary and diagnostics, and keeps pinned entries and system messages.",
        ],
      },
    },
  ],
};
